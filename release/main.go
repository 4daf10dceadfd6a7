// Command release makes a release of the modules of this repository: changelog, requirements, commit and tags, and static
// binaries of the command. README.md describes the steps.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `usage:
  release cut VERSION       make the release: a commit on main and its tags; nothing is pushed
  release check [VERSION]   the same in a temporary clone, which is thrown away; by default of the next minor version
  release tidy              go mod tidy in every module, with the library of this folder
  release api               write down the exported API, with which the tests compare what it is
  release binaries [flags]  static binaries of the command, for each system an archive`

// A usageError is a mistake in the command line.
type usageError string

func (e usageError) Error() string { return string(e) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return usageError(usage)
	}
	root, err := in(".").run(ctx, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	name, args := args[0], args[1:]
	switch {
	case name == "cut" && len(args) == 1:
		return cut(ctx, root, args[0], out)
	case name == "check" && len(args) <= 1:
		return check(ctx, root, strings.Join(args, ""), out)
	case name == "tidy" && len(args) == 0:
		return tidy(ctx, root)
	case name == "api" && len(args) == 0:
		return writeAPI(ctx, root)
	case name == "binaries":
		return binariesCommand(ctx, root, args, out)
	}
	return usageError(usage)
}

// complete prepares a release and tries all that users get of it.
func complete(ctx context.Context, root, version string) (*release, error) {
	r, err := prepare(ctx, root, version, time.Now())
	if err != nil {
		return nil, err
	}
	if err = r.buildPackages(ctx, r.w.modules()...); err == nil {
		err = r.buildCommand(ctx, allTargets...)
	}
	if err != nil {
		r.discard()
		return nil, err
	}
	return r, nil
}

// cut makes a release in the repository at root.
func cut(ctx context.Context, root, version string, out io.Writer) error {
	r, err := complete(ctx, root, version)
	if err != nil {
		return err
	}
	defer r.discard()
	if err := r.publish(ctx); err != nil {
		return err
	}
	tags := strings.Join(r.tags(), " ")
	_, err = fmt.Fprintf(out, `Nothing is pushed. To publish %[1]s:

    git push --atomic origin main %[2]s

To undo it instead:

    git tag -d %[2]s && git reset --keep HEAD~1
`, version, tags)
	return err
}

// check makes the release of a version in a clone and shows the changes of its commit. "" is the next minor version.
func check(ctx context.Context, root, version string, out io.Writer) error {
	if version == "" {
		var err error
		if version, err = nextMinor(ctx, in(root)); err != nil {
			return err
		}
	}
	r, err := complete(ctx, root, version)
	if err != nil {
		return err
	}
	defer r.discard()
	changed, err := r.clone.run(ctx, "git", "show", "--stat", "--format=%s%n%n%b", "HEAD")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n\n%s can be released: make release VERSION=%[2]s. This was a dry run, nothing of it is left.\n", changed, version)
	return err
}

func binariesCommand(ctx context.Context, root string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("binaries", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	dir := flags.String("out", "dist", "")
	targets := flags.String("targets", strings.Join(allTargets, ","), "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return usageError("usage: release binaries [-out DIR] [-targets OS/ARCH,...]")
	}
	files, err := binaries(ctx, root, *dir, strings.Split(*targets, ","))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := fmt.Fprintf(out, "%9d  %s\n", file.size, file.path); err != nil {
			return err
		}
	}
	return nil
}
