//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// watchers is a server, its holders and waiters, and a top on a terminal that shows them.
type watchers struct {
	*tmux
	server *redistest.Server
}

func newWatchers(t *testing.T, width, height int, args string) *watchers {
	t.Helper()
	server := redistest.NewServer(t)
	w := &watchers{newTmux(t, width, height, "REDIS_URL=redis://"+server.Addr()), server}
	w.enter("fairsem top --interval 100ms " + args)
	w.await("fairsem top  " + server.Addr())
	return w
}

// client is one whose permits have a label.
func (w *watchers) client(label string) *fairsem.Client {
	w.t.Helper()
	c, err := fairsem.New(w.server.Client(), fairsem.Options{Label: label, TTL: time.Minute})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *watchers) sem(label, name string, limit int64) *fairsem.Semaphore {
	w.t.Helper()
	sem, err := w.client(label).Semaphore(name, limit)
	require.NoError(w.t, err)
	return sem
}

func (w *watchers) hold(label, name string, limit int64) *fairsem.Permit {
	w.t.Helper()
	p, err := w.sem(label, name, limit).Acquire(w.t.Context(), 1)
	require.NoError(w.t, err)
	return p
}

// wait waits in the queue until the returned function is called. Its error comes on the channel.
func (w *watchers) wait(label, name string, limit int64) (context.CancelFunc, <-chan error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	sem := w.sem(label, name, limit)
	ended := make(chan error, 1)
	go func() { // ends with ctx; not waited for
		_, err := sem.Acquire(ctx, 1)
		ended <- err
	}()
	return cancel, ended
}

func (w *watchers) status(name string) fairsem.Status {
	w.t.Helper()
	s, err := w.sem("asks", name, 1).Status(w.t.Context())
	require.NoError(w.t, err)
	return s
}

// awaitRow waits until the row of a name matches.
func (w *watchers) awaitRow(name, pattern string) {
	w.t.Helper()
	want := regexp.MustCompile(pattern)
	w.until(name+" like "+pattern, func(screen string) bool { return want.MatchString(line(screen, name)) })
}

func TestTopShowsAHolderArriveWaitAndLeave(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 80, 24, "")
	w.await("No name is in use")
	p := w.hold("alice", "api", 1)
	w.awaitRow("api", `█ +1/1 +0`)
	_, granted := w.wait("bob", "api", 1)
	w.awaitRow("api", `█ +1/1 +1 +\d`)
	w.press("Enter")
	w.awaitRow("holds", `alice +1 +\d.*\d`)
	w.awaitRow("#1", `bob`)
	require.NoError(t, p.Release(t.Context()))
	require.NoError(t, <-granted)
	w.awaitRow("holds", `bob`)
	leave, _ := w.wait("carol", "api", 1)
	w.awaitRow("#1", `carol`)
	leave()
	w.awaitNone("carol")
	w.press("Escape")
	w.awaitRow("api", `█ +1/1 +0`)
}

func TestTopWithBusyOmitsIdleNames(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 80, 24, "--busy")
	p := w.hold("alice", "api", 1)
	w.awaitRow("api", `█ +1/1 +0`)
	require.NoError(t, p.Release(t.Context()))
	w.await("No holders or waiters, of any of 1 name.")
}

func TestTopFiltersAndSorts(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 100, 30, "--sort name")
	w.hold("a", "alpha", 9)
	w.hold("b", "beta", 2)
	w.hold("c", "gamma", 1)
	inOrder := func(names ...string) {
		t.Helper()
		w.until(strings.Join(names, " above "), func(screen string) bool {
			from := 0
			for _, name := range names {
				at := strings.Index(screen[from:], "\n "+name)
				if at < 0 {
					return false
				}
				from += at
			}
			return true
		})
	}
	inOrder("alpha", "beta", "gamma")
	w.press("s")
	inOrder("gamma", "beta", "alpha")
	w.press("r")
	inOrder("alpha", "beta", "gamma")
	w.press("/", "M", "A")
	w.awaitNone("beta")
	w.await("gamma", "1 with MA")
	w.press("Escape")
	inOrder("alpha", "beta", "gamma")
}

// Any client that can write to the server can make a key like those of a name.
func TestTopShowsOtherNamesBesideAKeyOfTheWrongType(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 80, 24, "")
	require.NoError(t, w.server.Client().Set(t.Context(), protocol.DefaultKeyspace.Key("odd", protocol.Meta), "text", 0).Err())
	w.hold("alice", "api", 3)
	w.await("1 name cannot be read: status \"odd\": WRONGTYPE", "1/3")
}

func TestTopShowsNamesThatMatchThePattern(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 80, 24, "'deploy/*'")
	w.await("No name that is in use matches deploy/*.")
	w.hold("a", "api", 1)
	w.hold("b", "deploy/eu", 1)
	w.await("deploy/eu")
	assert.NotContains(t, w.screen(), "api")
}

func TestTopPinsPausesAndResumes(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 80, 24, "")
	w.hold("alice", "api", 4)
	w.await("1/4")
	w.press("R", "7", "Enter")
	w.await("Set the limit of api to 7? It is 4 now, with 1 in use and 0 waiting.")
	assert.False(t, w.status("api").Pinned)
	w.press("y")
	w.await("the limit of api is set to 7", "1/7")
	assert.Equal(t, int64(7), w.status("api").Limit)
	w.press("p")
	w.await("Pause api?")
	w.press("n")
	w.await("nothing was changed")
	assert.Equal(t, int64(7), w.status("api").Limit)
	w.press("p", "y")
	w.awaitRow("api", "1/0.*paused")
	w.press("u")
	w.await("It is set to 0 by hand and goes back to 4")
	w.press("y")
	w.awaitRow("api", "1/4")
	assert.False(t, w.status("api").Pinned)
}

func TestTopEvictsTheSelectedOne(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 100, 24, "")
	p := w.hold("alice", "api", 1)
	_, ended := w.wait("bob", "api", 1)
	w.awaitRow("api", `1/1 +1`)
	w.press("Enter")
	w.await("alice", "bob")
	w.press("j", "x")
	w.await("Evict bob, number 1 in the queue of api?")
	w.press("y")
	w.await("bob was evicted from api", "0 waiting") // until then a question would be about bob
	require.ErrorIs(t, <-ended, fairsem.ErrEvicted)
	w.press("x")
	w.await("Evict alice from api?", p.ID())
	w.press("y")
	w.await("alice was evicted from api", "No holders, no waiters.")
	<-p.Context().Done()
	require.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrEvicted)
}

// The expected waiter would be a holder, with work in progress.
func TestTopEvictsNoWaiterThatWasGrantedSinceTheLastPoll(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	w := &watchers{newTmux(t, 100, 24, "REDIS_URL=redis://"+server.Addr()), server}
	alice := w.hold("alice", "api", 1)
	_, ended := w.wait("bob", "api", 1)
	require.Eventually(t, func() bool { return w.status("api").Waiting == 1 }, time.Minute, 5*time.Millisecond)
	w.enter("fairsem top --interval 1h")
	w.awaitRow("api", `1/1 +1`)
	w.press("Enter")
	w.await("alice", "bob")
	w.press("j", "x")
	w.await("Evict bob, number 1 in the queue of api?")
	require.NoError(t, alice.Release(t.Context()))
	require.NoError(t, <-ended)
	w.press("y")
	w.await("bob was granted its permit meanwhile: ask again to evict it")
	assert.Equal(t, int64(1), w.status("api").Holders)
}

func TestReadOnlyTopChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 100, 24, "--read-only")
	w.hold("alice", "api", 1)
	w.await("1/1")
	assert.NotContains(t, w.screen(), "resize")
	w.press("R")
	w.await("read-only")
	w.press("p", "y", "Enter")
	w.await("alice")
	w.press("x", "y")
	w.await("read-only")
	s := w.status("api")
	assert.False(t, s.Pinned)
	assert.Equal(t, int64(1), s.Holders)
}

func TestTopOutlivesItsServer(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 100, 24, "")
	alice := w.client("alice")
	sem, err := alice.Semaphore("before", 1)
	require.NoError(t, err)
	_, err = sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, alice.Close()) // else it logs that a server goes away
	w.await("before")
	require.NoError(t, w.server.Kill())
	w.await("stale for ", w.server.Addr()+": connect: connection refused", "before")
	w.press("?")
	w.await("GRANTS/S  permits and calls granted a second")
	w.press("?")
	require.NoError(t, w.server.Restart())
	w.awaitNone("stale")
	w.hold("alice", "after", 1)
	w.await("after")
}

func TestTopMarksThePictureOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 100, 24, "")
	w.hold("alice", "api", 1)
	w.await("api")
	require.NoError(t, w.server.Pause())
	w.await("no answer", "api", "stale for")
	w.press("?")
	w.await("GRANTS/S  permits and calls granted a second")
	w.press("?")
	require.NoError(t, w.server.Resume())
	w.awaitNone("stale")
}

func TestTopFollowsTheSizeOfTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 80, 24, "")
	w.hold("\x1b[31mevil\nlabel\u202e", "\x1b[2Jevil\nname\u202e", 3)
	w.hold("東京", "東京👍🏽❤️", 3)
	w.await(`\x1b[2Jevil\nnam`, "東京👍")
	for _, size := range [][2]int{{20, 5}, {140, 40}, {3, 2}, {60, 12}} {
		w.resize(size[0], size[1])
		w.until("a name", func(screen string) bool { return size[1] == 2 || strings.Contains(screen, "東京") })
	}
	w.resize(120, 20)
	w.await(`\x1b[2Jevil\nname`, "東京👍", "GRANTS/S", "q quit")
	w.press("Enter")
	w.await("LABEL", "TOKEN", "q quit")
}

func TestTopHonoursNoColor(t *testing.T) {
	t.Parallel()
	w := newWatchers(t, 80, 24, "")
	w.hold("alice", "api", 3)
	w.hold("alice", "backup", 3)
	w.await("backup")
	coloured := regexp.MustCompile(`\x1b\[[0-9;]*3[1-7]m`)
	require.Eventually(t, func() bool { return coloured.MatchString(w.run("capture-pane", "-p", "-e")) }, time.Minute, 20*time.Millisecond)
	w.press("q")
	w.await("ready>")
	w.enter("NO_COLOR=1 fairsem top")
	w.await("backup")
	assert.NotRegexp(t, coloured, w.run("capture-pane", "-p", "-e"))
}

// leavings is the modes that a program can leave a terminal in.
func (x *tmux) leavings() string {
	x.t.Helper()
	return x.run("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag}")
}

func TestTopLeavesTheTerminalAsItWas(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	x := newTmux(t, 80, 24, "REDIS_URL=redis://"+server.Addr())
	x.enter("before=$(stty -g)")
	before := x.leavings()
	pid := filepath.Join(t.TempDir(), "pid")
	signal := func(s os.Signal) func() {
		return func() {
			top, err := os.FindProcess(atoi(t, awaitFile(t, pid)))
			require.NoError(t, err)
			require.NoError(t, top.Signal(s))
		}
	}
	for what, leave := range map[string]struct {
		by   func()
		code string
	}{
		"q":       {func() { x.press("q") }, "0"},
		"ctrl-c":  {func() { x.press("C-c") }, "0"},
		"SIGTERM": {signal(syscall.SIGTERM), "143"},
		"SIGINT":  {signal(os.Interrupt), "130"},
		"SIGHUP":  {signal(syscall.SIGHUP), "129"},
		"SIGQUIT": {signal(syscall.SIGQUIT), "131"},
	} {
		x.enter("clear; (echo $BASHPID >" + pid + "; exec fairsem top)")
		x.await("No name is in use")
		assert.NotEqual(t, before, x.leavings(), what)
		leave.by()
		x.enterNext("echo code=$?; test $before = $(stty -g) && echo same")
		x.await("code="+leave.code+"\n", "same\n")
		assert.Equal(t, before, x.leavings(), what)
	}
	x.enter("clear; fairsem top")
	x.await("No name is in use")
	for range 2 {
		x.press("C-z")
		x.await("Stopped", "ready>")
		assert.Equal(t, before, x.leavings(), "stopped")
		x.enter("fg")
		x.await("No name is in use", "q quit")
	}
}

func TestTopNeedsATerminalThatCanDraw(t *testing.T) {
	t.Parallel()
	x := newTmux(t, 100, 24, "REDIS_URL=redis://127.0.0.1:1")
	for line, missing := range map[string]string{
		"TERM=dumb fairsem top": `terminal that is not dumb, and TERM is "dumb"`, "fairsem top | cat": "terminal", "fairsem top </dev/null": "terminal",
	} {
		x.enter("clear; set -o pipefail; " + line + "; echo code=$?")
		x.await("fairsem: top needs a "+missing+"; use fairsem ls --watch", "code=2")
	}
	x.enter("clear; fairsem top; echo code=$?")
	x.await("no Redis at 127.0.0.1:1", "code=125")
}
