package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patience is how long to wait for a screen to show an expected text; only a hang takes longer.
const patience = time.Minute

// size is that of a screen, in cells.
type size struct{ width, height int }

// terminal is a tmux of its own, in which a shell runs.
type terminal struct {
	size
	dir string
}

// openTerminal opens one in which the program and a server are known by the names that a reader would use.
func openTerminal(of size, program, redisURL string) (*terminal, error) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	t := &terminal{of, dir}
	cmd := t.command("-f", os.DevNull, "-u", "new-session", "-d", "-x", strconv.Itoa(of.width), "-y", strconv.Itoa(of.height),
		"bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(os.Environ(), "PS1=$ ", "LC_ALL=C.UTF-8", "COLORTERM=truecolor", "NO_COLOR=",
		"REDIS_URL="+redisURL, "PATH="+filepath.Dir(program)+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("tmux: %w: %s", err, out), t.close())
	}
	if err := t.command("run-shell", "-b", "-d", "900", "-C", "kill-server").Run(); err != nil { // also where this process is killed
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *terminal) command(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-S", filepath.Join(t.dir, "s")}, args...)...)
}

func (t *terminal) close() error {
	_ = t.command("kill-server").Run() // it may have ended with its shell
	return os.RemoveAll(t.dir)
}

// enter types a line on an empty screen.
func (t *terminal) enter(line string) error {
	if err := t.await(context.Background(), "$"); err != nil {
		return err
	}
	return errors.Join(t.command("send-keys", "-l", "--", "clear; "+line).Run(), t.command("send-keys", "Enter").Run())
}

// screen returns the contents of the terminal, with colours.
func (t *terminal) screen() (string, error) {
	out, err := t.command("capture-pane", "-e", "-p").Output()
	return string(out), err
}

// await waits until a text is on the screen.
func (t *terminal) await(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		screen, err := t.screen()
		if err != nil || strings.Contains(plain(screen), text) {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the screen never shows %q:\n%s", text, screen)
		}
	}
}

// shootTop writes the screen of top.
func shootTop(ctx context.Context, program, addr, file string) (err error) {
	t, err := openTerminal(size{100, 14}, program, "redis://"+addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.enter("fairsem top --sort name"); err != nil {
		return err
	}
	if err := t.await(ctx, "staging"); err != nil {
		return err
	}
	if err := pause(ctx, 15*time.Second); err != nil { // for rates: top shows what has happened since it began
		return err
	}
	screen, err := t.screen()
	if err != nil {
		return err
	}
	return os.WriteFile(file, still("fairsem top", t.size, screen), 0o644) //nolint:gosec // a picture of the repository
}
