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

// licences returns the licence of fairsem, and one file with those of Go and of all code of others that is part of the command on any
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

// A part is a folder of a module. Code that a module has from elsewhere has a folder with a licence of its own.
type part struct {
	Path, Version, Dir string
	whole              bool // the top folder of the module
}

// parts returns Go itself and the folders of the packages that the command is built with, and those around them, in a fixed order and each
// once.
func (b *build) parts(ctx context.Context) (all []part, err error) {
	root, err := b.compiler.run(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all = append(all, part{"Go", "", root, true})
	seen := make(map[string]bool)
	for _, target := range allTargets {
		system, arch, _ := strings.Cut(target, "/")
		at := in(b.compiler.dir, append(b.compiler.env, "GOOS="+system, "GOARCH="+arch)...)
		list, err := at.run(ctx, "go", "list", "-deps", "-json=Dir,Module", ".")
		if err != nil {
			return nil, err
		}
		for decoder := json.NewDecoder(strings.NewReader(list)); ; {
			var p struct {
				Dir    string
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
			m := p.Module
			if m == nil || m.Main {
				continue
			}
			for dir := p.Dir; !seen[dir]; dir = filepath.Dir(dir) {
				seen[dir] = true
				whole := dir == m.Dir
				all = append(all, part{m.Path + filepath.ToSlash(strings.TrimPrefix(dir, m.Dir)), m.Version, dir, whole})
				if whole {
					break
				}
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
	if m.whole && !found {
		return fmt.Errorf("%s has no file with its licence, which a copy of the command has to contain", m.Path)
	}
	return nil
}
