//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

// bash is a shell with job control, and is the same on each machine.
var bash = []string{"bash", "--norc", "--noprofile", "-i"}

// tmux is a terminal that remembers its screen.
type tmux struct {
	t      *testing.T
	socket string
}

// newTmux starts a private one, in which a shell runs with the environment of the test and more.
func newTmux(t *testing.T, width, height int, more ...string) *tmux {
	t.Helper()
	redistest.Program(t, "tmux")
	dir, err := os.MkdirTemp("", "tmux") //nolint:usetesting // t.TempDir is too long for the path of a socket
	require.NoError(t, err)
	x := &tmux{t, filepath.Join(dir, "s")}
	cmd := x.command(append([]string{"-f", os.DevNull, "-u", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height)}, bash...)...)
	cmd.Env = append(append(os.Environ(), "PS1=ready> ", "LC_ALL=C.UTF-8", "COLORTERM=", "NO_COLOR="), more...)
	t.Cleanup(func() {
		_ = x.command("kill-server").Run() // it may have ended with its shell
		_ = os.RemoveAll(dir)
	})
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	x.run("run-shell", "-b", "-d", "900", "-C", "kill-server") // also where the test is killed
	x.await("ready>")
	return x
}

func (x *tmux) command(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-S", x.socket}, args...)...)
}

func (x *tmux) run(args ...string) string {
	x.t.Helper()
	out, err := x.command(args...).CombinedOutput()
	require.NoError(x.t, err, "tmux %q: %s", args, out)
	return string(out)
}

// press presses keys by the names that tmux has for them.
func (x *tmux) press(keys ...string) {
	x.t.Helper()
	x.run(append([]string{"send-keys", "--"}, keys...)...)
}

// enter types a line.
func (x *tmux) enter(line string) {
	x.t.Helper()
	x.run("send-keys", "-l", "--", line)
	x.press("Enter")
}

// enterNext types a line once the one before has ended: a shell drops the rest of a line of which a SIGINT has ended a command.
func (x *tmux) enterNext(line string) {
	x.t.Helper()
	x.awaitLike(`(?m)^ready>$`)
	x.enter(line)
}

func (x *tmux) resize(width, height int) {
	x.t.Helper()
	x.run("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height))
}

func (x *tmux) screen() string {
	x.t.Helper()
	return x.run("capture-pane", "-p")
}

// until waits for a screen that is as it should be, and returns it.
func (x *tmux) until(what string, ok func(screen string) bool) string {
	x.t.Helper()
	var screen string
	if !assert.Eventually(x.t, func() bool { screen = x.screen(); return ok(screen) }, time.Minute, 20*time.Millisecond) {
		x.t.Fatalf("the screen never shows %s:\n%s", what, screen)
	}
	return screen
}

// await waits until all of that is on the screen.
func (x *tmux) await(wants ...string) string {
	x.t.Helper()
	return x.until(strconv.Quote(strings.Join(wants, " and ")), func(screen string) bool {
		for _, want := range wants {
			if !strings.Contains(screen, want) {
				return false
			}
		}
		return true
	})
}

// awaitLike waits for a screen that matches.
func (x *tmux) awaitLike(pattern string) string {
	x.t.Helper()
	return x.until(pattern, regexp.MustCompile(pattern).MatchString)
}

// watch returns all different screens up to and with the first that matches.
func (x *tmux) watch(pattern string) (screens []string) {
	x.t.Helper()
	matches := regexp.MustCompile(pattern).MatchString
	x.until(pattern, func(screen string) bool {
		if len(screens) == 0 || screen != screens[len(screens)-1] {
			screens = append(screens, screen)
		}
		return matches(screen)
	})
	return screens
}

// awaitNone waits until that is not on the screen.
func (x *tmux) awaitNone(unwanted string) {
	x.t.Helper()
	x.until("no "+unwanted, func(screen string) bool { return !strings.Contains(screen, unwanted) })
}

// line returns the line of the screen that begins with that, or "".
func line(screen, begins string) string {
	for l := range strings.SplitSeq(screen, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), begins) {
			return l
		}
	}
	return ""
}
