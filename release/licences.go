package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// licences returns the licence of fairsem, and one file with those of Go and of every module that is part of the command on any
// system: most ask for that in copies of a program.
func (b *build) licences(ctx context.Context) ([]file, error) {
	own, err := os.ReadFile(filepath.Join(b.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	parts, err := b.parts(ctx)
	if err != nil {
		return nil, err
	}
	var others strings.Builder
	for _, m := range parts {
		if err := appendLicences(&others, m); err != nil {
			return nil, err
		}
	}
	return []file{{"LICENSE", own, 0o644}, {"THIRD_PARTY_LICENSES", []byte(others.String()), 0o644}}, nil
}

type part struct{ Path, Version, Dir string }

// parts returns Go itself and the modules that the command is built with, in a fixed order and each once.
func (b *build) parts(ctx context.Context) (all []part, err error) {
	root, err := b.compiler.run(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all = append(all, part{"Go", "", root})
	seen := make(map[string]bool)
	for _, target := range allTargets {
		system, arch, _ := strings.Cut(target, "/")
		at := in(b.compiler.dir, append(b.compiler.env, "GOOS="+system, "GOARCH="+arch)...)
		list, err := at.run(ctx, "go", "list", "-deps", "-json=Module", ".")
		if err != nil {
			return nil, err
		}
		for decoder := json.NewDecoder(strings.NewReader(list)); ; {
			var p struct {
				Module *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if m := p.Module; m != nil && !m.Main && !seen[m.Path] {
				seen[m.Path] = true
				all = append(all, part{m.Path, m.Version, m.Dir})
			}
		}
	}
	return all, nil
}

func appendLicences(to *strings.Builder, m part) error {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return err
	}
	found := false
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, entry.Name()))
		if err != nil {
			return err
		}
		found = true
		title := strings.TrimSpace(m.Path + " " + m.Version)
		fmt.Fprintf(to, "==== %s: %s ====\n\n%s\n\n", title, entry.Name(), strings.TrimSpace(string(text)))
	}
	if !found {
		return fmt.Errorf("%s has no file with its licence, which a copy of the command has to contain", m.Path)
	}
	return nil
}
