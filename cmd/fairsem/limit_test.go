//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
)

// limit is a fairsem limit of the name n that has not been started.
func (s *station) limit(args ...string) *exec.Cmd {
	return s.program(append([]string{"limit", "n"}, args...)...)
}

// beginLimit starts one.
func (s *station) beginLimit(args ...string) (*exec.Cmd, *transcript.Transcript) {
	s.t.Helper()
	return s.start(s.limit(args...))
}

// grants collects the grants of the name n, by their ids, until so many were made. One that begins and ends between two
// looks is not seen.
func (s *station) grants(total int64) (seen []fairsem.Ticket) {
	s.t.Helper()
	all := make(map[string]fairsem.Ticket)
	n := s.client.Inspect("n")
	require.Eventually(s.t, func() bool {
		for g, err := range n.Holders(s.t.Context()) {
			if err == nil {
				all[g.ID] = g
			}
		}
		status, err := n.Status(s.t.Context())
		return err == nil && status.Granted >= total
	}, time.Minute, 5*time.Millisecond, "%d grants", total)
	return slices.SortedFunc(maps.Values(all), func(a, b fairsem.Ticket) int { return cmp.Compare(a.Token, b.Token) })
}

// The token of a grant is its time on the server, in microseconds.
func TestNoWindowHasMoreGrantsThanTheLimitInAllProcessesTogether(t *testing.T) {
	s := newStation(t)
	const limit, processes, window = 2, 7, time.Second
	var all []*exec.Cmd
	var outs []*transcript.Transcript
	for range processes {
		cmd, out := s.beginLimit("2/1s", "--", "echo", "ran")
		all, outs = append(all, cmd), append(outs, out)
	}
	seen := s.grants(processes)
	for i, cmd := range all {
		require.NoError(t, cmd.Wait(), outs[i])
		assert.Equal(t, "ran\n", outs[i].String())
	}
	require.Greater(t, len(seen), limit, "of at least two windows")
	for i := limit; i < len(seen); i++ {
		apart := time.Duration(seen[i].Token-seen[i-limit].Token) * time.Microsecond
		assert.GreaterOrEqual(t, apart, window-time.Millisecond, "grants %d and %d", i-limit, i) // deadlines are whole milliseconds
	}
	assert.Zero(t, s.status().Waiting)
}

func (s *station) status() fairsem.Status {
	s.t.Helper()
	status, err := s.client.Inspect("n").Status(s.t.Context())
	require.NoError(s.t, err)
	return status
}

// awaitQueue waits until so many wait for a grant.
func (s *station) awaitQueue(waiting int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.status().Waiting == waiting }, time.Minute, 5*time.Millisecond, "%d waiting", waiting)
}

func TestLimitGrantsFirstComeFirstServed(t *testing.T) {
	s := newStation(t)
	file := filepath.Join(t.TempDir(), "order")
	require.NoError(t, s.limit("1/1h").Run())
	var all []*exec.Cmd
	for i, name := range []string{"first", "second", "third"} {
		cmd, _ := s.beginLimit("1/1h", "-c", "echo "+name+" >>"+file)
		all = append(all, cmd)
		s.awaitQueue(int64(i + 1))
	}
	for i := range all { // each grant that is revoked makes room for the next
		for g, err := range s.client.Inspect("n").Holders(t.Context()) {
			require.NoError(t, err)
			require.NoError(t, s.client.Inspect("n").Evict(t.Context(), g.ID))
		}
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(file)
			return err == nil && bytes.Count(text, []byte("\n")) == i+1
		}, time.Minute, 5*time.Millisecond)
	}
	for _, cmd := range all {
		require.NoError(t, cmd.Wait())
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "first\nsecond\nthird\n", string(text))
}

// So it has the terminal, the signals and the exit code, and the parent of fairsem waits for CMD.
func TestLimitBecomesItsCommand(t *testing.T) {
	s := newStation(t)
	cmd, out := s.beginLimit("100/s", "-c", `echo "$$ $PPID"; exit 7`)
	assert.Equal(t, 7, exitCode(cmd.Wait()))
	assert.Equal(t, []int{cmd.Process.Pid, os.Getpid()}, []int{atoi(t, strings.Fields(out.String())[0]), atoi(t, strings.Fields(out.String())[1])})
	cmd, _ = s.beginLimit("100/s", "-c", `kill -USR1 $$`)
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	assert.Equal(t, syscall.SIGUSR1, exit.Sys().(syscall.WaitStatus).Signal())
}

// A process that is replaced hands down which signals it ignores, and which it blocks. nohup has it ignore HUP, and a shell
// without job control INT.
func TestTheCommandOfALimitFindsSignalsAsTheyWere(t *testing.T) {
	s := newStation(t)
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("looks at /proc")
	}
	masks := []string{"-E", "^Sig(Blk|Ign)", "/proc/self/status"}
	for _, trap := range []string{"", `trap "" HUP INT; `} {
		sh := func(cmd *exec.Cmd) string {
			wrapped := exec.CommandContext(t.Context(), "sh", append([]string{"-c", trap + `exec "$@"`, "sh"}, cmd.Args...)...)
			wrapped.Env = cmd.Env
			out, err := wrapped.CombinedOutput()
			require.NoError(t, err, "%s", out)
			return string(out)
		}
		want := sh(exec.CommandContext(t.Context(), "grep", masks...))
		assert.Equal(t, want, sh(s.limit(append([]string{"100/s", "--", "grep"}, masks...)...)), "%q", trap)
	}
}

func TestTheCommandOfALimitHasInputAndOutputAndNoFileOfFairsem(t *testing.T) {
	s := newStation(t)
	files := `cat; for f in /proc/$$/fd/*; do case ${f##*/} in 0|1|2) ;; *) readlink "$f" || : ;; esac; done`
	sh := func(cmd *exec.Cmd) string {
		cmd.Stdin = strings.NewReader("input\n")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Empty(t, stderr.String())
		return string(out)
	}
	want := sh(exec.CommandContext(t.Context(), "/bin/sh", "-c", files)) // this process may have been started with more
	assert.True(t, strings.HasPrefix(want, "input\n"))
	assert.Equal(t, want, sh(s.limit("100/s", "-c", files)))
}

func TestTheCommandOfALimitDoesNotGetThePasswordsOfFairsem(t *testing.T) {
	s := newStation(t)
	for flag, want := range map[string]string{"--quiet": "//kept/outer\n", "--pass-redis-url": "redis://" + s.server.Addr() + "//kept/outer\n"} {
		cmd := s.limit("100/s", flag, "-c", `echo "$REDIS_URL/$FAIRSEM_SERVE_TOKEN/$OTHER/$FAIRSEM_NAME"`)
		cmd.Env = append(cmd.Env, "FAIRSEM_SERVE_TOKEN=geheim", "OTHER=kept", "FAIRSEM_NAME=outer")
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, want, string(out))
	}
}

func TestARefusedLimitReportsWhenUnitsAreGranted(t *testing.T) {
	s := newStation(t)
	require.NoError(t, s.limit("3/1h", "-w", "3").Run())
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{75, `^fairsem: not acquired: "n" would grant the units in (1h|59m)\S* at the earliest: try again then\n$`, []string{"-n"}},
		{75, `^fairsem: not acquired: "n" would grant the units in (1h|59m)\S* at the earliest: try again then\n$`, []string{"--wait", "1m"}},
		{0, `^$`, []string{"-n", "-E", "0"}},
		{75, `^$`, []string{"-n", "--quiet"}},
		{9, `^{"time":"[^"]+","event":"failed","name":"n","exit":9,"retry_after_ms":3[56]\d{5},"message":"not acquired: [^"]*\\"n\\"[^"]*"}\n$`, []string{"--wait", "1m", "-E", "9", "--json"}},
	} {
		out, err := s.limit(append(c.args, "3/1h", "--", "echo", "ran")...).CombinedOutput()
		assert.Equal(t, c.code, exitCode(err), "%q", c.args)
		assert.Regexp(t, c.says, string(out), "%q", c.args)
	}
	status := s.status()
	assert.Equal(t, []int64{3, 0, 1}, []int64{status.Used, status.Waiting, status.Granted}, "a refusal counts for nothing")
}

func TestALimitWithoutACommandOnlyWaits(t *testing.T) {
	s := newStation(t)
	out, err := s.limit("5/1h", "--json").CombinedOutput()
	require.NoError(t, err)
	assert.Regexp(t, `^{"time":"[^"]+","event":"granted","name":"n","weight":1(,"waited_ms":\d+)?}\n$`, string(out))
	assert.EqualValues(t, 1, s.status().Used)
}

// While a name is paused Redis cannot say that the wait is too long.
func TestTheEndOfTheWaitSaysWhetherRedisAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   int
		says   string
		silent bool
	}{
		"paused": {75, `^fairsem: not acquired: "n" did not grant the units within 11s\n$`, false},
		"silent": {125, `^fairsem: .*Redis unavailable: no answer from Redis for `, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStation(t)
			require.NoError(t, s.limit("5/s").Run())
			require.NoError(t, s.client.Inspect("n").SetLimit(t.Context(), 0))
			cmd, out := s.beginLimit("5/s", "--wait", "11s")
			if c.silent {
				require.Eventually(t, func() bool { return s.status().OldestWait > 2*time.Second }, time.Minute, 50*time.Millisecond)
				require.NoError(t, s.server.Pause())
			}
			assert.Equal(t, c.code, exitCode(cmd.Wait()), "%s", out)
			assert.Regexp(t, c.says, out.String())
			if c.silent {
				require.NoError(t, s.server.Resume())
			}
		})
	}
}

func TestASignalEndsTheWaitForAGrant(t *testing.T) {
	s := newStation(t)
	require.NoError(t, s.limit("1/1h").Run())
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		cmd, out := s.beginLimit("1/1h", "--", "echo", "ran")
		s.awaitQueue(1)
		require.NoError(t, cmd.Process.Signal(sig))
		assert.Equal(t, 128+int(sig), exitCode(cmd.Wait()))
		assert.Empty(t, out.String())
		assert.Zero(t, s.status().Waiting, "the position in the queue ended with the process")
	}
}

func TestACommandThatCannotBeExecutedIsReportedAfterTheGrant(t *testing.T) {
	s := newStation(t)
	s.requireUnexecutable(s.limit, "100/s")
	out, err := s.limit("100/s", "--", "no-such-command").CombinedOutput()
	assert.Equal(t, exit.NotFound, exitCode(err), "%s", out)
	assert.EqualValues(t, 2, s.status().Granted, "a missing command requests nothing")
}

func TestANameOfTheOtherKindIsExplained(t *testing.T) {
	s := newStation(t)
	p, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	for _, args := range [][]string{{"5/s"}, {"5/s", "-n"}, {"5/s", "--wait", "1m"}} {
		out, err := s.limit(args...).CombinedOutput()
		assert.Equal(t, 125, exitCode(err), "%q", args)
		assert.Equal(t, "fairsem: \"n\" is the name of a semaphore, which is for fairsem run, and whose limit fairsem resize changes: choose another name\n", string(out), "%q", args)
	}
	require.NoError(t, p.Release(t.Context()))
	require.NoError(t, s.program("limit", "rate", "5/s").Run())
	out, err := s.program("run", "rate", "--limit", "1", "--", "true").CombinedOutput()
	assert.Equal(t, 125, exitCode(err))
	assert.Equal(t, "fairsem: \"rate\" is the name of a rate limit, which is for fairsem limit: choose another name\n", string(out))
}

func TestAWaiterOfALimitCanBeEvicted(t *testing.T) {
	s := newStation(t)
	require.NoError(t, s.limit("1/1h").Run())
	cmd, out := s.beginLimit("1/1h", "--label", "build 7", "--json", "--", "echo", "ran")
	s.awaitQueue(1)
	id := labelled(t, s.client.Inspect("n").Waiters, "build 7")
	require.NoError(t, s.client.Inspect("n").Evict(t.Context(), id))
	assert.Equal(t, 75, exitCode(cmd.Wait()))
	assert.Contains(t, out.String(), `"reason":"evicted"`)
	assert.NotContains(t, out.String(), "ran")
}

// labelled waits for a holder or waiter whose label begins so, and returns its id: a process stores its label beside its first call, not
// before.
func labelled(t *testing.T, tickets func(context.Context) iter.Seq2[fairsem.Ticket, error], label string) (id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for ticket, err := range tickets(t.Context()) {
			if err == nil && strings.HasPrefix(ticket.Label, label) {
				id = ticket.ID
			}
		}
		return id != ""
	}, time.Minute, time.Millisecond, "nobody has the label %q", label)
	return id
}
