package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

func TestNothingOutlivesARunThatWasKilled(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, _ := s.begin("--limit", "1", "--ttl", "3s", "-c", `trap "" TERM HUP INT; (while :; do sleep 0.01; done) & echo $! >`+dir+`/pid; wait`)
	inner := atoi(t, awaitFile(t, dir+"/pid"))
	t.Cleanup(func() { _ = syscall.Kill(inner, syscall.SIGKILL) })
	outer := children(t, cmd.Process.Pid)
	require.Len(t, outer, 2, "the command and its guard")
	require.True(t, exists(inner))
	require.NoError(t, cmd.Process.Kill())
	_, _ = cmd.Process.Wait() // cmd.Wait would wait for all that can write to the output
	requireGone(t, append(outer, inner))
	s.awaitState(0, 0)
}

// The guard learned of the group after the start, so it did not know that of a run which was killed right then: the kernel
// ended the command, and nothing ended the processes that it had started.
func TestNothingOutlivesARunThatWasKilledWhileItStartedItsCommand(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	runtime.LockOSThread() // a thread traces
	defer runtime.UnlockOSThread()
	script := `sleep 3600 & echo $! >` + dir + `/pid; wait`
	cmd := s.command("--limit", "1", "-c", script)
	startUntilItForks(t, cmd, script)
	inner := atoi(t, awaitFile(t, dir+"/pid"))
	t.Cleanup(func() { _ = syscall.Kill(inner, syscall.SIGKILL) })
	require.NoError(t, cmd.Process.Kill())
	_, _ = cmd.Process.Wait()
	requireGone(t, []int{inner})
}

// startUntilItForks starts a program, and returns when it has forked a process with that argument and does nothing more.
// It must be called on a locked thread.
func startUntilItForks(t *testing.T, cmd *exec.Cmd, argument string) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	require.NoError(t, cmd.Start())
	pid := cmd.Process.Pid
	tooLate := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // so that Wait4 returns
	defer tooLate.Stop()
	var state syscall.WaitStatus
	_, err := syscall.Wait4(pid, &state, 0, nil)
	require.NoError(t, err)
	require.True(t, state.Stopped(), "the first stop is at its first instruction")
	require.NoError(t, syscall.PtraceSetOptions(pid, syscall.PTRACE_O_TRACEVFORKDONE))
	for passed := 0; ; passed = 0 {
		if state.TrapCause() == syscall.PTRACE_EVENT_VFORK_DONE {
			forked, err := syscall.PtraceGetEventMsg(pid)
			require.NoError(t, err)
			if strings.Contains(commandLine(int(forked)), argument) {
				return
			}
		} else if state.StopSignal() != syscall.SIGTRAP {
			passed = int(state.StopSignal())
		}
		require.NoError(t, syscall.PtraceCont(pid, passed))
		_, err := syscall.Wait4(pid, &state, 0, nil)
		require.NoError(t, err)
		require.True(t, state.Stopped(), "it has ended: %x", state)
	}
}

// commandLine waits for the arguments of a process, which has none at the beginning of exec. A process that has ended has
// none.
func commandLine(pid int) string {
	for exists(pid) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); len(line) > 0 { // an error: it has just ended
			return string(line)
		}
	}
	return ""
}

func TestAProcessOfASessionOfItsOwnIsNeitherEndedNorWaitedFor(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "-c", `cd `+dir+`; setsid sh -c 'echo up >up; until test -e go || ! test -d `+dir+`; do sleep 0.01; done; echo over >end' >/dev/null 2>&1 &
		until test -s up; do sleep 0.01; done; exit 4`)
	require.Equal(t, 4, exitCode(cmd.Wait()), out)
	s.awaitState(0, 0)
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o600))
	require.Equal(t, "over", awaitFile(t, dir+"/end"))
}

// One that cannot have a guard ran without, and said nothing; one that could not be started at all counted as not executable.
func TestNoCommandRunsWithoutItsGuardForLackOfFiles(t *testing.T) {
	s := newStation(t)
	const siblings = `for f in /proc/[0-9]*/stat; do read -r pid name state parent rest <$f && test "$parent" = $PPID && echo $pid; done 2>/dev/null; true`
	for files := 10; ; files++ {
		fairsem := s.command("--limit", "1", "-c", siblings)
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "sh"}, fairsem.Args...)...)
		cmd.Env = fairsem.Env
		out, err := cmd.CombinedOutput()
		if err == nil {
			require.Len(t, strings.Fields(string(out)), 2, "the command and its guard, with %d files", files)
			require.Greater(t, files, 10, "enough for all")
			return
		}
		require.Equal(t, exit.Failure, exitCode(err), "%s", out)
		require.Contains(t, string(out), "fairsem: cannot start a process: ")
	}
}

func TestAnOutputThatIsClosedCountsAsNull(t *testing.T) {
	s := newStation(t)
	const script = `test /proc/$$/fd/1 -ef /dev/null && echo out`
	for _, of := range []*exec.Cmd{s.program("ls"), s.command("--limit", "1", "-c", script), s.program("limit", "rate", "1/1s", "-c", script)} {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `exec "$@" >&-`, "sh"}, of.Args...)...)
		cmd.Env = of.Env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// Orphans were reaped when the command had ended. One that made many, in weeks, could start no process any more.
func TestOrphansAreReapedWhileTheCommandRuns(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "-c", `cd `+dir+`; for i in $(seq 200); do (true &); done
		echo up >up; until test -e go || ! test -d `+dir+`; do sleep 0.01; done; exit 4`)
	awaitFile(t, dir+"/up")
	require.Eventually(t, func() bool { return len(children(t, cmd.Process.Pid)) <= 2 }, time.Minute, 10*time.Millisecond, "more than the command and its guard")
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o600))
	require.Equal(t, 4, exitCode(cmd.Wait()), out)
}

// A zombie is in the group until its parent reaps it, and the parent may have left the group. After a loss, no process
// was to be killed any more, and the run went on for as long as the parent.
func TestAnUnreapedZombieDoesNotKeepARunAlive(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	// No shell may be alive when the first sleep ends: it could reap it.
	cmd, out := s.begin("--limit", "1", "-c", `trap "" TERM; sh -c 'sleep 1 & exec setsid sleep 300 >/dev/null 2>&1' & echo $! >`+dir+`/parent; while :; do sleep 0.01; done`)
	parent := atoi(t, awaitFile(t, dir+"/parent"))
	t.Cleanup(func() { _ = syscall.Kill(parent, syscall.SIGKILL) })
	require.Eventually(t, func() bool { return commandLine(parent) == "sleep\x00300\x00" }, time.Minute, time.Millisecond, "it does not leave the group")
	for holder, err := range s.sem(1).Holders(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, s.sem(1).Evict(t.Context(), holder.ID))
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the run, which ends with the test
	select {
	case err := <-ended:
		require.Equal(t, exit.Lost, exitCode(err), out)
		require.Contains(t, out.String(), "cannot be removed")
	case <-time.After(time.Minute):
		require.Fail(t, "the run does not end", out)
	}
}

func init() { programs["regroup"] = regroup }

// regroup moves to the process group of its parent, and executes its arguments.
func regroup() {
	group, err := syscall.Getpgid(os.Getppid())
	if err == nil {
		err = syscall.Setpgid(0, group)
	}
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	panic(err)
}

// It went on beside the next holder.
func TestACommandThatMovesToAnotherGroupEndsWithItsPermit(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, _ := s.begin("--limit", "1", "--ttl", "1h", "-c", "exec regroup /bin/sh -c 'echo $$ >"+dir+"/pid; while :; do sleep 0.01; done'")
	pid := atoi(t, awaitFile(t, dir+"/pid"))
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	require.NotEqual(t, pid, group)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	s.evict()
	requireGone(t, []int{pid})
	assert.Equal(t, exit.Lost, exitCode(cmd.Wait()))
}

// The error said that the command was ended by it.
func TestLossAfterTheEndOfACommandWhoseProcessesGoOnIsReported(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "--ttl", "1h", "--kill-after", "2m", "--json", "-c",
		"("+fmt.Sprintf(stubborn, dir)+") & until test -s "+dir+"/pid; do sleep 0.01; done; echo $$ >"+dir+"/own; exit 4")
	own := atoi(t, awaitFile(t, dir+"/own")) // $$ of the part behind & is the same
	requireGone(t, []int{own})
	s.evict()
	require.Eventually(t, func() bool { return strings.Contains(out.String(), `"event":"lost"`) }, time.Minute, 5*time.Millisecond)
	require.NoError(t, syscall.Kill(-own, syscall.SIGKILL))
	assert.Equal(t, 4, exitCode(cmd.Wait()))
	assert.Contains(t, out.String(), "after /bin/sh had ended, while processes that it had left were ended")
}
