package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// allTargets are the systems that get an archive.
var allTargets = []string{
	"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "freebsd/amd64", "freebsd/arm64", "windows/amd64", "windows/arm64",
}

// A built file, with its size in bytes.
type built struct {
	path string
	size int
}

// A build is of one commit. The same commit and the same Go make the same bytes, in whatever folder and on whatever system.
type build struct {
	root     string // a clone of the repository at the commit
	work     string
	compiler folder // the module of the command, with the variables of all builds
	commit   time.Time
	pages    []file // manual pages, completions and licences, the same for all systems
	version  string
}

// binaries builds the command for systems, each given as OS/ARCH, into archives in a folder, with a file of their checksums. It is the
// command of the last commit, whatever files of the repository were changed or added since.
func binaries(ctx context.Context, root, out string, targets []string) (_ []built, err error) {
	for _, target := range targets {
		if !slices.Contains(allTargets, target) {
			return nil, usageError(fmt.Sprintf("target %q is none of %s", target, strings.Join(allTargets, ", ")))
		}
	}
	b := build{}
	if b.work, err = os.MkdirTemp("", "fairsem-binaries-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(b.work) }() // a temporary folder: leftovers cost only space
	b.root = filepath.Join(b.work, "clone")
	if err := in(root).cloneTo(ctx, b.root); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	var archives []file
	sums := ""
	for _, target := range targets {
		archive, err := b.archive(ctx, target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", target, err)
		}
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(archive.text), archive.name)
		archives = append(archives, archive)
	}
	return writeAll(out, append(archives, file{name: "fairsem_" + b.version + "_SHA256SUMS", text: []byte(sums)}))
}

// writeAll has a folder contain these files instead of those of an earlier build. Other files there stay.
func writeAll(out string, files []file) (made []built, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	earlier, err := filepath.Glob(filepath.Join(out, "fairsem_*"))
	if err != nil {
		return nil, err
	}
	for _, path := range earlier {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		path := filepath.Join(out, f.name)
		if err := os.WriteFile(path, f.text, 0o644); err != nil {
			return nil, err
		}
		made = append(made, built{path, len(f.text)})
	}
	return made, nil
}

// prepare makes the files that all archives share, with a command that runs on this machine.
func (b *build) prepare(ctx context.Context) error {
	if err := b.workspace(ctx); err != nil {
		return err
	}
	when, err := in(b.root).run(ctx, "git", "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return err
	}
	b.commit = time.Unix(seconds, 0)
	own, err := b.compile(ctx, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(own)
	if err != nil {
		return err
	}
	b.version = strings.TrimPrefix(info.Main.Version, "v")
	if b.pages, err = b.documents(ctx, own, when); err != nil {
		return err
	}
	licences, err := b.licences(ctx)
	b.pages = append(b.pages, licences...)
	return err
}

// workspace makes one of the command and the library alone: requirements of the other modules must not choose versions for users.
func (b *build) workspace(ctx context.Context) error {
	w, err := readWorkspace(ctx, in(b.root))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(b.root, "go.work.sum"))
	if err != nil {
		return err
	}
	at := in(b.work, "GOWORK=off")
	if err := os.WriteFile(at.path("go.work.sum"), sums, 0o644); err != nil {
		return err
	}
	work := fmt.Sprintf("go %s\n\nuse (\n\t%q\n\t%q\n)\n\nreplace %s %s => %q\n",
		w.goVersion, b.root, filepath.Join(b.root, command), w.library, w.required, b.root)
	if err := os.WriteFile(at.path("go.work"), []byte(work), 0o644); err != nil {
		return err
	}
	b.compiler = in(filepath.Join(b.root, command), "GOWORK="+at.path("go.work"), "GOFLAGS=", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off")
	return nil
}

// compile builds the command for a system, and returns the path of the program.
func (b *build) compile(ctx context.Context, target string) (string, error) {
	system, arch, _ := strings.Cut(target, "/")
	program := filepath.Join(b.work, system+"_"+arch, "fairsem")
	if system == "windows" {
		program += ".exe"
	}
	if _, err := os.Stat(program); err == nil {
		return program, nil // it was built for the documents
	}
	at := in(b.compiler.dir, append(b.compiler.env, "GOOS="+system, "GOARCH="+arch)...)
	_, err := at.run(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", program, ".")
	return program, err
}

func (b *build) archive(ctx context.Context, target string) (file, error) {
	program, err := b.compile(ctx, target)
	if err != nil {
		return file{}, err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return file{}, err
	}
	name := "fairsem_" + b.version + "_" + strings.Replace(target, "/", "_", 1)
	files := append([]file{{filepath.Base(program), text, 0o755}}, b.pages...)
	if strings.HasPrefix(target, "windows/") {
		text, err = zipped(files, b.commit)
		return file{name: name + ".zip", text: text}, err
	}
	text, err = tarred(files, b.commit)
	return file{name: name + ".tar.gz", text: text}, err
}

// documents returns the manual pages and the completions, which the command itself writes.
func (b *build) documents(ctx context.Context, program, epoch string) (files []file, err error) {
	pages := filepath.Join(b.work, "man1")
	if _, err := in(b.work, "SOURCE_DATE_EPOCH="+epoch).run(ctx, program, "man", "--dir", pages); err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(pages, "*.1"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"man1/" + filepath.Base(name), text, 0o644})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := in(b.work).run(ctx, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"completions/fairsem." + shell, []byte(text + "\n"), 0o644})
	}
	return files, nil
}
