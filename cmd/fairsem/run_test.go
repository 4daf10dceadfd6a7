//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/run"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/redistest"
)

// station is a server of its own and the runs on it.
type station struct {
	t      *testing.T
	server *redistest.Server
	client *fairsem.Client
}

// newStation lets others run meanwhile: tests on stations mostly wait.
func newStation(t *testing.T) *station {
	t.Helper()
	t.Parallel()
	s := &station{t: t, server: redistest.NewServer(t)}
	client, err := fairsem.New(s.server.Client(), fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	s.client = client
	return s
}

func (s *station) sem(limit int64) *fairsem.Semaphore {
	s.t.Helper()
	sem, err := s.client.Semaphore("n", limit)
	require.NoError(s.t, err)
	return sem
}

// command is a run of the name n that has not been started.
func (s *station) command(args ...string) *exec.Cmd {
	return s.program(append([]string{"run", "n"}, args...)...)
}

// program is a fairsem that has not been started.
func (s *station) program(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), "fairsem", args...)
	cmd.Env = append(os.Environ(), "REDIS_URL=redis://"+s.server.Addr())
	return cmd
}

// begin starts a run.
func (s *station) begin(args ...string) (*exec.Cmd, *transcript.Transcript) {
	s.t.Helper()
	return s.start(s.command(args...))
}

// start starts a program, whose output is one.
func (s *station) start(cmd *exec.Cmd) (*exec.Cmd, *transcript.Transcript) {
	s.t.Helper()
	out := &transcript.Transcript{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(s.t, cmd.Start())
	return cmd, out
}

// awaitState waits until so many hold and so many wait.
func (s *station) awaitState(holders, waiting int64) {
	s.t.Helper()
	sem := s.sem(1)
	require.Eventually(s.t, func() bool {
		status, err := sem.Status(s.t.Context())
		return err == nil && status.Holders == holders && status.Waiting == waiting
	}, time.Minute, 5*time.Millisecond, "%d holders, %d waiting", holders, waiting)
}

func awaitFile(t *testing.T, name string) string {
	t.Helper()
	var text []byte
	require.Eventually(t, func() bool {
		var err error
		text, err = os.ReadFile(name)
		return err == nil && bytes.HasSuffix(text, []byte("\n"))
	}, time.Minute, 5*time.Millisecond, name)
	return strings.TrimSpace(string(text))
}

func TestRunExitsLikeItsCommand(t *testing.T) {
	s := newStation(t)
	for script, want := range map[string]int{
		"exit 0":          0,
		"exit 7":          7,
		"kill -9 $$":      137,
		"kill -USR1 $$":   128 + int(syscall.SIGUSR1),
		"no-such-command": 127,
	} {
		out, err := s.command("--limit", "1", "-c", script).Output()
		assert.Equal(t, want, exitCode(err), script)
		assert.Empty(t, out)
	}
	s.awaitState(0, 0)
}

// requireUnexecutable has files executed that are no programs.
func (s *station) requireUnexecutable(command func(args ...string) *exec.Cmd, args ...string) {
	s.t.Helper()
	dir := s.t.TempDir()
	for name, c := range map[string]struct {
		text string
		code int
	}{
		"noformat":      {"true\n", exit.CannotExec},
		"nointerpreter": {"#!/no/such/interpreter\n", exit.NotFound},
	} {
		file := filepath.Join(dir, name)
		require.NoError(s.t, os.WriteFile(file, []byte(c.text), 0o755))
		out, err := command(append(args, "--", file)...).CombinedOutput()
		assert.Equal(s.t, c.code, exitCode(err), "%s", out)
		assert.Contains(s.t, string(out), "fairsem: cannot run")
	}
}

func TestRunReportsAFileThatIsNoProgram(t *testing.T) {
	s := newStation(t)
	s.requireUnexecutable(s.command, "--limit", "1")
	s.awaitState(0, 0)
}

func TestRunDescribesThePermitInTheEnvironment(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "3", "-w", "2", "-c", `echo "$FAIRSEM_NAME $FAIRSEM_WEIGHT $FAIRSEM_ID $FAIRSEM_TOKEN"`)
	cmd.Env = append(cmd.Env, "FAIRSEM_NAME=outer")
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Regexp(t, `^n 2 [0-9A-Za-z_][0-9A-Za-z_-]{10}:\d+ [1-9]\d*\n$`, string(out))
}

// CMD need not be trusted with the password of the server.
func TestTheCommandDoesNotGetThePasswordsOfFairsem(t *testing.T) {
	s := newStation(t)
	for flag, want := range map[string]string{"--quiet": "//kept\n", "--pass-redis-url": "redis://" + s.server.Addr() + "//kept\n"} {
		cmd := s.command("--limit", "1", flag, "-c", `echo "$REDIS_URL/$FAIRSEM_SERVE_TOKEN/$OTHER"`)
		cmd.Env = append(cmd.Env, "FAIRSEM_SERVE_TOKEN=geheim", "OTHER=kept")
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, want, string(out))
	}
}

func TestRunPassesStandardInputAndOutputUntouched(t *testing.T) {
	s := newStation(t)
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	cmd := s.command("--limit", "1", "--", "cat")
	cmd.Stdin = bytes.NewReader(data)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, out))
	assert.Empty(t, stderr.String())
}

func TestRunExitsWith75IfNotGranted(t *testing.T) {
	s := newStation(t)
	p, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	for _, c := range []struct {
		code  int
		lines int
		args  []string
	}{
		{75, 1, []string{"-n"}},
		{0, 0, []string{"-n", "-E", "0"}}, // cron sends a mail of every line
		{75, 0, []string{"-n", "--quiet"}},
		{99, 1, []string{"--wait", "3s", "--conflict-exit-code", "99"}},
		{75, 1, []string{"--wait", "3s"}},
	} {
		out, err := s.command(append(c.args, "--limit", "1", "--", "echo", "ran")...).CombinedOutput()
		assert.Equal(t, c.code, exitCode(err), "%q: %s", c.args, out)
		assert.NotContains(t, string(out), "ran")
		assert.Equal(t, c.lines, strings.Count(string(out), "\n"), "%q: %s", c.args, out)
	}
	s.awaitState(1, 0)
	require.NoError(t, p.Release(t.Context()))
}

func TestRunDoesNotJoinALongQueue(t *testing.T) {
	s := newStation(t)
	_, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	first, _ := s.begin("--limit", "1", "--", "true")
	s.awaitState(1, 1)
	out, err := s.command("--limit", "1", "--max-queue", "1", "--", "true").CombinedOutput()
	assert.Equal(t, 75, exitCode(err), "%s", out)
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
}

func TestASignalDuringTheWaitLeavesTheQueueImmediately(t *testing.T) {
	s := newStation(t)
	_, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
		cmd, out := s.begin("--limit", "1", "--", "echo", "ran")
		s.awaitState(1, 1)
		require.NoError(t, cmd.Process.Signal(sig))
		assert.Equal(t, 128+int(sig), exitCode(cmd.Wait()))
		assert.Empty(t, out.String())
		status, err := s.sem(1).Status(t.Context())
		require.NoError(t, err)
		assert.Zero(t, status.Waiting, "the position in the queue ended with the process")
	}
}

// passedOn are the signals that the help says are passed on, but for those of job control, which the tests with a terminal send.
func passedOn(t *testing.T) (all []syscall.Signal) {
	t.Helper()
	list := regexp.MustCompile(`([A-Z0-9]+,\s)+[A-Z0-9]+ and [A-Z0-9]+ are passed on`).FindString(newRun().Long)
	require.NotEmpty(t, list, "the help has no list of signals")
	for _, name := range regexp.MustCompile(`[A-Z0-9]+`).FindAllString(list, -1) {
		sig := unix.SignalNum("SIG" + name)
		require.NotZero(t, sig, name)
		if sig != syscall.SIGTSTP && sig != syscall.SIGCONT {
			all = append(all, sig)
		}
	}
	return all
}

// The help said that all signals are.
func TestTheSignalsOfTheHelpReachTheWholeGroupOfTheCommand(t *testing.T) {
	s := newStation(t)
	for _, sig := range passedOn(t) {
		dir := t.TempDir()
		script := fmt.Sprintf(`trap 'wait; exit 3' %[1]d; (trap 'echo heard >%[2]s/inner; exit' %[1]d; echo up >%[2]s/up; while :; do sleep 0.01; done) & wait; wait`, int(sig), dir)
		cmd, out := s.begin("--limit", "1", "--", "bash", "-c", script)
		awaitFile(t, dir+"/up")
		require.NoError(t, cmd.Process.Signal(sig))
		assert.Equal(t, 3, exitCode(cmd.Wait()), "%v: %s", sig, out)
		assert.Equal(t, "heard", awaitFile(t, dir+"/inner"))
	}
	s.awaitState(0, 0)
}

func TestNothingOfTheGroupOutlivesARun(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "-c", `(trap "" TERM; echo up >`+dir+`/up; while :; do sleep 0.01; done) & echo $! >`+dir+`/pid; until test -s `+dir+`/up; do sleep 0.01; done; exit 4`)
	require.Equal(t, 4, exitCode(cmd.Wait()), out)
	require.ErrorIs(t, syscall.Kill(atoi(t, awaitFile(t, dir+"/pid")), 0), syscall.ESRCH)
	s.awaitState(0, 0)
}

func TestRunsWithALimitOfOneNeverOverlap(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	var all []*exec.Cmd
	var outs []*transcript.Transcript
	for range 5 {
		cmd, out := s.begin("--limit", "1", "-c", `mkdir `+dir+`/x || exit 9; sleep 0.05; rmdir `+dir+`/x`)
		all, outs = append(all, cmd), append(outs, out)
	}
	for i, cmd := range all {
		assert.NoError(t, cmd.Wait(), outs[i])
	}
	s.awaitState(0, 0)
}

func TestRunHoldsForTheMinimumTime(t *testing.T) {
	s := newStation(t)
	began := time.Now()
	cmd, _ := s.begin("--limit", "1", "--min-hold", "700ms", "-c", "exit 5")
	assert.Equal(t, 5, exitCode(cmd.Wait()))
	assert.GreaterOrEqual(t, time.Since(began), 700*time.Millisecond)
	cmd, out := s.begin("--limit", "1", "--min-hold", "1h", "--json", "-c", "exit 6")
	s.awaitState(1, 0)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), `"event":"ended"`) }, time.Minute, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 6, exitCode(cmd.Wait()))
	s.awaitState(0, 0)
}

// Others may run the command then as if it had not run.
func TestLossDuringTheMinimumTimeIsReported(t *testing.T) {
	s := newStation(t)
	cmd, out := s.begin("--limit", "1", "--min-hold", "1h", "--json", "-c", "exit 0")
	s.awaitState(1, 0)
	require.Eventually(t, func() bool { return strings.Contains(out.String(), `"event":"ended"`) }, time.Minute, 5*time.Millisecond)
	s.evict()
	assert.NoError(t, cmd.Wait())
	assert.Contains(t, out.String(), `"event":"lost"`)
	assert.Contains(t, out.String(), "was lost (evicted) before --min-hold was over")
	assert.NotContains(t, out.String(), `"event":"released"`)
}

// Others may have run beside it, where the message was lost.
func TestLossThatIsNoticedAtTheReleaseIsReported(t *testing.T) {
	s := newStation(t)
	require.NoError(t, s.server.Client().ACLSetUser(t.Context(), "deaf", "on", ">pass", "~*", "+@all", "resetchannels").Err())
	dir := t.TempDir()
	cmd, out := s.begin("--redis", "redis://deaf:pass@"+s.server.Addr(), "--limit", "1", "--ttl", "1h", "--json", "-c", "until test -e "+dir+"/go; do sleep 0.01; done; exit 3")
	s.awaitState(1, 0)
	require.Eventually(t, func() bool { // until then it verifies its permit now and then
		refused, err := s.server.Client().ACLLog(t.Context(), 10).Result()
		return err == nil && len(refused) > 0
	}, time.Minute, 5*time.Millisecond)
	s.evict()
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o600))
	assert.Equal(t, 3, exitCode(cmd.Wait()))
	assert.Contains(t, out.String(), `"event":"lost","name":"n","reason":"evicted"`)
	assert.Contains(t, out.String(), "was lost (evicted) before it was released, which was noticed only then")
	assert.NotContains(t, out.String(), `"event":"released"`)
}

const stubborn = `trap "" TERM INT HUP; echo $$ >%s/pid; while :; do sleep 0.01; done`

// seen writes whether a process is alive.
const seen = `if kill -0 %d 2>%[2]s/err; then echo alive; else echo dead; fi >%[2]s/seen`

// The network of the first is cut while the server goes on, and grants the moment that the lease ends.
func TestACommandIsDeadBeforeItsLostPermitIsGrantedAgain(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	proxy := redistest.NewProxy(t, s.server.Addr())
	cmd, out := s.begin("--limit", "1", "--ttl", "2s", "--redis", "redis://"+proxy.Addr(), "-c", fmt.Sprintf(stubborn, dir))
	pid := atoi(t, awaitFile(t, dir+"/pid"))
	next, _ := s.begin("--limit", "1", "-c", fmt.Sprintf(seen, pid, dir))
	s.awaitState(1, 1)
	proxy.Hold()
	assert.Equal(t, "dead", awaitFile(t, dir+"/seen"))
	assert.NoError(t, next.Wait())
	assert.Equal(t, exit.Lost, exitCode(cmd.Wait()), out)
	assert.Contains(t, out.String(), `fairsem: the permit on "n" was lost (expired), so /bin/sh was ended`)
}

func TestACommandIsDeadWhenAPausedServerContinues(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "--ttl", "2s", "-c", fmt.Sprintf(stubborn, dir))
	pid := atoi(t, awaitFile(t, dir+"/pid"))
	next, _ := s.begin("--limit", "1", "--ttl", "1m", "-c", fmt.Sprintf(seen, pid, dir))
	s.awaitState(1, 1)
	require.NoError(t, s.server.Pause())
	assert.Equal(t, exit.Lost, exitCode(cmd.Wait()), out)
	require.NoError(t, s.server.Resume())
	assert.Equal(t, "dead", awaitFile(t, dir+"/seen"))
	assert.NoError(t, next.Wait())
}

func TestACommandEndsInTimeForEveryOnLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how  string
		code int
		out  string
	}{
		{run.OnLostTerm, exit.Lost, "term\nfairsem: the permit"},
		{run.OnLostKill, exit.Lost, "fairsem: the permit"},
		{run.OnLostIgnore, 8, `fairsem: warning: the permit on "n" was lost (evicted); /bin/sh continues`},
	} {
		t.Run(c.how, func(t *testing.T) {
			s := newStation(t)
			dir := t.TempDir()
			cmd, out := s.begin("--limit", "1", "--on-lost", c.how, "-c",
				`trap 'echo term; exit 9' TERM; echo up >`+dir+`/up; while ! test -e `+dir+`/stop; do sleep 0.01; done; exit 8`)
			awaitFile(t, dir+"/up")
			for holder, err := range s.sem(1).Holders(t.Context()) {
				require.NoError(t, err)
				require.NoError(t, s.sem(1).Evict(t.Context(), holder.ID))
			}
			if c.how == run.OnLostIgnore {
				s.awaitState(0, 0)
				time.AfterFunc(300*time.Millisecond, func() { _ = os.WriteFile(dir+"/stop", nil, 0o644) })
			}
			assert.Equal(t, c.code, exitCode(cmd.Wait()), out)
			assert.Contains(t, out.String(), c.out)
		})
	}
}

func TestAPermitThatCannotBeReleasedIsOnlyAWarning(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "--ttl", "1m", "-c", `echo up >`+dir+`/up; until test -e `+dir+`/stop; do sleep 0.01; done; exit 3`)
	awaitFile(t, dir+"/up")
	require.NoError(t, s.server.Pause())
	require.NoError(t, os.WriteFile(dir+"/stop", nil, 0o644))
	assert.Equal(t, 3, exitCode(cmd.Wait()), out)
	assert.Contains(t, out.String(), "fairsem: warning: the permit was not released and expires within 1m: ")
	assert.NotContains(t, out.String(), "in the background") // nothing goes on after its end
	require.NoError(t, s.server.Resume())
}

func TestJSONReportsEventsOnStandardError(t *testing.T) {
	s := newStation(t)
	cmd := s.command("--limit", "1", "--json", "-c", "echo out; exit 3")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	assert.Equal(t, 3, exitCode(err))
	assert.Equal(t, "out\n", string(out))
	assert.Regexp(t, `^{"time":"[^"]+","event":"granted","name":"n","id":"[^"]+","token":\d+,"weight":1.*}\n`+
		`{.*"event":"started",.*"pid":\d+}\n{.*"event":"ended",.*"exit":3}\n{.*"event":"released".*}\n$`, stderr.String())
}

func TestJSONReportsWhatIsNotUTF8AsBytes(t *testing.T) {
	s := newStation(t)
	const name, tenant = "n\xff", "t\xfe"
	cmd := s.program("run", name, "--tenant", tenant, "--limit", "1", "--json", "-c", `printf %s "$FAIRSEM_ID"`)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	id, err := cmd.Output()
	require.NoError(t, err)
	events := json.NewDecoder(&stderr)
	for _, want := range []note{{"granted", []byte(name), id, []byte(tenant)}, {Event: "started", Name: []byte(name)}, {Event: "ended", Name: []byte(name)}, {Event: "released", Name: []byte(name)}} {
		var n note
		require.NoError(t, events.Decode(&n))
		assert.Equal(t, want, n)
	}
}

// note is the part of the output of --json that is bytes.
type note struct {
	Event  string
	Name   []byte `json:"name_base64"`
	ID     []byte `json:"id_base64"`
	Tenant []byte `json:"tenant_base64"`
}

func TestJSONReportsThatASignalStoppedTheWait(t *testing.T) {
	s := newStation(t)
	permit, err := s.sem(1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	defer func() { assert.NoError(t, permit.Release(t.Context())) }()
	cmd, out := s.begin("--limit", "1", "--json", "-c", "echo ran")
	s.awaitState(1, 1)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(cmd.Wait()))
	assert.Regexp(t, `^{"time":"[^"]+","event":"stopped","name":"n","exit":143,"message":"stopped by terminated"}\n$`, out.String())
}

func atoi(t *testing.T, text string) (n int) {
	t.Helper()
	_, err := fmt.Sscan(text, &n)
	require.NoError(t, err)
	return n
}
