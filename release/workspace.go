package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// command is the folder of the module with the command.
const command = "cmd/fairsem"

// tools are the folders of the modules for developers of fairsem. The others are for users: they get tags, as the library does.
var tools = []string{"bench", "chaos", "release"}

// A workspace is the contents of go.work and the go.mod files.
type workspace struct {
	library    string   // its module path
	goVersion  string   // the least that the workspace needs
	required   string   // the version of the library that go.work replaces with this folder
	dependents []string // the folders of the modules that require the library
}

// modules returns the folders of the modules for users, beside the library.
func (w *workspace) modules() []string {
	return slices.DeleteFunc(slices.Clone(w.dependents), func(dir string) bool { return slices.Contains(tools, dir) })
}

// tags returns the tags of a version: that of the library first, and those of the other modules for users.
func (w *workspace) tags(version string) []string {
	tags := []string{version}
	for _, dir := range w.modules() {
		tags = append(tags, dir+"/"+version)
	}
	return tags
}

type goMod struct {
	Module  struct{ Path string }
	Require []struct{ Path, Version string }
	Replace []struct{ Old struct{ Path string } }
	Exclude []struct{ Path, Version string }
}

type goWork struct {
	Go      string
	Use     []struct{ DiskPath string }
	Replace []struct {
		Old struct{ Path, Version string }
	}
}

// readWorkspace fails if the modules are such that a release of them cannot be installed.
func readWorkspace(ctx context.Context, repository folder) (w workspace, err error) {
	var work goWork
	if err := repository.goJSON(ctx, &work, "work", "edit", "-json", "go.work"); err != nil {
		return w, err
	}
	var root goMod
	if err := repository.goJSON(ctx, &root, "mod", "edit", "-json", "go.mod"); err != nil {
		return w, err
	}
	w.library, w.goVersion = root.Module.Path, work.Go
	for _, use := range work.Use {
		dir := path.Clean(use.DiskPath)
		if err := w.add(ctx, repository, dir); err != nil {
			return w, err
		}
	}
	for _, r := range work.Replace {
		if r.Old.Path == w.library {
			w.required = r.Old.Version
		}
	}
	if !slices.Contains(w.dependents, command) || w.required == "" {
		return w, fmt.Errorf("go.work has to list ./%s, and to replace the version of %s that it requires with this folder", command, w.library)
	}
	return w, nil
}

func (w *workspace) add(ctx context.Context, repository folder, dir string) error {
	file := path.Join(dir, "go.mod")
	var mod goMod
	if err := repository.goJSON(ctx, &mod, "mod", "edit", "-json", file); err != nil {
		return err
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		return fmt.Errorf("%s has a replace or an exclude, with which go install refuses a module: remove it, go.work serves this folder", file)
	}
	for _, r := range mod.Require {
		if r.Path == w.library {
			w.dependents = append(w.dependents, dir)
		}
	}
	return nil
}

// require has every module require a version of the library, and go.work replace that version with this folder.
func (w *workspace) require(ctx context.Context, repository folder, version string) error {
	for _, dir := range w.dependents {
		if _, err := repository.run(ctx, "go", "mod", "edit", "-require="+w.library+"@"+version, path.Join(dir, "go.mod")); err != nil {
			return err
		}
	}
	_, err := repository.run(ctx, "go", "work", "edit", "-dropreplace="+w.library+"@"+w.required, "-replace="+w.library+"@"+version+"=./", "go.work")
	w.required = version
	return err
}

// tidy is go mod tidy in every module, with the library of this folder: the version that is required need not be anywhere, and
// today's requirements of the library count.
func tidy(ctx context.Context, root string) error {
	repository := in(root)
	w, err := readWorkspace(ctx, repository)
	if err != nil {
		return err
	}
	if _, err := in(root, "GOWORK=off").run(ctx, "go", "mod", "tidy"); err != nil {
		return err
	}
	for _, dir := range w.dependents {
		if err := w.tidyModule(ctx, root, in(repository.path(dir), "GOWORK=off")); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// tidyModule leaves the sums of the released library, which a replace makes superfluous.
func (w *workspace) tidyModule(ctx context.Context, root string, at folder) (err error) {
	before, err := os.ReadFile(at.path("go.sum"))
	if err != nil {
		return err
	}
	if _, err := at.run(ctx, "go", "mod", "edit", "-replace="+w.library+"="+root); err != nil {
		return err
	}
	_, err = at.run(ctx, "go", "mod", "tidy")
	if _, dropped := at.run(context.WithoutCancel(ctx), "go", "mod", "edit", "-dropreplace="+w.library); err == nil {
		err = dropped
	}
	if err != nil {
		return err
	}
	after, err := os.ReadFile(at.path("go.sum"))
	if err != nil {
		return err
	}
	return os.WriteFile(at.path("go.sum"), []byte(withSums(string(after), string(before), w.library)), 0o644)
}

// withSums adds to a go.sum the lines of a module in another one, in the order of go.
func withSums(text, other, library string) string {
	lines := strings.SplitAfter(text, "\n")
	for line := range strings.Lines(other) {
		if strings.HasPrefix(line, library+" ") && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	slices.SortStableFunc(lines, func(a, b string) int {
		one, two := strings.Fields(a), strings.Fields(b)
		if one[0] != two[0] {
			return strings.Compare(one[0], two[0])
		}
		return compareSums(one[1], two[1])
	})
	return strings.Join(lines, "")
}

// withoutSums removes from a go.sum the lines of a module.
func withoutSums(text, library string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, library+" ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// compareSums orders versions, and v1.2.3 before v1.2.3/go.mod.
func compareSums(a, b string) int {
	versionA, fileA, _ := strings.Cut(a, "/")
	versionB, fileB, _ := strings.Cut(b, "/")
	if order := semver.Compare(versionA, versionB); order != 0 {
		return order
	}
	return strings.Compare(fileA, fileB)
}
