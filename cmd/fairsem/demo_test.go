//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/demo"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/history"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// Seven processes with leases of two seconds lose their permits on a machine that stalls for as long: beside these demos runs nothing
// else.
func TestTheDemoShowsThatEveryPromiseHolds(t *testing.T) { //nolint:tparallel // as the line above says
	t.Run("on the embedded server", func(t *testing.T) {
		t.Parallel()
		out, err := demoCommand(t, "--for", "3s").Output()
		require.NoError(t, err, "%s", out)
		requireDemo(t, string(out))
		assert.Contains(t, string(out), "the embedded server at 127.0.0.1:")
	})
	t.Run("on a real server", func(t *testing.T) {
		t.Parallel()
		server := redistest.NewServer(t)
		require.NoError(t, server.Client().ACLSetUser(t.Context(), "team", "on", ">pass", "~team:*", "resetchannels", "&team:*", "+@all").Err())
		demo := demoCommand(t, "--for", "3s", "--redis", "redis://team:pass@"+server.Addr())
		demo.Env = append(demo.Env, "FAIRSEM_PREFIX=team")
		out, err := demo.Output()
		require.NoError(t, err, "%s", out)
		requireDemo(t, string(out))
		assert.Contains(t, string(out), "Redis at "+server.Addr())

		keys, err := server.Client().Keys(t.Context(), "*").Result()
		require.NoError(t, err)
		for _, key := range keys {
			left, err := server.Client().PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			assert.NotEqual(t, time.Duration(-1), left, "%s stays for ever", key)
			assert.Less(t, left, time.Minute, key)
		}
	})
	for kind, start := range places {
		t.Run("on "+kind, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			out, err := p.command(t, "demo", "--for", "3s", "--redis", p.url).CombinedOutput()
			require.NoError(t, err, "%s", out)
			requireDemo(t, string(out))
			p.requireNothingForEver(t)
		})
	}
}

func TestWithJSONTheDemoWritesItsResultAndNothingElse(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	out, err := demoCommand(t, "--for", "3s", "--json", "--redis", "redis://"+m.Addr()).CombinedOutput()
	var got struct {
		Held     bool
		Server   string
		Limit    int
		TookMS   int `json:"took_ms"`
		Events   []struct{ Text string }
		Promises []struct {
			Promise, Found string
			Held           bool
		}
	}
	line, rest, _ := strings.Cut(string(out), "\n")
	require.NoError(t, json.Unmarshal([]byte(line), &got), "%s", out)
	assert.Equal(t, err == nil, got.Held, "%s", out)
	assert.Equal(t, err == nil, rest == "", rest) // a busy machine may not keep every promise
	assert.Equal(t, "Redis at "+m.Addr(), got.Server)
	assert.Equal(t, demo.Limit, got.Limit)
	assert.GreaterOrEqual(t, got.TookMS, 3000)
	assert.Contains(t, got.Events[1].Text, "kill -9")
	require.Len(t, got.Promises, 5)
	assert.Equal(t, "first come, first served", got.Promises[1].Promise)
	assert.True(t, got.Promises[1].Held)
	assert.Contains(t, got.Promises[1].Found, "0 overtakes")
}

func TestTheDemoOfTenantsShowsBothSides(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	out, err := demoCommand(t, "tenants", "--for", "2s", "--json", "--redis", "redis://"+server.Addr()).Output()
	require.NoError(t, err, "%s", out)
	var got struct {
		Held  bool
		Sides []struct {
			Tenants      bool
			Quiet, Noisy struct{ Jobs int }
		}
		Promises []struct{ Held bool }
	}
	require.NoError(t, json.Unmarshal(out, &got), "%s", out)
	assert.True(t, got.Held)
	require.Len(t, got.Sides, 2)
	assert.False(t, got.Sides[0].Tenants)
	assert.True(t, got.Sides[1].Tenants)
	assert.Greater(t, got.Sides[1].Quiet.Jobs, got.Sides[0].Quiet.Jobs)
	assert.NotZero(t, got.Sides[0].Noisy.Jobs)
	assert.Len(t, got.Promises, 6)
}

func TestTheDemoOfTenantsIsALogWithoutATerminal(t *testing.T) {
	t.Parallel()
	out, err := demoCommand(t, "tenants", "--for", "2s").Output()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{"the embedded server at 127.0.0.1:", "without tenants: noisy holds", "with tenants:    quiet had", "6 of 6 promises held"} {
		assert.Contains(t, string(out), want)
	}
}

// A password reaches the workers only: not the output, and not the arguments and the
// environment of any process.
func TestThePasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	ps := redistest.Program(t, "ps")
	m := miniredis.RunT(t)
	m.RequireAuth("geheim")
	d := start(t, "--for", "1h", "--redis", "redis://:geheim@"+m.Addr())
	d.await("3 of 3 used")
	processes, err := exec.CommandContext(t.Context(), ps, "axeww").Output()
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^.*demo-worker.*$`).FindAll(processes, -1)
	assert.NotEmpty(t, lines)
	assert.NotContains(t, string(bytes.Join(lines, nil)), "geheim")
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	d.wait()
	assert.NotContains(t, d.out.String(), "geheim")
}

func TestCtrlCLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	requireNothingLeft(t, syscall.SIGINT, 130)
}

// Go prints its goroutines and exits with 2 after a SIGQUIT that nobody catches.
func TestCtrlBackslashLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	requireNothingLeft(t, syscall.SIGQUIT, 131)
}

// requireNothingLeft has a signal end a demo.
func requireNothingLeft(t *testing.T, ending os.Signal, code int) {
	t.Helper()
	server := redistest.NewServer(t)
	d := start(t, "--for", "1h", "--redis", "redis://"+server.Addr())
	d.await("3 of 3 used by")
	name := regexp.MustCompile(`demo-[0-9a-f]{12}`).FindString(d.out.String())
	require.NotEmpty(t, name)
	require.NoError(t, d.cmd.Process.Signal(ending))
	assert.Equal(t, code, d.wait(), d.out.String())
	// An acquire that was given up on its way leaves a note for as long as a lease.
	assert.EventuallyWithT(t, func(t *assert.CollectT) {
		for _, key := range []string{"owner", "queue", "timeout"} {
			n, err := server.Client().Exists(d.t.Context(), "fairsem:{"+name+"}:"+key).Result()
			assert.NoError(t, err)
			assert.Zero(t, n, key)
		}
	}, time.Minute, 20*time.Millisecond)
	assert.NotContains(t, d.out.String(), "What was checked", "nothing was checked to the end")
}

func TestADeadServerIsOneLineOfErrorAndNoVerdict(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	d := start(t, "--for", "1h", "--redis", "redis://"+server.Addr())
	d.await("3 of 3 used")
	require.NoError(t, server.Kill())
	assert.Equal(t, exit.Failure, d.wait())
	assert.NotContains(t, d.out.String(), "What was checked")
	assert.Regexp(t, `(?m)^fairsem: .*`, d.out.String())
}

// Where the kernel does not kill orphans, this ends them.
func TestAWorkerReleasesAndEndsWhenItsInputEnds(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	worker := exec.CommandContext(t.Context(), "fairsem", "demo-worker")
	in, err := worker.StdinPipe()
	require.NoError(t, err)
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	require.NoError(t, json.NewEncoder(in).Encode(map[string]any{
		"url": "redis://" + m.Addr(), "name": "n", "label": "l", "weight": 2,
	}))
	for g, err := range history.Lines(out) {
		require.NoError(t, err)
		assert.Equal(t, "l", g.Process)
		assert.EqualValues(t, 2, g.Weight)
		break
	}
	require.NoError(t, in.Close())
	_, err = io.Copy(io.Discard, out)
	require.NoError(t, err)
	require.NoError(t, worker.Wait())
	assert.False(t, m.Exists(protocol.DefaultKeyspace.Key("n", protocol.Owner)))
}

// requireDemo requires everything that the demo is to show.
func requireDemo(t *testing.T, out string) {
	t.Helper()
	for _, want := range []string{
		`7 processes share 3 units`,
		`3 of 3 used by .*; queue: .*`,
		`kill -9 worker [36], which holds 2 units`,
		`\(2 units\) \(dead\)`,
		`its units are granted to the head of the queue, [0-9.]+ s after it died`,
		`What was checked`,
		`✓ never more than 3 units in use at once +most: 3, over [1-9]\d* grants`,
		`✓ first come, first served +0 overtakes, [1-9]\d* pairs queued`,
		`✓ every token larger than those before +0 out of order, [1-9]\d* tokens`,
		`✓ the units of a dead process are released +after \d\.\d+ s, at most [2-9]\.\d+ s`,
		`✓ nothing is left at the end +0 units in use, 0 waiting`,
		`5 of 5 promises held\.`,
		`fairsem run NAME --limit 1`,
	} {
		assert.Regexp(t, want, out)
	}
	assert.NotContains(t, out, "\x1b", "escape sequences without a terminal")
	for line := range strings.Lines(out) {
		if !strings.Contains(line, " on Redis at ") { // which is as long as the address
			assert.LessOrEqual(t, len([]rune(line)), 81, line) // 80 and the newline
		}
	}
}

// demoCommand is a demo that may use all signs.
func demoCommand(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "fairsem", append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	return cmd
}

// Every user of this machine can connect to the server of the demo.
func TestTheServerOfTheDemoRefusesOtherClients(t *testing.T) {
	t.Parallel()
	d := start(t, "--for", "1h")
	d.await("3 of 3 used")
	addr := regexp.MustCompile(`the embedded server at (\S+:\d+)`).FindStringSubmatch(d.out.String())
	require.NotNil(t, addr, d.out.String())
	rdb := redis.NewClient(&redis.Options{Addr: addr[1]})
	defer func() { assert.NoError(t, rdb.Close()) }()
	require.ErrorContains(t, rdb.Ping(t.Context()).Err(), "NOAUTH")
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	assert.Equal(t, 130, d.wait())
}

// running is a demo under way.
type running struct {
	t   *testing.T
	cmd *exec.Cmd
	out transcript.Transcript
}

// start starts a demo; the end of the test kills it if it still runs.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	d := &running{t: t, cmd: demoCommand(t, args...)}
	d.cmd.Stdout, d.cmd.Stderr = &d.out, &d.out
	require.NoError(t, d.cmd.Start())
	return d
}

func (d *running) await(want string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool { return strings.Contains(d.out.String(), want) }, time.Minute, 10*time.Millisecond, want)
}

// wait returns the exit code.
func (d *running) wait() int {
	d.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- d.cmd.Wait() }() // ends with the process, which the end of the test kills
	select {
	case err := <-ended:
		return exitCode(err)
	case <-time.After(time.Minute):
		require.Fail(d.t, "the demo does not end", d.out.String())
		return -1
	}
}
