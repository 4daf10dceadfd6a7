package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/redistest"
)

// console is a terminal and the output written to it.
type console struct {
	transcript.Transcript
	t       *testing.T
	keys    *os.File
	leader  int           // of the session
	drained chan struct{} // closed when no process has the terminal any more, and all output is read
}

// onTerminal starts a command that leads a session with a terminal of its own. A standard output that it has already stays.
func onTerminal(t *testing.T, cmd *exec.Cmd) *console {
	t.Helper()
	return onTerminalOf(t, cmd, nil)
}

// onTerminalOf is onTerminal with a terminal of that size, and with more of an environment.
func onTerminalOf(t *testing.T, cmd *exec.Cmd, size *pty.Winsize, env ...string) *console {
	t.Helper()
	cmd.Env = append(append(cmd.Env, "TERM=xterm", "PS1=ready> "), env...)
	keys, tty, err := pty.Open()
	require.NoError(t, err)
	if size != nil {
		require.NoError(t, pty.Setsize(tty, size))
	}
	keepOutput(t, tty)
	if cmd.Stdin, cmd.Stderr = tty, tty; cmd.Stdout == nil {
		cmd.Stdout = tty
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	s := &console{t: t, keys: keys, leader: cmd.Process.Pid, drained: make(chan struct{})}
	go func() { // ends when no process has the terminal any more
		defer close(s.drained)
		_, _ = io.Copy(s, keys)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			processes, _ := exec.Command("ps", "-s", strconv.Itoa(cmd.Process.Pid), "-o", "pid,ppid,pgid,tpgid,stat,pending,blocked,args").CombinedOutput()
			t.Logf("the screen ends with %q; its processes:\n%s", s, processes)
		}
		_ = cmd.Process.Kill() // the others of its session get a hangup
		_ = keys.Close()
	})
	return s
}

// keepOutput has a terminal keep what was written to it and not read yet when a key sends a signal: else a key that is pressed once too often
// takes away what the one before has brought about.
func keepOutput(t *testing.T, tty *os.File) {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	mode.Lflag |= unix.NOFLSH
	require.NoError(t, unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, mode))
}

// foreground is the process group that has the terminal.
func (s *console) foreground() int {
	s.t.Helper()
	group, err := unix.IoctlGetInt(int(s.keys.Fd()), unix.TIOCGPGRP)
	require.NoError(s.t, err)
	return group
}

func (s *console) press(keys string) {
	s.t.Helper()
	_, err := s.keys.WriteString(keys)
	require.NoError(s.t, err)
}

// await waits until the text of the screen contains want, and forgets all up to it.
func (s *console) await(want string) {
	s.t.Helper()
	ok := assert.Eventually(s.t, func() bool { return s.Past(want) }, time.Minute, 5*time.Millisecond)
	require.True(s.t, ok, "no %q in %q", want, s)
}

func TestACommandHasTheTerminalAndCtrlCReachesIt(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "1", "-c", `trap 'echo caught; exit 5' INT; read line; echo "got $line"; while :; do sleep 0.01; done`)
	tty := onTerminal(t, cmd)
	s.awaitState(1, 0)
	tty.press("hello\n")
	tty.await("got hello")
	tty.press("\x03")
	tty.await("caught")
	assert.Equal(t, 5, exitCode(cmd.Wait()))
}

func TestCtrlCEndsAWaiterOnATerminalAndClearsTheStatusLine(t *testing.T) {
	s := newStation(t)
	_, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	first, _ := s.begin("--limit", "1", "--", "true")
	s.awaitState(1, 1)
	cmd := s.command("--limit", "1", "--label", "nightly", "--", "echo", "ran")
	tty := onTerminal(t, cmd)
	tty.await("position 2 of 2, 1/1 in use, ")
	var labels []string
	for waiter, err := range s.sem(1).Waiters(t.Context()) {
		require.NoError(t, err)
		labels = append(labels, waiter.Label)
	}
	assert.Equal(t, "nightly", labels[1], "as given, though its own position is shown")
	require.NoError(t, first.Process.Signal(os.Interrupt))
	_ = first.Wait()
	tty.await("\rposition 1 of 1, 1/1 in use, ")
	tty.press("\x03")
	assert.Equal(t, 130, exitCode(cmd.Wait()))
	tty.await("\r     ")
	require.Eventually(t, func() bool { return strings.HasSuffix(tty.String(), " \r") }, time.Minute, 5*time.Millisecond, "%q", tty)
}

// The permit was held for ever, and the command was never started.
func TestATerminalThatIsNotReadKeepsNoCommandFromStarting(t *testing.T) {
	s := newStation(t)
	p, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	started := t.TempDir() + "/started"
	cmd := s.command("--limit", "1", "--", "touch", started)
	tty := onTerminal(t, cmd)
	tty.await("position 1 of 1, 1/1 in use, ")
	tty.press("\x13") // Ctrl-S
	require.NoError(t, p.Release(t.Context()))
	require.Eventually(t, func() bool {
		_, err := os.Stat(started)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	tty.press("\x11")
	assert.Equal(t, 0, exitCode(cmd.Wait()))
}

// shell is an interactive shell on a terminal.
func (s *station) shell(argv ...string) *console {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context()) // onTerminal ends it, and first lists its processes if the test has failed
	cmd := exec.CommandContext(ctx, redistest.Program(s.t, argv[0]), argv[1:]...)
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.server.Addr())
	sh := onTerminal(s.t, cmd)
	sh.await("ready> ")
	return sh
}

// Its permit would have expired unnoticed.
func TestMessagesDoNotStopAJobOnATerminalThatStopsWritersInTheBackground(t *testing.T) {
	s := newStation(t)
	sh := s.shell(bash...)
	sh.press("stty tostop\n")
	sh.await("ready> ")
	sh.press("fairsem run n --limit 1 --json -c 'read x; echo read $x'\n")
	sh.await(`"started"`)
	sh.press("on\n")
	sh.await("read on")
	sh.await(`"released"`)
}

func TestCtrlZStopsTheJobAndFgContinuesIt(t *testing.T) {
	s := newStation(t)
	sh := s.shell(bash...)
	sh.press(`fairsem run n --limit 1 --ttl 1h -c 'read a; echo "first $a"; read b; echo "second $b"; exit 6'` + "\n")
	s.awaitState(1, 0)
	sh.press("one\n")
	sh.await("first one")
	for range 2 {
		require.Eventually(t, func() bool {
			if strings.Contains(sh.String(), "Stopped") {
				return true
			}
			sh.press("\x1a") // one that comes before fg has continued all of the job is lost
			return false
		}, time.Minute, time.Second/4)
		sh.await("Stopped")
		sh.await("ready> ")
		sh.press("fg\n")
		sh.await("fairsem run") // the shell names the command that it continues
	}
	sh.press("two\n")
	sh.await("second two")
	sh.await("ready> ")
	sh.press("echo code=$?\n")
	sh.await("code=6")
}

// A Ctrl-Z right after fg left a job that ran with a command that did not, and that no key could stop or continue.
func TestAJobWhoseCommandIsStoppedAlreadyStopsToo(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	sh := s.shell(bash...)
	require.NoError(t, syscall.Mkfifo(dir+"/go", 0o600))
	sh.press(`fairsem run n --limit 1 --ttl 1h -c 'echo $$ $PPID >` + dir + `/pids; read x <` + dir + `/go; echo "we$x"' | cat` + "\n")
	var command, job int
	_, err := fmt.Sscan(awaitFile(t, dir+"/pids"), &command, &job)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(command, syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		if strings.Contains(sh.String(), "[1]+  Stopped") { // the name of the directory has that word too
			return true
		}
		_ = syscall.Kill(-job, syscall.SIGTSTP) // one that comes before the job has seen its command stop is lost
		return false
	}, time.Minute, time.Second)
	sh.await("ready> ")
	sh.press("fg\n")
	sh.await("fairsem run")
	require.NoError(t, os.WriteFile(dir+"/go", []byte("nt\n"), 0o600)) // when the command reads it
	sh.await("went")
	sh.await("ready> ")
}

// Ctrl-Z reaches the inner command alone: each run has to stop after what it runs.
func TestCtrlZStopsARunWithinARunToo(t *testing.T) {
	s := newStation(t)
	sh := s.shell(bash...)
	sh.press(`fairsem run outer --limit 1 --ttl 1h --pass-redis-url -- fairsem run n --limit 1 --ttl 1h -c 'read a; echo "first $a"; read b; echo "second $b"; exit 6'` + "\n")
	s.awaitState(1, 0)
	sh.press("one\n")
	sh.await("first one")
	require.Eventually(t, func() bool {
		sh.press("\x1a") // one that comes while a run still begins is taken for a stop for lack of the terminal
		return strings.Contains(sh.String(), "Stopped")
	}, 20*time.Second, time.Second/4)
	sh.press("fg\n")
	sh.await("fairsem run outer")
	sh.press("two\n")
	sh.await("second two")
	sh.await("ready> ")
	sh.press("echo code=$?\n")
	sh.await("code=6")
}

func TestAJobInTheBackgroundGetsTheTerminalWithFg(t *testing.T) {
	s := newStation(t)
	sh := s.shell(bash...)
	sh.press(`fairsem run n --limit 1 --ttl 1h -c 'read a; echo "got $a"' &` + "\n")
	sh.await("ready> ")
	s.awaitState(1, 0)
	require.Eventually(t, func() bool {
		sh.press("\n")
		return strings.Contains(sh.String(), "Stopped")
	}, time.Minute, 50*time.Millisecond)
	sh.press("fg\n")
	sh.await("fairsem run")
	sh.press("it\n")
	sh.await("got it")
	sh.await("ready> ")
}

// The reader of a pipe may read keys, too: less, for example.
func TestACommandInAPipeLeavesTheTerminalToTheReaderUntilItNeedsIt(t *testing.T) {
	s := newStation(t)
	sh := s.shell(bash...)
	dir := t.TempDir()
	sh.press(`fairsem run n --limit 1 -c 'echo up >` + dir + `/up; until test -e ` + dir + `/go; do sleep 0.01; done; read x; echo "$x!"' | { read k </dev/tty; echo "key $k"; cat; }` + "\n")
	awaitFile(t, dir+"/up")
	sh.press("mine\n")
	sh.await("key mine")
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	sh.press("yours\n")
	sh.await("yours!")
	sh.await("ready> ")
}

// A job that was stopped for longer than its TTL has no permit, and its command must not go on. The command starts nothing:
// a dash that does is stopped by Ctrl-Z nine times in ten only, else what it has just started is, and it waits for that.
func TestAJobThatWasStoppedTooLongIsNotContinued(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	sh := s.shell(bash...)
	sh.press(`fairsem run n --limit 1 --ttl 3s -c 'trap "echo on >` + dir + `/on" CONT TERM; read x; echo up >` + dir + `/up; while :; do read x; done'` + "\n")
	s.awaitState(1, 0)
	sh.press("go\n")
	awaitFile(t, dir+"/up") // so it has the terminal: the SIGCONT that comes with that would undo a Ctrl-Z
	sh.press("\x1a")
	sh.await("[1]+  Stopped")  // the name of the directory has that word too
	_ = os.Remove(dir + "/on") // it has read, and gone on, if it asked for the terminal before that was its own
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := s.sem(1).Acquire(ctx, 1) // once the lease has ended
	require.NoError(t, err)
	sh.press("fg\n")
	sh.await("was lost")
	sh.await("ready> ")
	sh.press("echo code=$?\n")
	sh.await("code=76")
	assert.NoFileExists(t, dir+"/on")
	require.NoError(t, p.Release(t.Context()))
}

// The kernel stops no job that no shell could continue, as in a container or under ssh. The command, which has a parent in its session, was
// stopped for ever.
func TestCtrlZHasNoEffectWhereNoShellCouldContinueTheJob(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "1", "-c", `echo up; read line; echo "got $line"; exit 5`)
	tty := onTerminal(t, cmd)
	tty.await("up")
	tty.press("\x1a")
	tty.await("^Z")
	tty.press("it\n")
	tty.await("got it")
	assert.Equal(t, 5, exitCode(cmd.Wait()))
}

// Only the command has the terminal, so only it had the signal, and a loop went on with its next round.
func TestCtrlCEndsTheScriptAroundARun(t *testing.T) {
	s := newStation(t)
	for _, c := range []struct {
		name, key, script string
		end               string
	}{
		{"Ctrl-C", "\x03", `for i in 1 2 3; do fairsem run n --limit 1 -c 'echo "up"; exec sleep 100'; echo next; done`, "signal: interrupt"},
		{"Ctrl-C, two runs", "\x03", `for i in 1 2 3; do fairsem run o --limit 1 --pass-redis-url -- fairsem run n --limit 1 -c 'echo "up"; exec sleep 100'; echo next; done`, "signal: interrupt"},
		{"Ctrl-backslash", "\x1c", `ulimit -c 0; trap 'echo caught; exit 3' QUIT; fairsem run n --limit 1 -c 'echo "up"; exec sleep 100'; echo "code $?"`, "exit status 3"},
	} {
		for _, sh := range []string{"bash", "dash"} {
			cmd := exec.CommandContext(t.Context(), redistest.Program(t, sh), "-c", c.script)
			cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.server.Addr())
			tty := onTerminal(t, cmd)
			tty.await("up")
			tty.press(c.key)
			_ = cmd.Wait()
			assert.Equal(t, c.end, cmd.ProcessState.String(), "%s in %s: %s", c.name, sh, tty)
			<-tty.drained
			assert.NotContains(t, tty.String(), "next")
			s.awaitState(0, 0)
		}
	}
}

// The key also reaches the script. A shell ends for it only if what it waits for has ended by it, and not with an exit code of 130.
func TestCtrlCEndsTheScriptAroundACommandThatWaits(t *testing.T) {
	s := newStation(t)
	_, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	for _, flag := range []string{"--quiet", "--json"} {
		s.interrupt("run n --limit 1 "+flag+" -- true", func(*console) { s.awaitState(1, 1) })
		s.awaitState(1, 0)
	}
}

// interrupt presses Ctrl-C once a loop in bash is so far, and wants it to end.
func (s *station) interrupt(command string, soFar func(*console)) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), redistest.Program(s.t, "bash"), "-c", "for i in 1 2 3; do fairsem "+command+"; echo next; done")
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.server.Addr())
	tty := onTerminalOf(s.t, cmd, &pty.Winsize{Rows: 24, Cols: 80})
	soFar(tty)
	tty.press("\x03")
	_ = cmd.Wait()
	<-tty.drained
	assert.Equal(s.t, "signal: interrupt", cmd.ProcessState.String(), "%s: %s", command, tty)
	assert.NotContains(s.t, tty.String(), "next", command)
}

// The code of the command says nothing about the key, which came after its end.
func TestCtrlCAfterTheEndOfTheCommandEndsTheScript(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	s.interrupt("run n --limit 1 --min-hold 1h --json -- true", func(tty *console) { tty.await(`"ended"`) })
	s.awaitState(0, 0)
	left := `run n --limit 1 --ttl 1h --kill-after 4m -c 'read x; trap "" TERM; env --default-signal=INT sh -c "echo up >` + dir + `/up; exec sleep 300" &'`
	s.interrupt(left, func(tty *console) {
		s.awaitState(1, 0)
		tty.press("\n")
		awaitFile(t, dir+"/up") // so the command had the terminal, and what it leaves does not ignore the key any more
		require.Eventually(t, func() bool { return tty.foreground() == tty.leader }, time.Minute, 5*time.Millisecond)
	})
	s.awaitState(0, 0)
}

// Programs that draw on the terminal read the key, and the terminal sends no signal.
func TestCtrlCEndsTheScriptAroundAProgramThatReadsTheKey(t *testing.T) {
	s := newStation(t)
	_, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	s.interrupt("show n --watch", func(tty *console) { tty.await("q quits") })
	s.interrupt("demo --for 1h", func(tty *console) { tty.await(": first come, first served") })
}

func TestAnInterruptThatIsPassedOnEndsTheRunAsItEndsTheCommand(t *testing.T) {
	s := newStation(t)
	for _, c := range []struct{ script, end string }{
		{"echo up; exec sleep 100", "signal: interrupt"},
		{"trap 'exit 4' INT; echo up; while :; do sleep 0.01; done", "exit status 4"},
	} {
		cmd, out := s.begin("--limit", "1", "-c", c.script)
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "up") }, time.Minute, 5*time.Millisecond)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		assert.Equal(t, c.end, cmd.ProcessState.String())
		s.awaitState(0, 0)
	}
}

// One that handles Ctrl-C decides what it means.
func TestCtrlCThatTheCommandHandlesEndsNoScript(t *testing.T) {
	s := newStation(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `fairsem run n --limit 1 -c 'trap "exit 4" INT; read x; echo "up $x"; while :; do sleep 0.01; done'; echo "code $?"`)
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.server.Addr())
	tty := onTerminal(t, cmd)
	s.awaitState(1, 0)
	tty.press("it\n")
	tty.await("up it") // so it has the terminal: a Ctrl-C before that is also for the script
	tty.press("\x03")
	tty.await("code 4")
	require.NoError(t, cmd.Wait())
}

// ssh and sudo ask on the terminal itself for a password, which went to the shell.
func TestACommandReadsTheTerminalThoughItsStandardFilesAreOthers(t *testing.T) {
	s := newStation(t)
	file := t.TempDir() + "/out"
	sh := s.shell(bash...)
	sh.press(`fairsem run n --limit 1 -c 'echo ask >/dev/tty; read x </dev/tty; echo "got $x"' </dev/null >` + file + " 2>&1\n")
	sh.await("ask")
	sh.press("secret\n")
	sh.await("ready> ")
	assert.Equal(t, "got secret", awaitFile(t, file))
}

// A shell suspends itself, and then nothing read the terminal.
func TestCtrlZStopsAJobWhoseCommandHasStoppedItselfOnTheTerminal(t *testing.T) {
	s := newStation(t)
	sh := s.shell(bash...)
	sh.press(`fairsem run n --limit 1 --ttl 1h -c 'echo "up $$"; kill -STOP $$; read x; echo "g""ot $x"'` + "\n")
	says, up := regexp.MustCompile(`up (\d+)\r`), []string(nil)
	require.Eventually(t, func() bool {
		up = says.FindStringSubmatch(sh.String())
		return up != nil
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool { // else a Ctrl-Z stops it before, and it stops itself after fg
		stat, err := os.ReadFile("/proc/" + up[1] + "/stat")
		return err == nil && strings.Contains(string(stat), ") T ")
	}, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		sh.press("\x1a") // one that comes before the job has seen its command stop is lost
		return strings.Contains(sh.String(), "[1]+  Stopped")
	}, time.Minute, time.Second/4)
	require.Eventually(t, func() bool {
		sh.press("fg\n") // the shell reads that, also if a second Ctrl-Z stops the job again, and in the end the command
		return strings.Contains(sh.String(), "got fg")
	}, time.Minute, time.Second/4)
	sh.await("ready> ")
}

func TestCtrlZStopsAJobThatOnlyHoldsItsPermit(t *testing.T) {
	s := newStation(t)
	sh := s.shell(bash...)
	sh.press("fairsem run n --limit 1 --ttl 1h --min-hold 1h -c 'echo o''ver'\n")
	sh.await("over")
	require.Eventually(t, func() bool {
		sh.press("\x1a") // one that comes while the command ends is for that
		return strings.Contains(sh.String(), "[1]+  Stopped")
	}, time.Minute, time.Second/4)
	keys := []string{"fg\n", "\x03"} // a second Ctrl-Z may stop it again, and a Ctrl-C that comes before fg has continued it is for the shell
	require.Eventually(t, func() bool {
		sh.press(keys[0])
		keys[0], keys[1] = keys[1], keys[0]
		status, err := s.sem(1).Status(t.Context())
		return err == nil && status.Holders == 0
	}, time.Minute, time.Second/4)
}

// A stop of the command alone, not of the job, does not stop the renewal.
func TestACommandThatIsStoppedAloneKeepsItsPermit(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "--ttl", "9s", "-c", `echo $$ >`+dir+`/pid; until test -e `+dir+`/go; do sleep 0.01; done; exit 4`)
	pid := atoi(t, awaitFile(t, dir+"/pid"))
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	s.awaitRenewals(2)
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	assert.Equal(t, 4, exitCode(cmd.Wait()), out)
}

func TestACommandThatIsStoppedAloneOnATerminalKeepsItsPermit(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	sh := s.shell(bash...)
	sh.press(`fairsem run n --limit 1 --ttl 9s -c 'echo $$ >` + dir + `/pid; until test -e ` + dir + `/go; do sleep 0.01; done; echo "en""ded"'` + "\n")
	pid := atoi(t, awaitFile(t, dir+"/pid"))
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	s.awaitRenewals(2)
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	sh.await("ended")
	sh.await("ready> ")
}

// It stayed stopped for ever when its terminal had gone.
func TestACommandThatIsStoppedAloneEndsWithItsRun(t *testing.T) {
	s := newStation(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		dir := t.TempDir()
		cmd, out := s.begin("--limit", "1", "-c", `echo $$ >`+dir+`/pid; while :; do sleep 0.01; done`)
		require.NoError(t, syscall.Kill(atoi(t, awaitFile(t, dir+"/pid")), syscall.SIGSTOP))
		require.NoError(t, cmd.Process.Signal(sig))
		assert.Equal(t, 128+int(sig), exitCode(cmd.Wait()), out)
	}
}

func TestADumbTerminalHasNoStatusLine(t *testing.T) {
	s := newStation(t)
	_, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	cmd := s.command("--limit", "1", "--wait", "3s", "--", "true")
	tty := onTerminalOf(t, cmd, nil, "TERM=dumb")
	assert.Equal(t, exit.NotAcquired, exitCode(cmd.Wait()))
	require.Eventually(t, func() bool { return strings.Contains(tty.String(), "was not free within 3s") }, time.Minute, 5*time.Millisecond)
	assert.NotContains(t, tty.String(), "position")
}

// A pager reads keys from the terminal, in a mode of its own, and leaves it as it was.
func TestAPagerHasTheTerminalToItself(t *testing.T) {
	redistest.Program(t, "less")
	s := newStation(t)
	file := t.TempDir() + "/text"
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("line\n", 200)+"the end\n"), 0o600))
	sh := s.shell(bash...)
	sh.press("fairsem run n --limit 1 -- less " + file + "\n")
	s.awaitState(1, 0)
	sh.await("line")
	sh.press("G")
	sh.await("the end")
	sh.press("q")
	sh.await("ready> ")
	sh.press("echo code=$?\n")
	sh.await("code=0")
	s.awaitState(0, 0)
}
