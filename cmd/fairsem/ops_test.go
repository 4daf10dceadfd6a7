//go:build unix

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// office is a prefix on a server, its users, and the commands of operators.
type office struct {
	t      *testing.T
	prefix string
	url    string
	rdb    redis.UniversalClient
}

func newOffice(t *testing.T) *office {
	t.Helper()
	t.Parallel()
	server := redistest.SharedServer(t)
	return &office{t, uuid.NewString(), "redis://" + server.Addr(), server.Client()}
}

// client is a process with that label.
func (o *office) client(label string) *fairsem.Client {
	o.t.Helper()
	c, err := fairsem.New(o.rdb, fairsem.Options{Prefix: o.prefix, Label: label})
	require.NoError(o.t, err)
	o.t.Cleanup(func() { _ = c.Close() })
	return c
}

// hold gets units of a name with that limit for a process with that label.
func (o *office) hold(label, name string, limit, units int64) *fairsem.Permit {
	o.t.Helper()
	sem, err := o.client(label).Semaphore(name, limit)
	require.NoError(o.t, err)
	p, err := sem.Acquire(o.t.Context(), units)
	require.NoError(o.t, err)
	return p
}

// wait makes a process with that label join the queue, and returns the result of its call.
func (o *office) wait(label, name string, limit, units int64) <-chan error {
	o.t.Helper()
	sem, err := o.client(label).Semaphore(name, limit)
	require.NoError(o.t, err)
	before := o.status(name).Waiting
	end := make(chan error, 1)
	go func() { // ends with the test's context or the client
		_, err := sem.Acquire(o.t.Context(), units)
		end <- err
	}()
	require.Eventually(o.t, func() bool { return o.status(name).Waiting > before }, time.Minute, 5*time.Millisecond)
	return end
}

func (o *office) status(name string) fairsem.Status {
	o.t.Helper()
	sem, err := o.client("watcher").Semaphore(name, 1)
	require.NoError(o.t, err)
	s, err := sem.Status(o.t.Context())
	require.NoError(o.t, err)
	return s
}

func (o *office) command(args ...string) *exec.Cmd {
	return o.program("fairsem", append(args, "--prefix", o.prefix)...)
}

// program is one that finds the server, and the prefix as $PREFIX.
func (o *office) program(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(o.t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "REDIS_URL="+o.url, "PREFIX="+o.prefix)
	return cmd
}

// key is one of a name.
func (o *office) key(name, kind string) string {
	return protocol.Keyspace{Prefix: o.prefix}.Key(name, kind)
}

// does runs a command, wants an exit code, and returns its output.
func (o *office) does(code int, args ...string) (stdout, stderr string) {
	o.t.Helper()
	var out, notify bytes.Buffer
	cmd := o.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &notify
	assert.Equal(o.t, code, exitCode(cmd.Run()), "%q: %s", args, &notify)
	return out.String(), notify.String()
}

// object is JSON that was written.
type object = map[string]any

func (o *office) json(args ...string) object {
	o.t.Helper()
	out, _ := o.does(0, append(args, "--json")...)
	var v object
	require.NoError(o.t, json.Unmarshal([]byte(out), &v), out)
	return v
}

// hostile is a text that would clear the screen, set its title, break the line, and turn it round.
const hostile = "\x1b[2J\x1b]0;owned\a<b>\r\n\u202e\u009b31m\xff"

// requireHarmless refuses all but printable characters and ends of lines.
func requireHarmless(t *testing.T, s string) {
	t.Helper()
	assert.NotContains(t, s, "\x1b")
	for _, r := range s {
		if r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202e' || r == '\ufffd') {
			require.Fail(t, "not harmless", "%q in %q", r, s)
		}
	}
}

// A server, or a proxy in between, can answer anything.
func TestErrorsOfAServerAreEscapedForTerminals(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if !slices.Contains([]string{"EVALSHA", "EVAL", "SCAN"}, strings.ToUpper(cmd)) {
			return false
		}
		c.WriteError("ERR \x1b[2J\x1b]0;owned\a\u202e\u009b31m")
		return true
	})
	for _, args := range []string{"ls", "show n", "evict n --all --yes", "resize n 1 --yes", "pause n --yes", "resume n --yes",
		"run n --limit 1 -- true", "run n --limit 1 --json -- true", "demo"} {
		out, err := exec.CommandContext(t.Context(), "fairsem", slices.Insert(strings.Fields(args), 1, "--redis", "redis://"+m.Addr())...).CombinedOutput()
		assert.Equal(t, exit.Failure, exitCode(err), "%s: %s", args, out)
		assert.Contains(t, string(out), "owned", args)
		requireHarmless(t, string(out))
	}
}

func TestLsWithBusyOmitsIdleNames(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "held", 1, 1)
	require.NoError(t, o.hold("h", "idle", 1, 1).Release(t.Context()))
	out, _ := o.does(0, "ls", "--busy")
	assert.Contains(t, out, "held")
	assert.NotContains(t, out, "idle")
	all, _ := o.does(0, "ls")
	assert.Contains(t, all, "idle")
	_, notify := o.does(0, "ls", "--busy", "id*")
	assert.Contains(t, notify, "No name has a holder or a waiter.")
}

func TestThePrefixCanBeInTheEnvironment(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 1, 1)
	cmd := exec.CommandContext(t.Context(), "fairsem", "ls")
	cmd.Env = append(os.Environ(), "REDIS_URL="+o.url, "FAIRSEM_PREFIX="+o.prefix)
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "\nn ")
	cmd = exec.CommandContext(t.Context(), "fairsem", "run", "n", "--limit", "1", "-n", "--", "true")
	cmd.Env = append(os.Environ(), "REDIS_URL="+o.url, "FAIRSEM_PREFIX="+o.prefix)
	assert.Equal(t, exit.NotAcquired, exitCode(cmd.Run()))
}

// The first write after a loss of state determines for all how long nothing is granted. A server that was just started counts as such.
func TestTheGracePeriodIsThatOfTheFlagOrOfTheEnvironment(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	o := &office{t, "p", "redis://" + s.Addr(), s.Client()}
	for name, run := range map[string]*exec.Cmd{
		"run":   o.program("fairsem", "run", "run", "--prefix", o.prefix, "--limit", "1", "--ttl", "2h", "--wait", "1s", "--", "true"),
		"limit": o.program("fairsem", "limit", "limit", "3/1h", "--prefix", o.prefix, "--wait", "1s", "--grace", "1h", "--", "true"),
	} {
		if name == "run" {
			run.Env = append(run.Environ(), "FAIRSEM_GRACE=1h")
		}
		_ = run.Run() // nothing is granted
		quiet, err := o.rdb.HGet(t.Context(), o.key(name, "meta"), "quiet").Int64()
		require.NoError(t, err, name)
		assert.Greater(t, time.Until(time.UnixMilli(quiet)), 30*time.Minute, name)
	}
}

func TestLsWithNothingInUseWritesANoteAndNoOutput(t *testing.T) {
	o := newOffice(t)
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"ls", "x*"}} {
		out, notify := o.does(0, args...)
		assert.Empty(t, out)
		assert.Equal(t, 1, strings.Count(notify, "\n"), notify)
	}
}

func TestLsReportsOtherPrefixesWithSemaphores(t *testing.T) {
	s := newStation(t)
	o := &office{t, "fairsem", "redis://" + s.server.Addr(), s.server.Client()}
	_, notify := o.does(0, "ls")
	assert.Contains(t, notify, "fairsem demo", "an empty server")
	staging := *o
	staging.prefix = "sta\x1bging"
	staging.hold("h", "db", 1, 1)
	const hint = `Nothing to show with the prefix "fairsem"; there are semaphores with the prefix "sta\x1bging": select it with --prefix.` + "\n"
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"ls", "x*"}, {"ls", "--busy"}} {
		out, notify := o.does(0, args...)
		assert.Empty(t, out, "%q", args)
		assert.Equal(t, hint, notify, "%q", args)
	}
	_, notify = o.does(0, "ls", "db")
	assert.Equal(t, "No name in use matches \"db\".\n", notify, "a program that asks for one name gets its answer at once")
	out, notify := staging.does(0, "ls")
	assert.Contains(t, out, "db")
	assert.Empty(t, notify)
	o.hold("h", "n", 1, 1)
	for i := range 50 { // a search among these would hardly come upon the right one
		require.NoError(t, o.rdb.HSet(t.Context(), protocol.Keyspace{Prefix: fmt.Sprint("prefix-", i)}.Key("n", protocol.Meta), "layout", protocol.Layout).Err())
	}
	_, notify = o.does(0, "ls", "x*")
	assert.Equal(t, "No name in use matches \"x*\".\n", notify)
}

func TestLsInAPipeHasTheSameColumnsInEveryRowAndCutsNothing(t *testing.T) {
	o := newOffice(t)
	long := strings.Repeat("long ", 100) + "end"
	o.hold("h", long, 20, 3)
	o.hold("h", "b", 1, 1)
	o.wait("w", "b", 1, 1)
	out, notify := o.does(0, "ls")
	assert.Empty(t, notify)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3, out)
	assert.Equal(t, []string{"NAME", "USED", "LIMIT", "WAITING", "OLDEST", "EXPIRED", "NOTE"}, strings.Fields(lines[0]))
	b := strings.Fields(lines[1])
	assert.Equal(t, []string{"b", "1", "1", "1"}, b[:4])
	assert.Equal(t, []string{strings.ReplaceAll(long, " ", `\x20`), "3", "20", "0", "0s", "0", "-"}, strings.Fields(lines[2]))
	requireHarmless(t, out)
}

func TestLsShowsNamesThatMatchThePattern(t *testing.T) {
	o := newOffice(t)
	for _, name := range []string{"jobs/eu/1", "jobs/us/1", "other"} {
		o.hold("h", name, 1, 1)
	}
	out, _ := o.does(0, "ls", "jobs*1")
	assert.Equal(t, 3, strings.Count(out, "\n"), out)
	assert.NotContains(t, out, "other")
	out, _ = o.does(0, "ls", "jobs/[e-f]?/1", "--json")
	assert.Equal(t, 1, strings.Count(out, "\n"), out)
}

// It was taken for a pattern, and not found.
func TestANameWithABackslashIsGivenAsItIsAndListedWithTwo(t *testing.T) {
	o := newOffice(t)
	o.hold("h", `back\slash`, 1, 1)
	for _, pattern := range []string{`back\slash`, `back\\sl*`} {
		out, _ := o.does(0, "ls", pattern)
		assert.Contains(t, out, `back\\slash `, pattern)
	}
	for _, args := range []string{"show", "pause --yes", "resume --yes", "evict --all --yes"} {
		o.does(0, append(strings.Fields(args), `back\slash`)...)
	}
}

func TestLsNotesPausedPinnedAndRate(t *testing.T) {
	o := newOffice(t)
	limiter, err := o.client("h").Limiter("calls", 20, time.Second)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 2))
	o.hold("h", "plain", 3, 1)
	o.hold("h", "held", 3, 1)
	o.does(0, "resize", "plain", "5", "--yes")
	o.does(0, "pause", "held", "--yes")
	out, _ := o.does(0, "ls")
	assert.Regexp(t, `(?m)^calls +\d+ +20 .* rate:20/1s$`, out)
	assert.Regexp(t, `(?m)^held +1 +0 .* paused$`, out)
	assert.Regexp(t, `(?m)^plain +1 +5 .* pinned$`, out)
	show, _ := o.does(0, "show", "calls")
	assert.Contains(t, show, "rate 20/1s\n")
}

func TestPrefixesAreSeparate(t *testing.T) {
	o, other := newOffice(t), &office{}
	*other = *o
	other.prefix += "x"
	other.hold("h", "n", 1, 1)
	o.does(1, "show", "n")
	out, _ := o.does(0, "ls")
	assert.Empty(t, out)
	o.does(1, "evict", "n", "--all", "--yes")
	other.does(0, "show", "n")
	other.does(0, "evict", "n", "--all", "--yes")
}

func TestCommandsOnANameOfAnotherVersionFailAndSayWhatToDo(t *testing.T) {
	o := newOffice(t)
	for layout, words := range map[int]string{1: "an older version", protocol.Layout + 1: "a newer version"} {
		name := fmt.Sprint("layout ", layout)
		require.NoError(t, o.rdb.HSet(t.Context(), o.key(name, "meta"), "layout", layout, "declared", 1).Err())
		require.NoError(t, o.rdb.ZAdd(t.Context(), o.key(name, "owner"), redis.Z{Score: 7, Member: "a:1"}).Err())
		for _, args := range [][]string{
			{"show", name}, {"resize", name, "3", "--yes"}, {"pause", name, "--yes"}, {"resume", name, "--yes"},
			{"evict", name, "--all", "--yes"}, {"run", name, "--limit", "1", "-c", "true"},
		} {
			_, notify := o.does(125, args...)
			assert.Contains(t, notify, fmt.Sprintf("%q", name), args)
			assert.Contains(t, notify, words+" of fairsem wrote these keys", args)
			assert.Contains(t, notify, "docs/upgrading.md", args)
		}
		assert.Equal(t, map[string]string{"layout": fmt.Sprint(layout), "declared": "1"}, o.rdb.HGetAll(t.Context(), o.key(name, "meta")).Val())
	}
	_, notify := o.does(125, "ls")
	assert.Contains(t, notify, "FAIRSEMLAYOUT")
	assert.Contains(t, notify, "and 1 more cannot be read")
}

func TestAnUnreadableNameDoesNotHideOthers(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "good", 1, 1)
	for _, name := range []string{"bad\x1b[2J", "worse"} {
		require.NoError(t, o.rdb.HSet(t.Context(), o.key(name, "meta"), "layout", protocol.Layout).Err())
		require.NoError(t, o.rdb.Set(t.Context(), o.key(name, "owner"), "x", 0).Err())
	}
	out, notify := o.does(125, "ls")
	assert.Contains(t, out, "good")
	assert.Contains(t, notify, "WRONGTYPE")
	assert.Contains(t, notify, "and 1 more cannot be read")
	assert.Equal(t, 1, strings.Count(notify, "\n"), notify)
	requireHarmless(t, notify)
}

func TestNothingRawOfNamesAndLabelsIsWritten(t *testing.T) {
	o := newOffice(t)
	huge := hostile + strings.Repeat("x", 512-len(hostile))
	for _, name := range []string{hostile, huge} {
		o.hold(hostile, name, 1, 1)
		out, _ := o.does(0, "ls")
		assert.Contains(t, out, `\x1b[2J\x1b]0;owned\a<b>\r\n\u202e\u009b31m\xff`)
		o.wait(hostile, name, 1, 1)
		for _, args := range [][]string{
			{"ls"}, {"ls", "--json"}, {"show", name}, {"show", name, "--json"},
			{"resize", name, "2", "--yes"}, {"pause", name, "--yes", "--json"}, {"pause", name, "-y"},
			{"resume", name, "-y"}, {"evict", name, "--all", "--yes"},
		} {
			out, notify := o.does(0, args...)
			requireHarmless(t, out)
			requireHarmless(t, notify)
		}
	}
	_, notify := o.does(1, "show", "no"+hostile)
	requireHarmless(t, notify)
	_, notify = o.does(1, "evict", hostile, hostile, "-y")
	requireHarmless(t, notify)
}

func TestNamesThatAreNotUTF8AreDistinctInJSON(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n\xfe", 1, 1)
	o.hold("h", "n\xff", 1, 1)
	out, _ := o.does(0, "ls", "--json")
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var row struct {
			Name  string `json:"name"`
			Bytes []byte `json:"name_base64"`
		}
		require.NoError(t, d.Decode(&row))
		assert.Equal(t, "n\ufffd", row.Name)
		o.does(0, "show", string(row.Bytes))
	}
	assert.Equal(t, 2, strings.Count(out, "\n"))
	assert.NotContains(t, fmt.Sprint(o.json("show", "n\xff")["name"]), "base64")
}

func TestALabelThatIsNotUTF8IsInJSONAsBytes(t *testing.T) {
	o := newOffice(t)
	o.hold("h\xff", "n", 1, 1)
	o.wait("w\xfe", "n", 1, 1)
	d := o.json("show", "n")
	holder, waiter := d["held_by"].([]any)[0].(object), d["queue"].([]any)[0].(object)
	assert.Equal(t, []any{"h\ufffd", "w\ufffd"}, []any{holder["label"], waiter["label"]})
	for bytes, of := range map[string]object{"h\xff": holder, "w\xfe": waiter} {
		assert.Equal(t, base64.StdEncoding.EncodeToString([]byte(bytes)), of["label_base64"])
	}
}

func TestJSONHasWhatIsKnown(t *testing.T) {
	o := newOffice(t)
	p := o.hold("first:1", "n", 5, 3)
	o.wait("second:2", "n", 5, 4)
	d := o.json("show", "n")
	assert.Equal(t, []any{"n", 5.0, 5.0, false, false, 3.0, 1.0, 1.0, 0.0, 1.0, 0.0}, []any{d["name"], d["limit"], d["declared"], d["pinned"],
		d["paused"], d["used"], d["holders"], d["waiting"], d["window_ms"], d["granted"], d["expired"]})
	holder := d["held_by"].([]any)[0].(object)
	assert.Equal(t, []any{p.ID(), "first:1", 3.0, float64(p.Token())}, []any{holder["id"], holder["label"], holder["weight"], holder["token"]})
	waiter := d["queue"].([]any)[0].(object)
	assert.Equal(t, []any{1.0, "second:2", 4.0}, []any{waiter["position"], waiter["label"], waiter["weight"]})
	for _, t0 := range []any{d["time"], holder["since"], waiter["since"]} {
		at, err := time.Parse(time.RFC3339Nano, t0.(string))
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), at, time.Minute)
	}
}

func TestShowReportsHowManyItOmits(t *testing.T) {
	o := newOffice(t)
	for range 3 {
		o.hold("h", "n", 3, 1)
	}
	out, _ := o.does(0, "show", "n", "--rows", "2")
	assert.Contains(t, out, "… and 1 more: --rows shows them")
	d := o.json("show", "n", "--rows", "2")
	assert.Len(t, d["held_by"], 2)
	assert.Equal(t, 1.0, d["more_holders"])
}

func TestShowOfAnUnknownNameExitsWith1(t *testing.T) {
	o := newOffice(t)
	out, notify := o.does(1, "show", "nope")
	assert.Empty(t, out)
	assert.Equal(t, "fairsem: no semaphore \"nope\": fairsem ls lists those in use\n", notify)
}

// A token is a time of the server. Whose clock is a day away must see the same lengths of time.
func TestHeldTimesAreMeasuredByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	for _, apart := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		t.Run(apart.String(), func(t *testing.T) {
			t.Parallel()
			m := miniredis.RunT(t)
			now := time.Now().Add(apart)
			m.SetTime(now)
			o := &office{t, "p", "redis://" + m.Addr(), redis.NewClient(&redis.Options{Addr: m.Addr()})}
			t.Cleanup(func() { _ = o.rdb.Close() })
			o.hold("h", "n", 1, 1)
			o.wait("w", "n", 1, 1)
			m.SetTime(now.Add(4 * time.Second))
			d := o.json("show", "n")
			assert.InDelta(t, 4000, d["held_by"].([]any)[0].(object)["held_ms"], 100)
			assert.InDelta(t, 4000, d["queue"].([]any)[0].(object)["waited_ms"], 100)
		})
	}
}

func TestResizePinsUntilResume(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 3, 2)
	out, notify := o.does(0, "resize", "n", "1", "--yes")
	assert.Equal(t, "\"n\": limit 1 (set by hand), 2/1 in use, 0 waiting\n", out)
	assert.Contains(t, notify, "Now: limit 3, 2/3 in use, 0 waiting.")
	assert.Contains(t, notify, "1 of the units in use must be released")
	assert.Equal(t, int64(1), o.status("n").Limit)
	out, notify = o.does(0, "resize", "n", "1", "--yes")
	assert.Contains(t, out, "nothing to do")
	assert.Empty(t, notify)
	d := o.json("resume", "n", "--yes")
	assert.Equal(t, true, d["changed"])
	assert.Equal(t, 1.0, d["before"].(object)["limit"])
	assert.Equal(t, 3.0, d["after"].(object)["limit"])
	d = o.json("resume", "n", "--yes")
	assert.Equal(t, false, d["changed"])
	assert.False(t, o.status("n").Pinned)
}

// After a pause, new work ran beside the old holders.
func TestAPauseThatWaitsEndsWhenNoPermitIsHeld(t *testing.T) {
	o := newOffice(t)
	p := o.hold("h", "n", 3, 2)
	_, notify := o.does(exit.NotAcquired, "pause", "n", "--yes", "--wait=10ms")
	assert.Contains(t, notify, `fairsem: "n" is still in use after 10ms, by 1 holder; it stays paused`)
	assert.Zero(t, o.status("n").Limit)
	cmd, out := o.begin("pause", "n", "--yes", "--wait")
	o.await(out, "Waiting for 1 holder.", 1)
	require.NoError(t, p.Release(t.Context()))
	require.NoError(t, cmd.Wait(), out)
	assert.Contains(t, out.String(), "\"n\": nothing to do; paused, 0/0 in use, 0 waiting\n")
	o.does(0, "resume", "n", "--yes")
	o.hold("h", "n", 3, 2)
	cmd, out = o.begin("pause", "n", "--yes", "--wait")
	o.await(out, "Waiting for 1 holder.", 1)
	o.does(0, "resume", "n", "--yes")
	assert.Equal(t, exit.No, exitCode(cmd.Wait()), out)
	assert.Contains(t, out.String(), "fairsem: the pause was ended meanwhile: \"n\"")
}

// Its grants count until the window is over, and nothing can be done about that.
func TestAPauseOfARateWaitsForNothing(t *testing.T) {
	o := newOffice(t)
	limiter, err := o.client("h").Limiter("calls", 20, time.Minute)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 2))
	_, notify := o.does(0, "pause", "calls", "--yes", "--wait")
	assert.Contains(t, notify, "so there is nothing to wait for")
	assert.NotContains(t, notify, "holder.")
	assert.Equal(t, int64(2), o.status("calls").Used)
}

// It was paused, but nothing was on stdout.
func TestAPauseThatIsStillInUseWhenItsWaitIsOverWritesItsResult(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 3, 2)
	for _, changed := range []bool{true, false} {
		out, notify := o.does(exit.NotAcquired, "pause", "n", "--yes", "--wait=10ms", "--json")
		var d object
		require.NoError(t, json.Unmarshal([]byte(out), &d), out)
		assert.Equal(t, changed, d["changed"])
		assert.Equal(t, !changed, d["before"].(object)["paused"])
		assert.Equal(t, true, d["after"].(object)["paused"])
		assert.Equal(t, 2.0, d["after"].(object)["used"])
		assert.Contains(t, notify, "it stays paused")
	}
	out, _ := o.does(exit.NotAcquired, "pause", "n", "--yes", "--wait=10ms")
	assert.Equal(t, "\"n\": nothing to do; paused, 2/0 in use, 0 waiting\n", out)
}

func TestAPauseStopsGrantsAndResumeGrants(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 3, 1)
	o.does(0, "resize", "n", "7", "--yes")
	_, notify := o.does(0, "pause", "n", "--yes")
	assert.Contains(t, notify, "The limit of 7 that was set by hand is lost")
	end := o.wait("w", "n", 3, 1)
	out, _ := o.does(0, "pause", "n", "--yes")
	assert.Equal(t, "\"n\": nothing to do; paused, 1/0 in use, 1 waiting,", strings.Split(out, " the oldest")[0])
	o.does(0, "resume", "n", "--yes")
	require.NoError(t, <-end)
	assert.Equal(t, int64(3), o.status("n").Limit)
}

func TestAnUnknownNameIsTreatedAsATypo(t *testing.T) {
	o := newOffice(t)
	for _, c := range []struct {
		args []string
		hint string
	}{
		{[]string{"resize", "typo", "5"}, ", and with --new it can be resized all the same"},
		{[]string{"pause", "typo"}, ", and with --new it can be paused all the same"},
		{[]string{"resume", "typo"}, ""},
		{[]string{"evict", "typo", "--all"}, ""},
	} {
		out, notify := o.does(1, append(c.args, "--yes")...)
		assert.Empty(t, out)
		assert.Equal(t, "fairsem: no semaphore \"typo\": fairsem ls lists those in use"+c.hint+"\n", notify, c.args)
	}
	assert.False(t, o.status("typo").Exists)
	o.does(0, "pause", "typo", "--yes", "--new")
	assert.True(t, o.status("typo").Pinned)
	o.does(0, "resize", "typo", "4", "--yes", "--new")
	assert.Equal(t, int64(4), o.status("typo").Limit)
}

func TestAnUndeclaredLimitIsNotInvented(t *testing.T) {
	o := newOffice(t)
	d := o.json("resize", "n", "4", "--yes", "--new")
	assert.Equal(t, []any{0.0, 0.0}, []any{d["before"].(object)["limit"], d["before"].(object)["declared"]})
	assert.Equal(t, []any{4.0, 0.0}, []any{d["after"].(object)["limit"], d["after"].(object)["declared"]})
	out, _ := o.does(0, "show", "n")
	assert.Contains(t, out, "limit 4, set by hand; no limit is declared\n")
	out, notify := o.does(0, "resume", "n", "--yes")
	assert.Contains(t, notify, "no process has declared another.\nNow: limit 4 (set by hand)")
	assert.Equal(t, "\"n\": no limit declared, 0/0 in use, 0 waiting\n", out)
	out, _ = o.does(0, "show", "n")
	assert.Contains(t, out, "in use  no waiters\nno limit is declared\n")
}

func TestEvictRevokesPermitsAndRemovesWaiters(t *testing.T) {
	o := newOffice(t)
	held, kept := o.hold("host-1:1", "n", 2, 1), o.hold("host-2:2", "n", 2, 1)
	waits, stays := o.wait("host-1:3", "n", 2, 1), o.wait("host-3:4", "n", 2, 1)
	d := o.json("evict", "n", "--label", "host-1:*", "--yes")
	require.ErrorIs(t, <-waits, fairsem.ErrEvicted)
	require.NoError(t, <-stays, "who was behind gets in")
	<-held.Context().Done()
	assert.NoError(t, kept.Context().Err())
	assert.Equal(t, held.ID(), d["evicted_holders"].([]any)[0].(object)["id"])
	assert.Equal(t, "host-1:3", d["evicted_waiters"].([]any)[0].(object)["label"])
	assert.Equal(t, []any{true, 2.0, 0.0}, []any{d["changed"], d["after"].(object)["used"], d["after"].(object)["waiting"]})
	assert.Empty(t, d["gone"])
}

func TestEvictAcceptsShortIDs(t *testing.T) {
	o := newOffice(t)
	p, kept := o.hold("h", "n", 2, 1), o.hold("h", "n", 2, 1)
	client, number, _ := strings.Cut(p.ID(), ":")
	out, _ := o.does(0, "evict", "n", client[:6]+":"+number, "--yes")
	assert.Equal(t, "\"n\": evicted 1 holder; limit 2, 1/2 in use, 0 waiting\n", out)
	<-p.Context().Done()
	assert.NoError(t, kept.Context().Err())
	o.hold("h2", "n", 2, 1)
	client, _, _ = strings.Cut(kept.ID(), ":")
	o.does(0, "evict", "n", client[:10], "--yes")
	<-kept.Context().Done()
	assert.Equal(t, int64(1), o.status("n").Holders)
}

func TestAnAmbiguousIDEvictsNothing(t *testing.T) {
	o := newOffice(t)
	sem, err := o.client("h").Semaphore("n", 2)
	require.NoError(t, err)
	for range 2 {
		_, err := sem.Acquire(t.Context(), 1)
		require.NoError(t, err)
	}
	id := o.json("show", "n")["held_by"].([]any)[0].(object)["id"].(string)
	_, notify := o.does(exit.No, "evict", "n", id[:9], "--yes")
	assert.Contains(t, notify, "is short for 2 ids")
	assert.Equal(t, int64(2), o.status("n").Holders)
}

// A waiter that is granted units by the eviction of a holder, and then evicted, would lose a permit that it should not
// have had.
func TestEvictAllGrantsNoEvictedWaiter(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 1, 1)
	var ends []<-chan error
	for range 3 {
		ends = append(ends, o.wait("w", "n", 1, 1))
	}
	o.does(0, "evict", "n", "--all", "--yes")
	for _, end := range ends {
		require.ErrorIs(t, <-end, fairsem.ErrEvicted)
	}
	assert.Equal(t, int64(1), o.status("n").Granted)
}

func TestEvictWithoutAMatchNamesItAndDoesNothing(t *testing.T) {
	o := newOffice(t)
	p := o.hold("h", "n", 1, 1)
	for what, args := range map[string][]string{
		`no holder or waiter has the id "nope"`:    {p.ID(), "nope"},
		`no holder or waiter has a label like "x"`: {"--label", "x"},
	} {
		out, notify := o.does(1, append([]string{"evict", "n", "--yes"}, args...)...)
		assert.Empty(t, out)
		assert.Equal(t, "fairsem: nothing to evict: "+what+"\n", notify)
	}
	assert.NoError(t, p.Context().Err())
	require.NoError(t, p.Release(t.Context()))
	_, notify := o.does(1, "evict", "n", "--all", "--yes")
	assert.Contains(t, notify, "no holders, no waiters")
}

// It evicted those whose label it could read and reported success, or said that nobody has such a label.
func TestEvictByLabelEvictsNothingWhereALabelCannotBeRead(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	o := &office{t, "p", "redis://few:geheim@" + s.Addr(), s.Client()}
	p := o.hold("build-7", "n", 1, 1)
	require.NoError(t, s.Client().Do(t.Context(), "ACL", "SETUSER", "few", "on", ">geheim", "~*", "&*", "+@all", "-getrange").Err())
	_, notify := o.does(125, "evict", "n", "--label", "build-*", "--yes")
	assert.Contains(t, notify, "nothing was evicted, because a label cannot be read (give ids instead)")
	assert.Contains(t, notify, "NOPERM")
	require.NoError(t, p.Context().Err())
	o.does(0, "evict", "n", "--all", "--yes")
}

func TestOperatorsWorkOnAClusterAndUnderSentinel(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.NewCluster(t)
		operate(&office{t, "p", "cluster://" + c.Primaries()[0].Addr(), c.Client()})
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.NewSentinel(t)
		addrs := s.Addrs()
		operate(&office{t, "p", "sentinel://" + addrs[0] + "?master_name=" + redistest.PrimaryName, s.Client()})
	})
}

// operate does everything once, with names that are all over a cluster.
func operate(o *office) {
	for i := range 9 {
		o.hold("h", fmt.Sprintf("n%d", i), 2, 1)
	}
	out, _ := o.does(0, "ls", "--json")
	assert.Equal(o.t, 9, strings.Count(out, "\n"))
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		assert.Less(o.t, o.json("show", name)["held_by"].([]any)[0].(object)["held_ms"], 60_000.0)
		o.does(0, "resize", name, "5", "--yes")
		o.does(0, "pause", name, "--yes")
		o.does(0, "resume", name, "--yes")
		o.does(0, "evict", name, "--all", "--yes")
		assert.Zero(o.t, o.status(name).Used)
	}
}

// watched starts a command whose output can be read while it runs.
func (o *office) watched(args ...string) (*exec.Cmd, *transcript.Transcript) {
	o.t.Helper()
	return o.begin(append(args, "--interval", "100ms")...)
}

// begin starts a command.
func (o *office) begin(args ...string) (*exec.Cmd, *transcript.Transcript) {
	o.t.Helper()
	cmd, out := o.command(args...), &transcript.Transcript{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(o.t, cmd.Start())
	return cmd, out
}

func (o *office) await(out *transcript.Transcript, want string, times int) {
	o.t.Helper()
	require.Eventually(o.t, func() bool { return strings.Count(out.String(), want) >= times }, time.Minute, 5*time.Millisecond, "%q", out)
}

func TestWatchInAPipeContinuesUntilASignal(t *testing.T) {
	o := newOffice(t)
	for _, args := range [][]string{{"ls", "--watch"}, {"show", "n", "--watch", "--json"}} {
		cmd, out := o.watched(args...)
		o.await(out, "n", 1)
		p := o.hold("h", "n", 1, 1)
		o.await(out, map[bool]string{true: `"used":1`, false: "\nn "}[args[0] == "show"], 2)
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		assert.Equal(t, 130, exitCode(cmd.Wait()), out)
		requireHarmless(t, out.String())
		require.NoError(t, p.Release(t.Context()))
	}
}

// A log of a day survives a restart of the server; one that never had a server fails at once, as noserver.txt has it.
func TestWatchInAPipeContinuesAfterAnError(t *testing.T) {
	o := newOffice(t)
	p := o.hold("h", "n", 1, 1)
	cmd, out := o.watched("show", "n", "--watch", "--json")
	o.await(out, `"used":1`, 1)
	key := o.key("n", "queue")
	require.NoError(t, o.rdb.Set(t.Context(), key, "x", 0).Err())
	o.await(out, "WRONGTYPE", 1)
	require.NoError(t, o.rdb.Del(t.Context(), key).Err())
	require.NoError(t, p.Release(t.Context()))
	o.await(out, `"used":0`, 1)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(cmd.Wait()))
	assert.Equal(t, 1, strings.Count(out.String(), "WRONGTYPE"), out)
}

func TestWatchReportsOnceThatNothingIsInUse(t *testing.T) {
	o := newOffice(t)
	cmd, out := o.watched("ls", "--watch")
	o.await(out, "Nothing is in use", 1)
	p := o.hold("h", "n", 1, 1)
	o.await(out, "\nn ", 2)
	require.NoError(t, p.Release(t.Context()))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, exitCode(cmd.Wait()))
	assert.Equal(t, 1, strings.Count(out.String(), "Nothing"), out)
}

func TestAReaderThatIsGoneEndsTheCommandQuietly(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 1, 1)
	for _, ignored := range []string{"", "trap '' PIPE; "} {
		cmd := o.program("bash", "-c", ignored+`fairsem ls --prefix $PREFIX --watch --interval 100ms | head -n 2 >/dev/null; exit "${PIPESTATUS[0]}"`)
		notify, err := cmd.CombinedOutput()
		assert.Equal(t, 141, exitCode(err))
		assert.Empty(t, notify)
	}
}

// An empty file with an exit code of 0 is taken for the answer.
func TestAFullDiskIsReportedByEachCommand(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 1, 1)
	for _, args := range []string{
		"ls --prefix $PREFIX", "show n --prefix $PREFIX --json", "doctor --prefix $PREFIX n", "doctor --prefix $PREFIX nobody",
		"", "help", "help run", "run --help", "man run", "completion bash", "version", "--version",
		"serve --json --listen 127.0.0.1:0",
	} {
		notify, err := o.program("bash", "-c", "fairsem "+args+" >/dev/full").CombinedOutput()
		assert.Equal(t, 125, exitCode(err), args)
		assert.Equal(t, "fairsem: write /dev/stdout: no space left on device\n", string(notify), args)
	}
}

func TestTheAwkOfTheExampleSkipsTheHeadings(t *testing.T) {
	o := newOffice(t)
	o.hold("h", "n", 1, 1)
	for line := range strings.Lines(newLs().Example) {
		if strings.Contains(line, "awk") {
			out, err := o.program("bash", "-c", strings.Replace(line, "ls", "ls --prefix $PREFIX", 1)).CombinedOutput()
			require.NoError(t, err)
			assert.Empty(t, string(out), "no name has waiters")
			return
		}
	}
	t.Fatal("there is no awk in the example any more")
}
