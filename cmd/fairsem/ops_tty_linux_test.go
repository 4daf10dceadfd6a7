package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// terminal starts a command on a terminal of so many columns.
func (o *office) terminal(columns uint16, env []string, args ...string) (*exec.Cmd, *console) {
	o.t.Helper()
	cmd := o.command(args...)
	return cmd, onTerminalOf(o.t, cmd, &pty.Winsize{Cols: columns, Rows: 20}, env...)
}

// finish waits until the command has ended and all that it wrote is there.
func (s *console) finish(cmd *exec.Cmd, code int) string {
	s.t.Helper()
	assert.Equal(s.t, code, exitCode(cmd.Wait()), "%q", s)
	<-s.drained
	return s.String()
}

var sgr = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// requireShown refuses all but colours and printable characters, and lines over the width.
func requireShown(t *testing.T, text string, width int) {
	t.Helper()
	text = sgr.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "")
	requireHarmless(t, text)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		assert.LessOrEqual(t, max(ansi.StringWidth(line), ansi.StringWidthWc(line)), width, "%q", line)
	}
}

func TestOnATerminalThereAreColoursAndEveryLineFits(t *testing.T) {
	o := newOffice(t)
	long := strings.Repeat("long ", 40)
	for _, name := range []string{long, "日本語" + long, strings.Repeat("हिन्दी", 9), hostile} {
		o.hold(hostile+name, name, 2, 1)
	}
	o.wait(hostile+long, long, 2, 2)
	for _, width := range []int{80, 140, 20} {
		for _, args := range [][]string{{"ls"}, {"show", long}, {"show", hostile}, {"ls", "--json"}} {
			cmd, tty := o.terminal(uint16(width), nil, args...)
			text := tty.finish(cmd, 0)
			if args[len(args)-1] == "--json" {
				width = len(text) // nothing cuts JSON
			} else if width > 20 || args[0] == "show" { // a list so narrow has no bar
				assert.Regexp(t, `\x1b\[3[0-9]m`, text, "a colour")
			}
			requireShown(t, text, width)
		}
	}
}

func TestNoColourWhereItIsNotWanted(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 1, 1)
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		for _, args := range [][]string{{"ls"}, {"show", "n"}} {
			cmd, tty := o.terminal(80, []string{env}, args...)
			text := tty.finish(cmd, 0)
			assert.NotRegexp(t, `\x1b\[[0-9;]*3[0-9]`, text, env)
			assert.Contains(t, text, "█")
			if env == "TERM=dumb" {
				assert.NotContains(t, text, "\x1b")
			}
		}
	}
}

func TestNoColourIsWatchedEither(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 1, 1)
	cmd, tty := o.terminal(80, []string{"NO_COLOR=1"}, "ls", "--watch")
	tty.await("█")
	tty.press("q")
	assert.NotRegexp(t, `\x1b\[[0-9;]*3[0-9]m`, tty.finish(cmd, 0))
}

func TestAChangeAsksAndIsMadeOnlyByYes(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 3, 1)
	const loud = " YES \n"
	for answer, changed := range map[string]bool{"\n": false, "n\n": false, "yess\n": false, "\x04": false, "y\n": true, loud: true} {
		o.does(0, "resume", "n", "--yes")
		cmd, tty := o.terminal(80, nil, "resize", "n", "2")
		tty.await("Now: limit 3, 1/3 in use, 0 waiting.\r\nGo on? [y/N] ")
		assert.False(t, o.status("n").Pinned)
		tty.press(answer)
		if changed {
			assert.Contains(t, tty.finish(cmd, 0), `"n": limit 2 (set by hand), 1/2 in use, 0 waiting`)
		} else {
			assert.Contains(t, tty.finish(cmd, 1), "fairsem: nothing was changed")
		}
		assert.Equal(t, changed, o.status("n").Pinned, "%q", answer)
	}
}

func TestEveryChangeAsks(t *testing.T) {
	o := newOffice(t)
	p := o.hold("h", "n", 3, 1)
	o.hold("h", "pinned", 3, 1)
	o.does(0, "resize", "pinned", "2", "--yes")
	for _, args := range [][]string{{"resize", "n", "2"}, {"pause", "n"}, {"resume", "pinned"}, {"evict", "n", "--all"}} {
		cmd, tty := o.terminal(80, nil, args...)
		tty.await("Go on? [y/N] ")
		tty.press("\n")
		tty.finish(cmd, 1)
	}
	assert.False(t, o.status("n").Pinned)
	assert.True(t, o.status("pinned").Pinned)
	assert.NoError(t, p.Context().Err())
}

// The expected waiter would be a holder, with work in progress.
func TestAYesToEvictAWaiterDoesNotCountOnceItIsGranted(t *testing.T) {
	o := newOffice(t)
	first := o.hold("first", "n", 1, 1)
	sem, err := o.client("second").Semaphore("n", 1)
	require.NoError(t, err)
	granted := make(chan *fairsem.Permit, 1)
	go func() { // ends with the grant, which the test waits for, or with the client
		p, _ := sem.Acquire(t.Context(), 1)
		granted <- p
	}()
	require.Eventually(t, func() bool { return o.status("n").Waiting == 1 }, time.Minute, 5*time.Millisecond)
	waiters, err := inspect.Collect(sem.Waiters(t.Context()))
	require.NoError(t, err)

	cmd, tty := o.terminal(80, nil, "evict", "n", waiters[0].ID)
	tty.await("1 waiter")
	tty.await("Go on? [y/N] ")
	require.NoError(t, first.Release(t.Context()))
	second := <-granted
	tty.press("y\n")
	assert.Contains(t, tty.finish(cmd, 1), `fairsem: nothing was changed: "second" was granted its permit meanwhile; ask again to evict it`)
	require.NoError(t, second.Context().Err())

	cmd, tty = o.terminal(80, nil, "evict", "n", waiters[0].ID)
	tty.await("1 holder")
	tty.press("y\n")
	assert.Contains(t, tty.finish(cmd, 0), "evicted 1 holder")
}

func TestCtrlCAtTheQuestionChangesNothing(t *testing.T) {
	o := newOffice(t)
	p := o.hold(hostile, hostile, 3, 1)
	cmd, tty := o.terminal(80, nil, "evict", hostile, p.ID())
	tty.await("1 holder")
	tty.await("Go on? [y/N] ")
	tty.press("\x03")
	tty.finish(cmd, 130)
	assert.NoError(t, p.Context().Err())
}

func TestASignalEndsAChangeWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	o := &office{t, "p", "redis://" + server.Addr(), server.Client()}
	require.NoError(t, o.rdb.HSet(t.Context(), o.key("n", "meta"), "layout", protocol.Layout).Err())
	cmd, tty := o.terminal(80, nil, "resize", "n", "2")
	tty.await("Go on? [y/N] ")
	require.NoError(t, server.Pause())
	tty.press("y\n")
	tty.await("y\r\n")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.NotContains(t, tty.finish(cmd, 143), "canceled")
	require.NoError(t, server.Resume())
}

func TestTheQuestionOfAnEvictionListsTicketsEscaped(t *testing.T) {
	o := newOffice(t)
	o.hold("host-7:12", hostile, 3, 1)
	o.hold(hostile, hostile, 3, 1)
	cmd, tty := o.terminal(80, nil, "evict", hostile, "--all")
	tty.press("n\n")
	text := tty.finish(cmd, 1)
	assert.Contains(t, text, "host-7:12")
	requireShown(t, text, 100) // the name is longer than a line
}

func TestTheResultGoesToStandardOutputAndTheQuestionDoesNot(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 3, 1)
	var out bytes.Buffer
	cmd := o.command("pause", "n", "--json")
	cmd.Stdout = &out
	tty := onTerminalOf(t, cmd, nil)
	tty.await("Go on? [y/N] ")
	tty.press("y\n")
	tty.finish(cmd, 0)
	assert.True(t, strings.HasPrefix(out.String(), `{"changed":true,"before":{`), out.String())
}

// Without one of the two the question is not seen or not answered.
func TestAQuestionNeedsATerminalForItselfAndForTheAnswer(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 3, 1)
	for _, redirect := range []string{"</dev/null", "2>/dev/null"} {
		cmd := o.program("bash", "-c", "fairsem pause n --prefix $PREFIX "+redirect)
		onTerminal(t, cmd).finish(cmd, 2)
	}
	assert.False(t, o.status("n").Pinned)
}

func TestWatchOnATerminalDrawsInPlaceAndLeavesItAsItWas(t *testing.T) {
	o := newOffice(t)
	o.hold(hostile, hostile, 3, 1)
	for _, args := range [][]string{{"ls"}, {"show", hostile}} {
		for keys, code := range map[string]int{"q": 0, "\x1b": 0, "\x03": 130} {
			cmd, tty := o.terminal(80, nil, append(args, "--watch", "--interval", "100ms")...)
			tty.await("\x1b[?1049h") // the other screen
			tty.await("1/3")
			o.hold("h", "n"+keys+args[0], 1, 1)
			if args[0] == "ls" {
				tty.await("1/1")
			}
			tty.press(keys)
			text := tty.finish(cmd, code)
			assert.Contains(t, text, "\x1b[?1049l")
			for _, raw := range []string{"\x1b[2J\x1b]0", "\a", "\u202e", "\u009b"} {
				assert.NotContains(t, text, raw)
			}
		}
	}
}

func TestWatchWithoutAKeyboardSaysHowItEnds(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 3, 1)
	for redirect, end := range map[string]string{"": "· q quits", "</dev/null": "· ctrl-c quits"} {
		cmd := o.program("bash", "-c", "exec fairsem ls --prefix $PREFIX --watch "+redirect)
		tty := onTerminalOf(t, cmd, &pty.Winsize{Cols: 100, Rows: 20})
		tty.await(end)
		tty.press("\x03")
		tty.finish(cmd, 130)
	}
}

func TestWatchOnATerminalShowsErrorsAndContinues(t *testing.T) {
	o := newOffice(t)
	cmd, tty := o.terminal(80, nil, "show", "n", "--watch", "--interval", "100ms")
	tty.await(`"n" is not in use.`)
	require.NoError(t, o.rdb.Set(t.Context(), o.key("n", "queue"), "x", 0).Err())
	tty.await("WRONGTYPE")
	require.NoError(t, o.rdb.Del(t.Context(), o.key("n", "queue")).Err())
	tty.await(`"n" is not in use.`)
	tty.press("q")
	tty.finish(cmd, 0)
}

func TestWatchOnADumbTerminalIsLikeInAPipe(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 3, 1)
	cmd, tty := o.terminal(80, []string{"TERM=dumb"}, "ls", "--watch", "--interval", "100ms")
	tty.await("\nn ")
	tty.await("\nn ")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	assert.NotContains(t, tty.finish(cmd, 130), "\x1b")
}
