package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// theatre is a terminal that a shell script runs on, which tmux keeps the screen of.
type theatre struct {
	t   *testing.T
	dir string // of tmux's socket
}

// openTheatre runs the script on a terminal of 80 by 24. The end of the test ends both.
func openTheatre(t *testing.T, script string) *theatre {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") == "true" {
			require.NoError(t, err)
		}
		t.Skip(err)
	}
	th := &theatre{t: t, dir: t.TempDir()}
	t.Cleanup(func() { _ = th.command(context.Background(), "kill-server").Run() }) // fails if it is gone
	th.tmux("-u", "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24",
		"export LC_ALL=C.UTF-8; "+script+"; exec sleep 1h")
	return th
}

// command names the socket from where it is: a whole path may be too long for one.
func (th *theatre) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-S", "s"}, args...)...)
	cmd.Dir = th.dir
	return cmd
}

func (th *theatre) tmux(args ...string) string {
	th.t.Helper()
	out, err := th.command(th.t.Context(), args...).CombinedOutput()
	require.NoError(th.t, err, "%s", out)
	return string(out)
}

func (th *theatre) screen() string { return th.tmux("capture-pane", "-p") }

// await returns the first screen that matches.
func (th *theatre) await(want string) (screen string) {
	th.t.Helper()
	expression := regexp.MustCompile(want)
	require.Eventually(th.t, func() bool {
		screen = th.screen()
		return expression.MatchString(screen)
	}, 60*time.Second, 10*time.Millisecond, want)
	return screen
}

// watch returns all different screens up to and with the first that matches.
func (th *theatre) watch(until string) (screens []string) {
	th.t.Helper()
	expression := regexp.MustCompile(until)
	require.Eventually(th.t, func() bool {
		screen := th.screen()
		if len(screens) == 0 || screen != screens[len(screens)-1] {
			screens = append(screens, screen)
		}
		return expression.MatchString(screen)
	}, 60*time.Second, 10*time.Millisecond, until)
	return screens
}

// inLine are a worker's place and the number of places that it came up, on a screen.
func inLine(screen string) map[string][2]int {
	places := make(map[string][2]int)
	for _, m := range regexp.MustCompile(`(\d)\. (worker \d) ■+ +(▲*)`).FindAllStringSubmatch(screen, -1) {
		place, _ := strconv.Atoi(m[1])
		places[m[2]] = [2]int{place, strings.Count(m[3], "▲")}
	}
	return places
}

// sights are what was seen of a demo.
type sights struct {
	moved   bool   // somebody in line, with a sign for it
	dead    string // the worker that was killed
	ranDown bool   // its lease
	back    bool   // its units, and it has gone
}

var death = regexp.MustCompile(`(worker \d)  [━╸─]+ (\d\.\d) s  │.*\n.*■┘ ✗ killed with kill -9`)

func (s *sights) learn(screens []string) {
	line, left := inLine(""), ""
	for _, screen := range screens {
		before := line
		line = inLine(screen)
		for who, now := range line {
			was, known := before[who]
			s.moved = s.moved || known && now[0] < was[0] && now[1] > was[1]
		}
		if m := death.FindStringSubmatch(screen); m != nil {
			s.dead = m[1]
			s.ranDown = s.ranDown || m[2] < left
			left = m[2]
		}
		if strings.Contains(screen, "its units are in use again") && strings.Contains(screen, "▲ moved up") {
			s.back = s.back || left != "" && !strings.Contains(screen, s.dead+"  ")
		}
	}
}

// A busy machine may miss a sight, for the screens that are looked at are not all that there are.
func TestOnATerminalTheLineMovesUpAndTheDeadWorkersUnitsComeBack(t *testing.T) {
	t.Parallel()
	var saw sights
	for range 5 {
		screens := openTheatre(t, "fairsem demo --for 4s; echo code=$?").watch(`code=\d`)
		end := screens[len(screens)-1]
		assert.Contains(t, end, "What was checked")
		assert.Contains(t, end, " of 5 promises held.") // there may be one that a busy machine does not keep
		assert.NotContains(t, end, "▲ moved up", "the picture is gone")
		if saw.learn(screens); saw.moved && saw.ranDown && saw.back {
			return
		}
	}
	assert.Fail(t, "not all was seen", "%+v", saw)
}

// It runs alone, for a demo on a machine that is too busy to answer it ends by itself.
func TestCtrlCLeavesTheTerminalAsItWasAndNoWorker(t *testing.T) {
	for name, moment := range map[string]string{
		"at the start":      `fairsem demo  7 processes`,
		"while a line is":   `2\. worker \d`,
		"while one is dead": `✗ 1 killed`,
	} {
		t.Run(name, func(t *testing.T) {
			th := openTheatre(t, `a=$(stty -g); fairsem demo --for 10s; echo code=$?; test "$(stty -g)" = "$a" && echo same || echo other`)
			th.await(moment)
			workers := th.workers()
			require.NotEmpty(t, workers)
			th.tmux("send-keys", "C-c")
			end := th.await(`code=\d+\n(same|other)`)
			assert.Contains(t, end, "code=130\nsame")
			assert.NotContains(t, end, "▲ moved up", "the picture is gone")
			for _, worker := range workers {
				assert.False(t, exists(worker), "the demo ended before worker %d", worker)
			}
		})
	}
}

// workers are the processes that the demo has started.
func (th *theatre) workers() []int {
	th.t.Helper()
	shell, err := strconv.Atoi(strings.TrimSpace(th.tmux("display-message", "-p", "#{pane_pid}")))
	require.NoError(th.t, err)
	demos := children(th.t, shell)
	require.Len(th.t, demos, 1)
	return children(th.t, demos[0])
}

func TestThePictureFollowsTheSizeOfTheTerminal(t *testing.T) {
	t.Parallel()
	th := openTheatre(t, "fairsem demo --for 1h; echo code=$?")
	th.await(`in line: first come, first served\n`)
	for _, width := range []int{60, 40, 100} {
		th.tmux("resize-window", "-x", strconv.Itoa(width), "-y", "20")
		th.await(fmt.Sprintf(`(?m)^ fairsem demo.{%d} s$`, min(width-1, 87)-len(" fairsem demo s")))
	}
	th.tmux("send-keys", "C-c")
	th.await("code=130")
}
