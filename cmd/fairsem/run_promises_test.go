//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

func TestArgumentsReachTheCommandAsTheyAre(t *testing.T) {
	s := newStation(t)
	args := []string{"$HOME", "*", "a b", "", "--limit", "-n", "'", "\n", "--"}
	out, err := s.command(append([]string{"--limit", "1", "--", "printf", "%s|"}, args...)...).Output()
	require.NoError(t, err)
	assert.Equal(t, strings.Join(args, "|")+"|", string(out))
}

func TestARunAcquiresItsWeightAndNoMore(t *testing.T) {
	s := newStation(t)
	p, err := s.sem(3).Acquire(t.Context(), 1)
	require.NoError(t, err)
	for weight, want := range map[string]int{"2": 0, "3": exit.NotAcquired} {
		out, err := s.command("--limit", "3", "-w", weight, "-n", "--", "true").CombinedOutput()
		assert.Equal(t, want, exitCode(err), "%s: %s", weight, out)
	}
	require.NoError(t, p.Release(t.Context()))
}

func TestAHeadStartOvertakesRecentWaiters(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	p, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	usual, _ := s.begin("--limit", "1", "-c", "echo usual >>"+dir+"/order")
	s.awaitState(1, 1)
	urgent, _ := s.begin("--limit", "1", "--head-start", "1h", "-c", "echo urgent >>"+dir+"/order")
	s.awaitState(1, 2)
	require.NoError(t, p.Release(t.Context()))
	require.NoError(t, usual.Wait())
	require.NoError(t, urgent.Wait())
	assert.Equal(t, "urgent\nusual", awaitFile(t, dir+"/order"))
}

func TestTheLabelIsWhatOperatorsSee(t *testing.T) {
	s := newStation(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	for _, c := range []struct {
		args []string
		want string
	}{{nil, host + ":"}, {[]string{"--label", "backup of srv"}, "backup of srv"}} {
		cmd, _ := s.begin(append(c.args, "--limit", "1", "-c", "while :; do sleep 0.01; done")...)
		s.awaitState(1, 0)
		labelled(t, s.sem(1).Holders, c.want)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		assert.Equal(t, 143, exitCode(cmd.Wait()))
	}
}

func TestKillAfterIsHowLongACommandHasToEnd(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "--ttl", "1h", "--kill-after", "300ms", "-c", `trap 'echo term' TERM; sleep 0.3; echo up >`+dir+`/up; while :; do sleep 0.01; done`)
	awaitFile(t, dir+"/up")
	began := time.Now()
	s.evict()
	assert.Equal(t, exit.Lost, exitCode(cmd.Wait()))
	assert.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	assert.Contains(t, out.String(), "term\n")
}

// evict evicts all holders and waiters.
func (s *station) evict() {
	s.t.Helper()
	for _, all := range [][]fairsem.Ticket{s.tickets(s.sem(1).Holders(s.t.Context())), s.tickets(s.sem(1).Waiters(s.t.Context()))} {
		for _, one := range all {
			require.NoError(s.t, s.sem(1).Evict(s.t.Context(), one.ID))
		}
	}
}

func (s *station) tickets(seq func(func(fairsem.Ticket, error) bool)) []fairsem.Ticket {
	s.t.Helper()
	all, err := inspect.Collect(seq)
	require.NoError(s.t, err)
	return all
}

// An eviction of a waiting run is reported in one line, with the exit code of a refusal.
func TestAnEvictedRunWasNotAcquired(t *testing.T) {
	s := newStation(t)
	p, err := s.sem(2).Acquire(t.Context(), 2)
	require.NoError(t, err)
	refused := func(do func()) string {
		t.Helper()
		cmd, out := s.begin("--limit", "2", "-w", "2", "--", "echo", "ran")
		s.awaitState(1, 1)
		do()
		assert.Equal(t, exit.NotAcquired, exitCode(cmd.Wait()))
		assert.Equal(t, 1, strings.Count(out.String(), "\n"), "one line: %s", out)
		assert.NotContains(t, out.String(), "ran\n")
		return out.String()
	}
	out := refused(func() {
		for _, waiter := range s.tickets(s.sem(2).Waiters(t.Context())) {
			require.NoError(t, s.sem(2).Evict(t.Context(), waiter.ID))
		}
	})
	assert.Regexp(t, `evicted by [^ ]+:\d+\n$`, out)
	refused(func() { require.NoError(t, s.sem(2).SetLimit(t.Context(), 1)) })
	require.NoError(t, p.Release(t.Context()))
}

func TestAPausedNameGrantsNoRunUntilItIsResumed(t *testing.T) {
	s := newStation(t)
	require.NoError(t, s.sem(1).SetLimit(t.Context(), 0))
	cmd, out := s.begin("--limit", "1", "--", "echo", "ran")
	s.awaitState(0, 1)
	assert.Empty(t, out.String())
	require.NoError(t, s.sem(1).ResetLimit(t.Context()))
	require.NoError(t, cmd.Wait())
	assert.Equal(t, "ran\n", out.String())
}

func TestAServerThatDiesDuringAWaitIsAFailureOfFairsem(t *testing.T) {
	s := newStation(t)
	_, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	cmd, out := s.begin("--limit", "1", "--ttl", "3s", "--redis", "redis://"+s.server.Addr(), "--", "echo", "ran")
	if s.awaitState(1, 1); t.Failed() {
		return
	}
	require.NoError(t, s.server.Kill())
	assert.Equal(t, exit.Failure, exitCode(cmd.Wait()), out)
	assert.Equal(t, 1, strings.Count(out.String(), "\n"), "one line: %s", out)
	assert.Contains(t, out.String(), s.server.Addr())
}

func TestARestartOfTheServerDoesNotEndARun(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "-c", `echo up >`+dir+`/up; until test -e `+dir+`/go; do sleep 0.01; done; exit 5`)
	awaitFile(t, dir+"/up")
	require.NoError(t, s.server.Restart())
	s.awaitState(1, 0) // it has restored the state that the server forgot
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	assert.Equal(t, 5, exitCode(cmd.Wait()), out)
	s.awaitState(0, 0)
}

func TestAWrongPasswordIsOneLineWithoutIt(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.RequireUserAuth("user", "richtig")
	for _, args := range [][]string{{"run", "n", "--limit", "1", "--redis", "redis://user:geheim@" + m.Addr(), "--", "true"}, {"demo", "--redis", "redis://user:geheim@" + m.Addr()}} {
		out, err := exec.CommandContext(t.Context(), "fairsem", args...).CombinedOutput()
		assert.Equal(t, exit.Failure, exitCode(err))
		assert.Regexp(t, `^fairsem: Redis at `+m.Addr()+` refuses: .*check address, user and password.*\n$`, string(out))
		assert.NotContains(t, string(out), "geheim")
	}
}

func TestJSONReportsALoss(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "--json", "-c", `echo up >`+dir+`/up; while :; do sleep 0.01; done`)
	awaitFile(t, dir+"/up")
	s.evict()
	assert.Equal(t, exit.Lost, exitCode(cmd.Wait()))
	assert.Regexp(t, `{[^\n]*"event":"lost"[^\n]*"reason":"evicted"}\n{[^\n]*"event":"ended"[^\n]*"exit":143}\n{[^\n]*"event":"failed"[^\n]*"exit":76,"message":"the permit on \\"n\\" was lost \(evicted by [^ )]+:\d+\)[^\n]*}\n$`, out.String())
}

// The first word about it was SIGPIPE, which killed the run and its command, and left the permit until its TTL.
func TestARunWorksIfItsMessagesAreNotRead(t *testing.T) {
	s := newStation(t)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	for args, want := range map[string]int{"exit 3": 3, "kill -PIPE $$": 128 + int(syscall.SIGPIPE), "fairsem evict n --all --yes >/dev/null 2>&1; while :; do sleep 0.01; done": exit.Lost} {
		cmd := s.command("--limit", "1", "--pass-redis-url", "--json", "-c", args)
		cmd.Stderr = writer
		assert.Equal(t, want, exitCode(cmd.Run()), args)
		s.awaitState(0, 0)
	}
	assert.NoError(t, writer.Close())
}

// A terminal that was stopped with Ctrl-S, or a pipe whose reader sleeps, must not keep CMD alive.
func TestACommandIsEndedIfMessagesAreNotRead(t *testing.T) {
	s := newStation(t)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, writer.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = writer.Write(make([]byte, 1<<20))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it is full")
	dir := t.TempDir()
	cmd := s.command("--limit", "1", "--json", "-c", `exec 2>/dev/null; trap 'echo term >`+dir+`/term; exit' TERM; echo $$ >`+dir+`/pid; while :; do sleep 0.01; done`)
	cmd.Stderr = writer
	require.NoError(t, cmd.Start())
	awaitFile(t, dir+"/pid")
	s.evict()
	assert.Equal(t, "term", awaitFile(t, dir+"/term"))
	go func() { _, _ = io.Copy(io.Discard, reader) }() // ends with the pipe
	assert.Equal(t, exit.Lost, exitCode(cmd.Wait()))
	assert.NoError(t, writer.Close())
}

// Where all signals that a run listens for are ignored it listened for every other: for those of the Go runtime too.
func TestARunStartedToIgnoreAllItsSignalsHandlesNoOther(t *testing.T) {
	s := newStation(t)
	inner := s.command("--limit", "1", "-c", `kill -CHLD $PPID; kill -URG $PPID; kill -WINCH $PPID; exit 7`)
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `trap "" HUP INT TERM QUIT USR1 USR2; exec "$@"`, "sh"}, inner.Args...)...)
	cmd.Env = inner.Env
	out, err := cmd.CombinedOutput()
	assert.Equal(t, 7, exitCode(err), "%s", out)
}

// A terminal takes U+009B for the beginning of an order, and U+202E turns the rest of a line round.
func TestTheJSONOfARunHasNoControlCharacters(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "1", "--json", "--", "true")
	cmd.Args[2] = hostile
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	assert.Contains(t, string(out), `"event":"released"`)
	assert.Contains(t, string(out), `\u202e\u009b31m`)
	requireHarmless(t, strings.ReplaceAll(string(out), "\ufffd", "")) // for the byte that is no UTF-8
}

// Nothing ends a command while the fairsem that would end it is stopped. The help says so.
func TestACommandOutlivesItsPermitOnlyWhileItsFairsemIsStopped(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "--ttl", "2s", "-c", fmt.Sprintf(stubborn, dir))
	pid := atoi(t, awaitFile(t, dir+"/pid"))
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	next, _ := s.begin("--limit", "1", "-c", fmt.Sprintf(seen, pid, dir))
	assert.Equal(t, "alive", awaitFile(t, dir+"/seen"))
	require.NoError(t, next.Wait())
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, exit.Lost, exitCode(cmd.Wait()), out)
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

// nohup has a process ignore SIGHUP, and that is to stay so.
func TestASignalThatIsIgnoredStaysIgnored(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	inner := s.command("--limit", "1", "-c", `echo up >`+dir+`/up; until test -e `+dir+`/go; do sleep 0.01; done; exit 7`)
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `trap "" HUP; exec "$@"`, "sh"}, inner.Args...)...)
	cmd.Env = inner.Env
	require.NoError(t, cmd.Start())
	awaitFile(t, dir+"/up")
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	assert.Equal(t, 7, exitCode(cmd.Wait()))
}

// The wait is over when it is over, whether the server answers or not.
func TestAWaitEndsInTimeIfTheServerHangs(t *testing.T) {
	s := newStation(t)
	_, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	cmd, out := s.begin("--limit", "1", "--ttl", "1h", "--wait", "5s", "-E", "9", "--", "true")
	s.awaitState(1, 1)
	require.NoError(t, s.server.Pause())
	if exitCode(cmd.Wait()) == 9 { // all that it had asked was answered before
		assert.Contains(t, out.String(), "was not free within 5s")
	} else {
		assert.Contains(t, out.String(), "Redis unavailable: no answer from Redis for ")
	}
	require.NoError(t, s.server.Resume())
}
