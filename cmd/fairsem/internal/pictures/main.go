// Command pictures makes the pictures of the docs: the screen of fairsem top, the page of fairsem serve, and a recording of
// fairsem demo. All of it is real: a Redis, processes that share limits, a terminal and a browser. make pictures runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fairsem/fairsem/internal/redistest"
)

func main() {
	program := flag.String("fairsem", "", "the program to be shown")
	out := flag.String("out", "", "the folder for the pictures")
	warm := flag.Duration("for", time.Minute, "how long the processes work before the pictures are taken")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := makeAll(ctx, *program, *out, *warm)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// makeAll makes the pictures one after the other, so that the machine is not busy with others.
func makeAll(ctx context.Context, program, out string, warm time.Duration) error {
	for _, name := range []string{"tmux", "chromium"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("make setup installs it: %w", err)
		}
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // a folder of the repository
		return err
	}
	if err := recordDemo(ctx, program, out); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return showWork(ctx, program, out, warm)
}

// showWork takes the pictures of top and of serve while processes work.
func showWork(ctx context.Context, program, out string, warm time.Duration) (err error) {
	server, err := redistest.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	scene, err := newScene(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scene.close()) }()

	page, err := startServe(ctx, program, server.Addr())
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	defer page.stop()
	if err := pause(ctx, warm); err != nil {
		return err
	}
	if err := page.shoot(ctx, filepath.Join(out, "serve.png")); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	if err := shootTop(ctx, program, server.Addr(), filepath.Join(out, "top.svg")); err != nil {
		return fmt.Errorf("top: %w", err)
	}
	return nil
}

// pause is time.Sleep that ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
