package pipeline

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

var background = context.Background()

// network is a go-redis hook that answers pipelines.
type network func(cmds []redis.Cmder) error

func (network) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no connections") }
}

func (network) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (n network) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error { return n(cmds) }
}

// newTestPipeline returns a Pipeline whose batches n answers.
func newTestPipeline(t *testing.T, n network) *Pipeline {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	rdb.AddHook(n)
	l := New(Config{Client: rdb, Goroutines: goroutines.New(), Clock: clock.New(), Suspect: func() {}, Disconnected: func() {}})
	t.Cleanup(func() {
		l.Goroutines.Close()
		assert.NoError(t, rdb.Close())
	})
	return l
}

// order is a request with ids, and how long its answer may take.
type order struct {
	ids      int
	timeout  time.Duration
	unwanted bool
	plain    protocol.Call // if it has a script
	full     protocol.Call
	prepared func()
	wakes    int
	done     chan Response
}

func newOrder(ids int, timeout time.Duration) *order {
	return &order{ids: ids, timeout: timeout, done: make(chan Response, 1)}
}

func (o *order) IDs() int { return o.ids }

func (o *order) Prepare(clock.Instant) (Command, time.Duration, bool) {
	if o.plain.Script != nil {
		return Command{Call: o.plain, Otherwise: o}, o.timeout, true
	}
	if o.prepared != nil {
		o.prepared()
	}
	return Command{Cmd: redis.NewCmd(background, "ping")}, o.timeout, !o.unwanted
}

func (o *order) Full() protocol.Call { return o.full }

func (o *order) Done(r Response, _ clock.Instant) (woken int) {
	o.done <- r
	return o.wakes
}

func TestTimeoutOfABatchIsTheShortestWithinItsBounds(t *testing.T) {
	t.Parallel()
	l := newTestPipeline(t, nil)
	for _, test := range []struct {
		timeouts []time.Duration
		want     time.Duration
	}{
		{nil, MaxTimeout},
		{[]time.Duration{time.Millisecond}, MinTimeout},
		{[]time.Duration{time.Hour}, MaxTimeout},
		{[]time.Duration{time.Hour, 300 * time.Millisecond, time.Second}, 300 * time.Millisecond},
		{[]time.Duration{time.Millisecond, time.Second}, MinTimeout},
	} {
		b := newBatch(l, len(test.timeouts))
		for _, timeout := range test.timeouts {
			b.add(newOrder(1, timeout))
		}
		assert.Equal(t, test.want, b.timeout, "%v", test.timeouts)
	}
}

// An id that is never subtracted would make every release urgent for ever.
func TestBacklogIsEmptyOnceAllIsSentHoweverRequestsGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		l := newTestPipeline(t, func([]redis.Cmder) error { <-hold; return nil })
		for range MaxInFlight {
			l.Queue(newOrder(1, MaxTimeout), false)
			synctest.Wait()
		}
		var all []*order
		for i := range 20 {
			o := newOrder(i*protocol.MaxIDs/10, MaxTimeout)
			o.unwanted = i%3 == 0
			o.prepared = func() { o.ids++; l.Grown(1) } // while it is prepared
			all = append(all, o)
			l.Queue(o, i%4 == 0)
			if i%4 == 0 {
				o.prepared = nil
			} else if i%2 == 0 {
				o.ids += 5 // while it is queued
				l.Grown(5)
			}
		}
		assert.True(t, l.Crowded())
		close(hold)
		synctest.Wait()
		for _, o := range all {
			assert.Len(t, o.done, map[bool]int{false: 1, true: 0}[o.unwanted])
		}
		assert.Zero(t, l.backlog.Load())
		assert.False(t, l.Crowded())
	})
}

func TestBatchesThatWereWrittenOffLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var batches atomic.Int32
		l := newTestPipeline(t, func([]redis.Cmder) error { batches.Add(1); <-hold; return nil })
		for range 5 {
			o := newOrder(1, MinTimeout)
			l.Queue(o, false)
			assert.ErrorIs(t, (<-o.done).Err, failure.ErrNoAnswer)
		}
		assert.Equal(t, int32(5), batches.Load())
		close(hold)
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		assert.Zero(t, l.inFlight)
	})
}

func TestHookThatEndsTheGoroutineLeavesItsPlaceToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var batches atomic.Int32
		l := newTestPipeline(t, func([]redis.Cmder) error {
			if batches.Add(1) <= 2*MaxInFlight {
				runtime.Goexit()
			}
			return nil
		})
		for range 2 * MaxInFlight {
			o := newOrder(1, MinTimeout)
			l.Queue(o, false)
			assert.ErrorIs(t, (<-o.done).Err, failure.ErrNoAnswer)
		}
		o := newOrder(1, MinTimeout)
		l.Queue(o, false)
		<-o.done
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		assert.Zero(t, l.inFlight)
	})
}

// A call can have much in its context, and a pipeline lives as long as its client.
func TestNothingOfWhatWasSentIsKept(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	l := newTestPipeline(t, func([]redis.Cmder) error { <-hold; return nil })
	var sent []weak.Pointer[order]
	var answers []<-chan Response
	for i := range 20 {
		o := newOrder(1, MaxTimeout)
		sent, answers = append(sent, weak.Make(o)), append(answers, o.done)
		l.Queue(o, i%2 == 0)
	}
	close(hold)
	for _, done := range answers {
		<-done
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return !slices.ContainsFunc(sent, func(o weak.Pointer[order]) bool { return o.Value() != nil })
	}, time.Minute, time.Millisecond)
	runtime.KeepAlive(l)
}

// recorded is a connection that records its writes.
type recorded struct {
	net.Conn
	mu      sync.Mutex
	written []byte
}

func (c *recorded) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written = append(c.written, b...)
	return c.Conn.Write(b)
}

// finished is a hook that says when go-redis has returned from a pipeline, and with which error.
type finished struct {
	testclient.Hook
	errs chan error
}

func (f finished) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if strings.HasPrefix(cmds[0].Name(), "eval") { // else it greets the server
			f.errs <- err
		}
		return err
	}
}

// While go-redis dials or greets a server that is slow, nothing stops it. Its late commands could come after a tombstone has expired.
// The connection is as good as any.
func TestBatchThatIsWrittenOffBeforeItIsSentIsNeverSentAndLeavesTheConnectionToTheNext(t *testing.T) {
	t.Parallel()
	for _, withText := range []bool{false, true} {
		dials, conns := make(chan struct{}), make(chan *recorded, 1)
		rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
			<-dials
			conn, err := net.Dial("tcp", redistest.SharedServer(t).Addr())
			c := &recorded{Conn: conn}
			conns <- c
			return c, err
		}})
		t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
		returned := finished{errs: make(chan error, 1)}
		rdb.AddHook(returned)
		l := New(Config{Client: rdb, Goroutines: goroutines.New(), Clock: clock.New(), Suspect: func() {}, Disconnected: func() {}})
		t.Cleanup(l.Goroutines.Close)
		call := protocol.PlainRelease[protocol.Entry](protocol.PlainReleaseScript, protocol.Keyspace{Prefix: "fairsem-test"}.About(uuid.NewString()), nil)
		b := newBatch(l, 1)
		o := newOrder(1, MinTimeout)
		o.plain = call
		b.add(o)
		b.prepared[0].withText = withText
		sent := make(chan struct{})
		go func() { b.deliver(); close(sent) }()
		assert.ErrorIs(t, (<-o.done).Err, failure.ErrNoAnswer)
		close(dials)
		if err := <-returned.errs; withText {
			require.NoError(t, err)
		} else {
			require.True(t, failure.UnknownScript(err), err)
		}
		<-sent
		c := <-conns
		c.mu.Lock()
		written := strings.ToLower(string(c.written))
		c.mu.Unlock()
		assert.Contains(t, written, "hello", "it has greeted the server")
		assert.NotContains(t, written, protocol.PlainReleaseScript.Hash())
		assert.NotContains(t, written, "redis.call")
		assert.NoError(t, l.Ask(t.Context(), Command{Cmd: redis.NewStringCmd(t.Context(), "ping")}).Err, "a second connection would wait for ever")
	}
}

// A query is asked again with the same call. go-redis may still be about to write the batch before, which must not be mended by that.
func TestCallThatIsAskedAgainLeavesItsBatchThatWasWrittenOffUnsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold, sent := make(chan struct{}), make(chan redis.Cmder, 2)
		l := newTestPipeline(t, func(cmds []redis.Cmder) error { sent <- cmds[0]; <-hold; return nil })
		call := protocol.PlainRelease[protocol.Entry](protocol.PlainReleaseScript, protocol.Keyspace{Prefix: "fairsem-test"}.About(uuid.NewString()), nil)
		assert.ErrorIs(t, l.Ask(t.Context(), Command{Call: call}).Err, failure.ErrNoAnswer)
		reply := l.Send(Command{Call: call})
		first, second := <-sent, <-sent
		written := func(cmd redis.Cmder) string {
			hash, err := cmd.Args()[1].(encoding.BinaryMarshaler).MarshalBinary()
			assert.NoError(t, err)
			return string(hash)
		}
		assert.Equal(t, string(unknownHash), written(first))
		assert.Equal(t, protocol.PlainReleaseScript.Hash(), written(second))
		close(hold)
		<-reply
	})
}

// A pipeline breaks half-way: a command without a value of its own was not answered.
func TestCommandsThatWereNotReachedHaveNoAnswer(t *testing.T) {
	t.Parallel()
	commands := []redis.Cmder{
		protocol.Numbers{IntSliceCmd: redis.NewIntSliceCmd(background, "a")}, protocol.Values{SliceCmd: redis.NewSliceCmd(background, "b")},
		protocol.Numbers{IntSliceCmd: redis.NewIntSliceCmd(background, "c")}, protocol.Values{SliceCmd: redis.NewSliceCmd(background, "d")},
	}
	l := newTestPipeline(t, func(cmds []redis.Cmder) error {
		cmds[0].(protocol.Numbers).SetVal([]int64{42})
		cmds[1].SetErr(testclient.Reply("ERR no"))
		return io.EOF
	})
	responses := l.run(l.Client.Pipeline(), commands)
	assert.Equal(t, []Response{{Numbers: []int64{42}}, {Err: testclient.Reply("ERR no")}}, responses[:2])
	for _, r := range responses[2:] {
		assert.ErrorIs(t, r.Err, failure.ErrNoAnswer)
		assert.ErrorIs(t, r.Err, io.EOF)
	}
}

// If go-redis re-sends a script by itself, the outcome is unknown.
func TestScriptWhoseReplyIsCutOffIsExecutedOnce(t *testing.T) {
	t.Parallel()
	count := func(key string) redis.Cmder {
		return protocol.Numbers{IntSliceCmd: redis.NewIntSliceCmd(background, "eval", "return { redis.call('INCR', KEYS[1]) }", 1, key)}
	}
	label := func(key string) redis.Cmder {
		return redis.NewStatusCmd(background, "set", key+":label", "x", "px", 1000)
	}
	for name, commandsOf := range map[string][]func(string) redis.Cmder{
		"alone":          {count},
		"after a label":  {label, count},
		"before a label": {count, label},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := testclient.Settled(t)
			proxy := redistest.NewProxy(t, redistest.SharedServer(t).Addr())
			rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()}) // with go-redis's default number of tries
			t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
			l := New(Config{Client: rdb, Goroutines: goroutines.New(), Clock: clock.New(), Suspect: func() {}, Disconnected: func() {}})
			l.run(rdb.Pipeline(), []redis.Cmder{redis.NewCmd(background, "ping")}) // it is connected now
			key := "fairsem-test-" + uuid.NewString()
			t.Cleanup(func() { assert.NoError(t, direct.Del(background, key, key+":label").Err()) })
			var commands []redis.Cmder
			for _, make := range commandsOf {
				commands = append(commands, make(key))
			}
			got := make(chan []Response, 1)
			proxy.HoldReplies()
			go func() { got <- l.run(rdb.Pipeline(), commands) }() // ends when the connection is cut
			executed := func() string { return direct.Get(background, key).Val() }
			require.Eventually(t, func() bool { return executed() == "1" }, time.Minute, time.Millisecond)
			proxy.Cut()
			proxy.Resume()
			for _, r := range <-got {
				assert.Error(t, r.Err)
			}
			assert.Equal(t, "1", executed())
		})
	}
}

// A grant or a renewal that too few replicas have is not trusted, whichever script made it.
func TestWhatGrantsOrRenewsNeedsReplicas(t *testing.T) {
	t.Parallel()
	var needing []string
	calls := []protocol.Call{queueCall(1), queueCall(0), tenantsCall(1), tenantsCall(0)}
	for _, s := range slices.Concat(protocol.Scripts, protocol.PlainScripts) {
		if s != protocol.PlainQueueScript && s != protocol.PlainTenantsScript {
			calls = append(calls, protocol.Call{Script: s})
		}
	}
	for _, c := range calls {
		if c.MustSurvive() {
			needing = append(needing, c.Script.Verb)
		}
	}
	assert.Equal(t, []string{"plain_queue", "plain_tenants", "acquire", "refresh", "restore", "plain_acquire", "plain_tenants_acquire", "plain_numbers_acquire", "plain_refresh"}, needing)
}

// tenantsCall is queueCall on a name that tenants share.
func tenantsCall(n int) protocol.Call {
	acquired := make([]entry, n)
	return protocol.PlainTenants(protocol.Keyspace{Prefix: "p"}.About("name"), protocol.Known{}, protocol.AcquireParams{}, nil, acquired, make([]entry, 1-n))
}

// queueCall acquires n permits or, if that is 0, releases one.
func queueCall(n int) protocol.Call {
	acquired := make([]entry, n)
	return protocol.PlainQueue(protocol.Keyspace{Prefix: "p"}.About("name"), protocol.Known{}, protocol.AcquireParams{}, acquired, make([]entry, 1-n))
}

// entry is an Entry.
type entry struct{}

func (entry) PermitID() string       { return "me:1" }
func (entry) Units() int64           { return 1 }
func (entry) MaxWait() time.Duration { return 0 }

func TestPlainCallThatIsDeclinedAfterItWasWrittenOffIsNotSentInFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var sent []any
		l := newTestPipeline(t, func(cmds []redis.Cmder) error {
			sent = append(sent, fmt.Sprint(cmds[0].Args()[1]))
			<-hold
			cmds[0].(protocol.Numbers).SetVal([]int64{0})
			return nil
		})
		about := protocol.Keyspace{Prefix: "p"}.About("name")
		calls := func() *order {
			o := newOrder(1, MinTimeout)
			o.plain = protocol.PlainRelease[protocol.Entry](protocol.PlainReleaseScript, about, nil)
			o.full = protocol.Release[protocol.Entry](about, protocol.Declaration{}, 0, false, nil)
			l.Queue(o, false)
			return o
		}
		o := calls()
		assert.ErrorIs(t, (<-o.done).Err, failure.ErrNoAnswer)
		close(hold)
		synctest.Wait()
		assert.Equal(t, []any{protocol.PlainReleaseScript.Hash()}, sent)
		assert.NoError(t, (<-calls().done).Err)
		assert.Equal(t, []any{protocol.PlainReleaseScript.Hash(), protocol.PlainReleaseScript.Hash(), protocol.ReleaseScript.Hash()}, sent)
	})
}

// A call that times out names the failure as its cause, and may be of another name.
func TestFailureOfAnExchangeIsNoneThatOnlyOneNameHas(t *testing.T) {
	t.Parallel()
	wrong, full := testclient.Reply("WRONGTYPE Operation against a key holding the wrong kind of value"), testclient.Reply("OOM command not allowed")
	for _, c := range []struct {
		replies []error
		want    error
	}{{[]error{wrong}, nil}, {[]error{wrong, full}, full}, {[]error{full, io.EOF, wrong}, io.EOF}} {
		var responses []Response
		for _, err := range c.replies {
			responses = append(responses, Response{Err: err})
		}
		assert.Equal(t, c.want, worst(responses), "%v", c.replies)
	}
}
