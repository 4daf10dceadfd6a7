package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// A checker that has never failed proves nothing. Each patch breaks the library in one way. It names the promise that is then
// broken, and the fault under which the checker must find it.
//
//go:embed broken/*.patch
var patches embed.FS

// variant is the library with one patch.
type variant struct {
	name  string
	patch []byte
	red   promise
	under fault
}

// allVariants reads all patches.
func allVariants() ([]variant, error) {
	entries, err := patches.ReadDir("broken")
	if err != nil {
		return nil, err
	}
	var all []variant
	for _, entry := range entries {
		v := variant{name: strings.TrimSuffix(entry.Name(), ".patch")}
		if v.patch, err = patches.ReadFile("broken/" + entry.Name()); err != nil {
			return nil, err
		}
		if err := v.parseHead(); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, v)
	}
	return all, nil
}

// parseHead parses the lines before the patch.
func (v *variant) parseHead() error {
	for line := range strings.Lines(string(v.patch)) {
		if red, ok := strings.CutPrefix(line, "Red: "); ok {
			v.red = promise(strings.TrimSpace(red))
		}
		if under, ok := strings.CutPrefix(line, "Under: "); ok {
			for _, f := range faults() {
				if f.name+", "+f.kind == strings.TrimSpace(under) {
					v.under = f
				}
			}
		}
	}
	switch {
	case checks[v.red] == nil:
		return fmt.Errorf("no checker for the promise %q", v.red)
	case v.under.strike == nil:
		return errors.New("the fault after Under: does not exist")
	case !v.under.promises(v.red):
		return fmt.Errorf("%s is not promised under %s", v.red, v.under.name)
	}
	return nil
}

// build builds a worker with the patched library in a folder and returns its path.
func (v variant) build(ctx context.Context, folder string) (string, error) {
	if err := v.apply(ctx, folder); err != nil {
		return "", err
	}
	worker := filepath.Join(folder, "worker")
	for _, args := range [][]string{
		{"mod", "edit", "-replace=github.com/fairsem/fairsem=.."}, // as go.work does for the original
		{"build", "-o", worker, "."},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = filepath.Join(folder, "chaos"), append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: go %s: %w: %s", v.name, args[0], err, out)
		}
	}
	return worker, nil
}

// apply copies the library into a folder and patches it there.
func (v variant) apply(ctx context.Context, folder string) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/fairsem/fairsem").Output()
	if err != nil {
		return fmt.Errorf("find the library: %w", err)
	}
	root := strings.TrimSpace(string(out))
	for _, part := range []string{"scripts", "internal", "chaos"} {
		if err := os.CopyFS(filepath.Join(folder, part), os.DirFS(filepath.Join(root, part))); err != nil {
			return err
		}
	}
	if err := copyFiles(root, folder, "*.go", "go.mod", "go.sum"); err != nil {
		return err
	}
	// One line of context is enough: a patch must still apply when neighbouring lines change.
	cmd := exec.CommandContext(ctx, "git", "apply", "-C1")
	cmd.Dir, cmd.Stdin = folder, bytes.NewReader(v.patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply %s: %w: %s", v.name, err, out)
	}
	return nil
}

// copyFiles copies the files that match from one folder to another.
func copyFiles(from, to string, patterns ...string) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, filepath.Base(path)), text, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// tries is the maximal number of runs of a variant: a fault does not strike at the worst moment in every run.
const tries = 12

// findBroken builds the variant and executes runs until its checker reports a violation, which it returns.
func (v variant) findBroken(ctx context.Context, s settings) (shown string, err error) {
	folder, err := os.MkdirTemp("", "fairsem-broken-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	worker, err := v.build(ctx, folder)
	if err != nil {
		return "", err
	}
	for i := range tries {
		e, err := run{fault: v.under, seed: s.Seed + uint64(i), length: s.Length, binary: worker}.execute(ctx)
		if err != nil {
			return "", err
		}
		if found := checks[v.red](e); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%s: %s stays green in %d runs under %s", v.name, v.red, tries, v.under.name)
}

// findAllBroken returns an error unless the checkers find every variant.
func findAllBroken(ctx context.Context, s settings, stdout io.Writer) error {
	all, err := allVariants()
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	slots := make(chan struct{}, s.Parallel)
	var playing sync.WaitGroup
	for i, v := range all {
		if !s.only.MatchString(v.name) {
			continue
		}
		slots <- struct{}{}
		playing.Go(func() { // ends with the runs
			defer func() { <-slots }()
			var shown string
			if shown, errs[i] = v.findBroken(ctx, s); errs[i] == nil {
				_, _ = fmt.Fprintf(stdout, "%s turns %s red under %s: %s\n", v.name, v.red, v.under.name, shown) // an error of stdout cannot be reported
			}
		})
	}
	playing.Wait()
	return errors.Join(errs...)
}
