package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A folder is where programs run, and with which variables beside those of this process.
type folder struct {
	dir     string
	env     []string
	isApart bool
}

func in(dir string, env ...string) folder { return folder{dir: dir, env: env} }

// apart is the same folder for programs that no key of the terminal interrupts. Ctrl-C otherwise goes to all that a command has started.
func (f folder) apart() folder {
	f.isApart = true
	return f
}

// path returns the path of a file of the folder, which is named with slashes.
func (f folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// run runs a program and returns its output, without the space at the end. The error has its standard error,
// or all of its output: go has its errors in JSON if it is to write that.
func (f folder) run(ctx context.Context, name string, args ...string) (string, error) {
	return f.feed(ctx, "", name, args...)
}

// feed is run for a program that reads its standard input.
func (f folder) feed(ctx context.Context, input, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = f.dir, strings.NewReader(input), &out, &errs
	cmd.Env = append(os.Environ(), f.env...)
	if f.isApart {
		cmd.SysProcAttr = ownGroup()
	}
	if err := cmd.Run(); err != nil {
		said := cmp.Or(strings.TrimSpace(errs.String()), strings.TrimSpace(out.String()))
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said)
	}
	return strings.TrimSpace(out.String()), nil
}

// cloneTo makes a clone of the repository with the files of its commits, byte for byte: core.autocrlf changes the ends of lines.
func (f folder) cloneTo(ctx context.Context, dir string, options ...string) error {
	args := append([]string{"clone", "-q", "--config", "core.autocrlf=false"}, options...)
	_, err := f.run(ctx, "git", append(args, f.dir, dir)...)
	return err
}

// goJSON runs a go command that writes JSON.
func (f folder) goJSON(ctx context.Context, into any, args ...string) error {
	out, err := f.run(ctx, "go", args...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}
