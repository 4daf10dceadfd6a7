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

// A checker that has never failed proves nothing. Each patch breaks the library in one way that others
// got wrong before, and names the promise that has to turn red and the fault under which it does.
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

// variants reads all patches.
func variants() ([]variant, error) {
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
		if err := v.head(); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, v)
	}
	return all, nil
}

// head takes what stands before the patch.
func (v *variant) head() error {
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
		return fmt.Errorf("it turns %q red, which no checker looks at", v.red)
	case v.under.strike == nil:
		return errors.New("there is no such fault")
	case !v.under.holds(v.red):
		return fmt.Errorf("%s is not promised under %s", v.red, v.under.name)
	}
	return nil
}

// build makes a worker of the patched library in a folder, and returns its path.
func (v variant) build(ctx context.Context, folder string) (string, error) {
	if err := v.apply(ctx, folder); err != nil {
		return "", err
	}
	worker := filepath.Join(folder, "worker")
	for _, args := range [][]string{
		{"mod", "edit", "-replace=github.com/fairsem/fairsem=.."}, // what go.work does for the original
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
	// One line of context: a patch has to outlive changes beside it.
	cmd := exec.CommandContext(ctx, "git", "apply", "-C1")
	cmd.Dir, cmd.Stdin = folder, bytes.NewReader(v.patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply %s: %w: %s", v.name, err, out)
	}
	return nil
}

// copyFiles copies what matches in one folder to another.
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

// tries is how many runs a variant gets to show itself: a fault does not strike at the worst moment
// every time.
const tries = 12

// expose builds the variant and plays until its checker is red. It returns what showed it.
func (v variant) expose(ctx context.Context, s settings) (shown string, err error) {
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
		e, err := run{fault: v.under, seed: s.Seed + uint64(i), length: s.Length, binary: worker}.play(ctx)
		if err != nil {
			return "", err
		}
		if found := checks[v.red](e); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%s: %s stays green in %d runs under %s", v.name, v.red, tries, v.under.name)
}

// exposeAll shows that every variant is found out.
func exposeAll(ctx context.Context, s settings, stdout io.Writer) error {
	all, err := variants()
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	seats := make(chan struct{}, s.Parallel)
	var playing sync.WaitGroup
	for i, v := range all {
		if !s.only.MatchString(v.name) {
			continue
		}
		seats <- struct{}{}
		playing.Go(func() { // ends with the runs
			defer func() { <-seats }()
			var shown string
			if shown, errs[i] = v.expose(ctx, s); errs[i] == nil {
				_, _ = fmt.Fprintf(stdout, "%s turns %s red under %s: %s\n", v.name, v.red, v.under.name, shown) // there is nobody else to tell
			}
		})
	}
	playing.Wait()
	return errors.Join(errs...)
}
