package fairsem_test

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// These tests use the public API on every kind of server.

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // sentinel clients log every connection
	// go-redis keeps dialling a server that is down for up to a second after its client was closed.
	dialing := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	worldtest.Main[order](func() int { return redistest.Main(m) }, dialing)
}

// backend is a kind of server.
type backend struct {
	name string
	dial func(t testing.TB) redis.UniversalClient // its own connection pool, like that of another process

	// If each world has its own server, serve starts it and returns dial.
	serve func(t testing.TB) func(testing.TB) redis.UniversalClient

	// The client of the test itself, if it needs more rights than the library, to which nothing may be denied. nil: dial.
	admin func(t testing.TB) redis.UniversalClient
}

var backends = []backend{
	{name: "single", dial: func(t testing.TB) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: redistest.SharedServer(t).Addr()})
	}},
	{name: "secure", dial: dialSecure, admin: dialAdmin},
	{name: "cluster", dial: func(t testing.TB) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs(redistest.SharedCluster(t).Nodes)})
	}},
	{name: "sentinel", dial: func(t testing.TB) redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.PrimaryName, SentinelAddrs: redistest.SharedSentinel(t).Addrs(),
		})
	}},
	{name: "miniredis", serve: func(t testing.TB) func(testing.TB) redis.UniversalClient {
		server := fairsemtest.NewServer(t)
		return func(testing.TB) redis.UniversalClient { return server.Redis() }
	}},
}

func addrs(servers []*redistest.Server) []string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}

// everywhere runs a test on every kind of server in parallel.
func everywhere(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for _, b := range backends {
		if testing.Short() && b.name == "single" {
			continue // secure is the same server
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			w := b.newWorld(t)
			if b.admin != nil {
				t.Cleanup(w.nothingWasDenied)
			}
			test(t, w)
		})
	}
}

// steps is how much of a random test runs: a third of n with -short.
func steps(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

// onRedis runs a test on one real server.
func onRedis(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return backends[0].newWorld(t)
}

// world is one name on one server, and the processes that use it.
type world struct {
	t     *testing.T
	dial  func(t testing.TB) redis.UniversalClient
	rdb   redis.UniversalClient // the client of the test itself
	name  string
	limit int64
	ttl   time.Duration
	grace time.Duration // 0: the default

	limited *atomic.Bool // by a Limiter, whose grants are never released
}

func newWorld(t *testing.T, dial func(t testing.TB) redis.UniversalClient) *world {
	t.Helper()
	return backend{dial: dial}.newWorld(t)
}

func (b backend) newWorld(t *testing.T) *world {
	t.Helper()
	if b.serve != nil {
		b.dial = b.serve(t)
	}
	w := &world{t: t, dial: b.dial, name: t.Name() + "-" + uuid.NewString(), limit: 1, ttl: 10 * time.Second, limited: new(atomic.Bool)}
	if b.admin == nil {
		w.rdb = w.connect()
	} else {
		w.rdb = w.open(b.admin)
	}
	t.Cleanup(w.mustBeEmpty)
	return w
}

func (w *world) connect() redis.UniversalClient { return w.open(w.dial) }

func (w *world) open(dial func(t testing.TB) redis.UniversalClient) redis.UniversalClient {
	rdb := dial(w.t)
	w.t.Cleanup(func() { assert.NoError(w.t, rdb.Close()) })
	return rdb
}

// client returns a new Client. For Redis it is another process.
func (w *world) client() *fairsem.Client {
	return w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Grace: w.grace})
}

func (w *world) clientOn(rdb redis.UniversalClient, opts fairsem.Options) *fairsem.Client {
	w.t.Helper()
	c, err := fairsem.New(rdb, opts)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, unlessLate(c.Close())) }) // whatever is left, mustBeEmpty finds
	return c
}

// semaphore returns the semaphore of the world with a new client.
func (w *world) semaphore() *fairsem.Semaphore { return w.of(w.client(), w.limit) }

func (w *world) of(c *fairsem.Client, limit int64) *fairsem.Semaphore {
	w.t.Helper()
	s, err := c.Semaphore(w.name, limit)
	require.NoError(w.t, err)
	return s
}

// call is an Acquire in a goroutine.
type call struct {
	done   chan struct{}
	permit *fairsem.Permit
	err    error
}

func acquire(ctx context.Context, s *fairsem.Semaphore, n int64) *call {
	c := &call{done: make(chan struct{})}
	go func() { // ends with Acquire; every test waits for it or cancels it
		defer close(c.done)
		c.permit, c.err = s.Acquire(ctx, n)
	}()
	return c
}

// queue acquires in the background, and returns when the call is in the queue.
func (w *world) queue(ctx context.Context, s *fairsem.Semaphore, n int64) *call {
	w.t.Helper()
	before := w.status(s).Waiting
	c := acquire(ctx, s, n)
	w.eventually(func() bool { return w.status(s).Waiting == before+1 }, "the call does not queue")
	return c
}

// granted waits for the call and returns its permit.
func (w *world) granted(c *call) *fairsem.Permit {
	w.t.Helper()
	<-c.done
	require.NoError(w.t, c.err)
	return c.permit
}

func (c *call) waits() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

func (w *world) status(s *fairsem.Semaphore) fairsem.Status {
	w.t.Helper()
	st, err := s.Status(w.t.Context())
	require.NoError(w.t, err)
	return st
}

func (w *world) must(p *fairsem.Permit, err error) *fairsem.Permit {
	w.t.Helper()
	require.NoError(w.t, err)
	return p
}

func (w *world) release(p *fairsem.Permit) {
	w.t.Helper()
	require.NoError(w.t, w.givenBack(p))
}

// givenBack calls Release until it is confirmed. On a busy machine, or while a server is down, that can take longer than the
// second that Release waits.
func (w *world) givenBack(p *fairsem.Permit) error { return givenBack(w.t.Context(), p) }

func givenBack(ctx context.Context, p interface{ Release(context.Context) error }) (err error) {
	for range 20 {
		if err = p.Release(ctx); !errors.Is(err, fairsem.ErrUnavailable) {
			break
		}
	}
	return err
}

// unlessLate is the error of a Do or a Close, unless it says only that a release was not confirmed within the time that they wait: on a busy
// machine, or while a server is down, that can take longer.
func unlessLate(err error) error {
	if errors.Is(err, fairsem.ErrUnavailable) && lateRelease.MatchString(err.Error()) {
		return nil
	}
	return err
}

// lateRelease matches one error. Joined ones are several lines.
var lateRelease = regexp.MustCompile(`^fairsem: .*(and it goes on in the background.*|close: not released: .*)$`)

func (w *world) eventually(is func() bool, why string) {
	w.t.Helper()
	require.Eventually(w.t, is, time.Minute, 10*time.Millisecond, why)
}

func (w *world) key(kind string) string { return protocol.DefaultKeyspace.Key(w.name, kind) }

// mustBeEmpty checks that the test left no holder, no waiter, and no key that never expires.
func (w *world) mustBeEmpty() {
	ctx := context.Background()
	if w.limited.Load() {
		w.forgetGrants()
	}
	for _, kind := range []string{"owner", "queue", "weight", "numbers", "lanes", "turns"} {
		n, err := w.rdb.Exists(ctx, w.key(kind)).Result()
		assert.NoError(w.t, err)
		if !assert.Zero(w.t, n, "%s is left behind", kind) {
			w.logState(ctx)
		}
	}
	for _, kind := range []string{"timeout", "counter", "meta", "tenants"} {
		left, err := w.rdb.PTTL(ctx, w.key(kind)).Result()
		assert.NoError(w.t, err)
		assert.NotEqual(w.t, time.Duration(-1), left, "%s never expires", kind)
	}
}

// logState logs what is stored under the name, and which server said so.
func (w *world) logState(ctx context.Context) {
	for _, kind := range []string{"owner", "queue", "numbers", "timeout"} {
		w.t.Log(kind, w.rdb.ZRangeWithScores(ctx, w.key(kind), 0, 9))
	}
	w.t.Log("meta", w.rdb.HGetAll(ctx, w.key("meta")))
	w.t.Log(w.rdb.Info(ctx, "server", "replication"))
}

func TestAcquireGrantsUpToTheLimitAndThenQueues(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		a, b := w.semaphore(), w.semaphore()
		first, second := w.must(a.Acquire(t.Context(), 2)), w.must(b.Acquire(t.Context(), 1))
		third := w.queue(t.Context(), b, 1)
		assert.Equal(t, int64(3), w.status(a).Used)
		w.release(first)
		w.release(w.granted(third))
		w.release(second)
		assert.Zero(t, w.status(a).Used)
	})
}

// S5, across processes and with weights.
func TestCallsAreGrantedInTheOrderInWhichTheyWereQueued(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		processes := []*fairsem.Semaphore{w.semaphore(), w.semaphore(), w.semaphore()}
		holder := w.must(processes[0].Acquire(t.Context(), 3))
		var calls []*call
		for i := range 12 {
			calls = append(calls, w.queue(t.Context(), processes[i%3], int64(1+i%3)))
		}
		w.release(holder)
		var last int64
		for i, c := range calls {
			p := w.granted(c)
			assert.Greater(t, p.Token(), last, "call %d was overtaken", i)
			last = p.Token()
			w.release(p)
		}
	})
}

// x/sync's TestLargeAcquireDoesntStarve, across processes.
func TestLargeAcquireIsNotStarvedBySmallOnes(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 4
		ctx, stop := context.WithCancel(t.Context())
		var small sync.WaitGroup
		var held []*fairsem.Permit
		s := w.semaphore()
		for range w.limit {
			held = append(held, w.must(s.Acquire(t.Context(), 1)))
		}
		for _, p := range held {
			small.Go(func() { // releases and acquires until the large call is granted
				for p != nil {
					assert.NoError(t, givenBack(t.Context(), p))
					p, _ = s.Acquire(ctx, 1)
				}
			})
		}
		p, err := w.semaphore().Acquire(t.Context(), w.limit)
		stop()
		if assert.NoError(t, err) {
			w.release(p)
		}
		small.Wait()
	})
}

func TestSmallRequestBehindALargeOneWaitsAlthoughItFits(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 2
		s := w.semaphore()
		holder := w.must(s.Acquire(t.Context(), 1))
		large, small := w.queue(t.Context(), s, 2), w.queue(t.Context(), w.semaphore(), 1)
		assert.True(t, small.waits())
		assert.Equal(t, int64(2), w.status(s).Waiting)
		w.release(holder)
		w.release(w.granted(large))
		w.release(w.granted(small))
	})
}

// golang/go#37852: if the head is cancelled, the waiters behind it must be checked.
func TestCancelledLargeHeadWakesTheSmallOnesBehindIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 2, time.Hour // no refresh comes to help
		s := w.semaphore()
		holder := w.must(s.Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		large, small := w.queue(ctx, s, 2), w.queue(t.Context(), w.semaphore(), 1)
		cancel()
		w.release(w.granted(small))
		<-large.done
		assert.ErrorIs(t, large.err, context.Canceled)
		w.release(holder)
	})
}

func TestTryAcquireNeverWaitsAndNeverOvertakes(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 2
		s, other := w.semaphore(), w.semaphore()
		holder := w.must(s.TryAcquire(t.Context(), 1))
		_, err := other.TryAcquire(t.Context(), 2)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		waiter := w.queue(t.Context(), s, 2)
		_, err = other.TryAcquire(t.Context(), 1) // it fits, but another call waits
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		w.release(holder)
		w.release(w.granted(waiter))
		w.release(w.must(other.TryAcquire(t.Context(), 2)))
	})
}

// V2: with a TTL of an hour the next refresh is 20 minutes away.
func TestReleaseWakesTheNextWaiterInAnotherProcessByAMessage(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		a, b := w.semaphore(), w.semaphore()
		p := w.must(a.Acquire(t.Context(), 1))
		for range 10 {
			next := w.queue(t.Context(), b, 1)
			w.release(p)
			p = w.granted(next)
			a, b = b, a
		}
		w.release(p)
	})
}

func TestWeightAboveTheLimitIsRefusedAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		s := w.semaphore()
		for _, try := range []func(context.Context, int64) (*fairsem.Permit, error){s.Acquire, s.TryAcquire} {
			_, err := try(t.Context(), 4)
			require.ErrorIs(t, err, fairsem.ErrExceedsLimit)
		}
		w.release(w.must(s.Acquire(t.Context(), 3)))
	})
}

// S6
func TestTokensIncreaseAlsoWhenAllStateIsLost(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		var last int64
		for range 5 {
			for range 3 {
				p := w.must(s.Acquire(t.Context(), 1))
				assert.Greater(t, p.Token(), last)
				last = p.Token()
				w.release(p)
			}
			for _, kind := range []string{"counter", "meta"} {
				require.NoError(t, w.rdb.Del(t.Context(), w.key(kind)).Err())
			}
		}
	})
}

// The newest declaration counts, even while another process still uses an older one.
func TestNewestDeclaredLimitCounts(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		old, latest := w.client(), w.client()
		w.release(w.must(w.of(old, 2).Acquire(t.Context(), 1)))
		w.release(w.must(w.of(latest, 5).Acquire(t.Context(), 1)))
		w.release(w.must(w.of(old, 2).Acquire(t.Context(), 4)))
		assert.Equal(t, int64(5), w.status(w.of(old, 2)).Limit)

		// After a loss of state it is declared again, even if the process with the older one calls first.
		require.NoError(t, w.rdb.Del(t.Context(), w.key("meta")).Err())
		w.release(w.must(w.of(old, 2).Acquire(t.Context(), 1)))
		w.release(w.must(w.of(latest, 5).Acquire(t.Context(), 1)))
		w.release(w.must(w.of(old, 2).Acquire(t.Context(), 1)))
		assert.Equal(t, int64(5), w.status(w.of(old, 2)).Limit)
	})
}

func TestLargerLimitWakesWaitersAndSmallerOneDrains(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		s := w.semaphore()
		first := w.must(s.Acquire(t.Context(), 1))
		second := w.queue(t.Context(), s, 1)
		third := w.must(w.of(w.client(), 3).Acquire(t.Context(), 1))
		permits := []*fairsem.Permit{first, w.granted(second), third}

		late := w.queue(t.Context(), w.of(w.client(), 2), 2)
		for i, p := range permits {
			assert.True(t, late.waits(), "granted after %d of 3 releases", i)
			require.NoError(t, p.Context().Err(), "a smaller limit revoked a permit")
			w.release(p)
		}
		w.release(w.granted(late))
	})
}

// A waiter that no longer fits a smaller limit must not block the queue for ever.
func TestWaiterLargerThanTheNewLimitGetsErrExceedsLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 3, time.Hour
		s := w.semaphore()
		holder := w.must(s.Acquire(t.Context(), 3))
		large := w.queue(t.Context(), w.semaphore(), 3)
		small := acquire(t.Context(), w.of(w.client(), 2), 1)
		<-large.done // although there is no room yet
		assert.ErrorIs(t, large.err, fairsem.ErrExceedsLimit)
		w.release(holder)
		w.release(w.granted(small))
	})
}

func TestMaxQueueIsExactUnderConcurrency(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		holder := w.must(s.Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		processes := []*fairsem.Semaphore{s, w.semaphore(), w.semaphore()}
		var calls []*call
		for i := range 30 {
			calls = append(calls, acquire(ctx, processes[i%3].With(fairsem.CallOptions{MaxQueue: 7}), 1))
		}
		w.eventually(func() bool { return count(calls, (*call).waits) == 7 }, "not all but 7 are refused")
		assert.Equal(t, int64(7), w.status(s).Waiting)
		cancel()
		full := 0
		for _, c := range calls {
			<-c.done
			if errors.Is(c.err, fairsem.ErrQueueFull) {
				full++
			}
		}
		assert.Equal(t, 23, full)
		w.release(holder)
	})
}

func count(calls []*call, is func(*call) bool) (n int) {
	for _, c := range calls {
		if is(c) {
			n++
		}
	}
	return n
}

func TestHeadStartIsGrantedBeforeACallThatCameALittleEarlier(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		holder := w.must(s.Acquire(t.Context(), 1))
		ordinary := w.queue(t.Context(), s, 1)
		urgent := w.queue(t.Context(), w.semaphore().With(fairsem.CallOptions{HeadStart: time.Hour}), 1)
		w.release(holder)
		w.release(w.granted(urgent))
		w.release(w.granted(ordinary))
	})
}

func TestHeadStartNeverOvertakesACallThatWaitedLonger(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		holder := w.must(s.Acquire(t.Context(), 1))
		ordinary := w.queue(t.Context(), s, 1)
		w.eventually(func() bool { return w.status(s).OldestWait > 20*time.Millisecond }, "time stands still")
		late := w.queue(t.Context(), s.With(fairsem.CallOptions{HeadStart: 10 * time.Millisecond}), 1)
		w.release(holder)
		w.release(w.granted(ordinary))
		w.release(w.granted(late))
	})
}

func TestNoRefreshPermitExpiresOneTTLAfterTheGrant(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		short := s.With(fairsem.CallOptions{TTL: 5 * time.Second, NoRefresh: true}) // a busy machine stops a process for a while
		holder := w.must(s.Acquire(t.Context(), 1))
		queued := w.queue(t.Context(), short, 1)
		w.eventually(func() bool { return w.status(s).OldestWait > 6*time.Second }, "a waiter is renewed")
		w.release(holder)
		p := w.granted(queued)
		require.NoError(t, p.Context().Err(), "its TTL begins with the grant")
		next := w.must(w.semaphore().Acquire(t.Context(), 1)) // nobody releases p
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
		assert.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
		w.release(next)
	})
}

func TestPermitIsRenewedForAsLongAsItIsHeld(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), w.semaphore(), 1)
		require.Eventually(t, func() bool {
			return p.Context().Err() != nil || w.status(s).OldestWait > 6*w.ttl/5
		}, time.Minute, 100*time.Millisecond, "time stands still")
		require.NoError(t, p.Context().Err())
		assert.True(t, waiter.waits())
		w.release(p)
		w.release(w.granted(waiter))
	})
}

func TestPermitContextHasTheValuesOfTheCallerButNotItsEnd(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		p := w.must(w.semaphore().Acquire(ctx, 1))
		cancel()
		require.NoError(t, p.Context().Err())
		assert.Equal(t, "value", p.Context().Value(key{}))
		child, stop := context.WithCancel(p.Context())
		defer stop()
		w.release(p)
		<-child.Done()
		assert.Equal(t, fairsem.ErrReleased, context.Cause(p.Context()))
		assert.Equal(t, fairsem.ErrReleased, context.Cause(child))
	})
}

func TestReleaseIsIdempotentAlsoAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), 1))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { assert.NoError(t, givenBack(t.Context(), p)) })
		}
		all.Wait()
		next := w.must(s.Acquire(t.Context(), 1))
		require.NoError(t, givenBack(t.Context(), p))
		assert.Equal(t, int64(1), w.status(s).Used, "a late release frees no other permit")
		w.release(next)
	})
}

func TestReleaseWorksWithADoneContext(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		ctx, cancel := context.WithCancel(t.Context())
		p := w.must(s.Acquire(ctx, 1))
		cancel()
		require.NoError(t, p.Release(ctx))
		assert.Zero(t, w.status(s).Used)
	})
}

func TestDoReleasesAfterErrorsAndPanics(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		failure := errors.New("failure")
		err := s.Do(t.Context(), 1, func(context.Context) error {
			assert.Equal(t, int64(1), w.status(s).Used)
			return failure
		})
		require.ErrorIs(t, err, failure)
		assert.Zero(t, w.status(s).Used)
		assert.PanicsWithValue(t, "panic", func() {
			_ = s.Do(t.Context(), 1, func(context.Context) error { panic("panic") })
		})
		assert.Zero(t, w.status(s).Used)
	})
}

func TestDoEndsTheContextOfItsFunctionWithTheCaller(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		err := w.semaphore().Do(ctx, 1, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestDoneContextBeatsAFreePermit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("the reason"))
		for _, try := range []func(context.Context, int64) (*fairsem.Permit, error){s.Acquire, s.TryAcquire} {
			_, err := try(ctx, 1)
			require.ErrorIs(t, err, context.Canceled)
		}
		exists, err := w.rdb.Exists(t.Context(), w.key("meta")).Result()
		require.NoError(t, err)
		assert.Zero(t, exists, "something was sent")
	})
}

// bothWays repeats something until some of its calls were granted, and others failed because their patience was over: how long that has to be
// depends on the machine.
func bothWays(do func(patience time.Duration, granted, failed *atomic.Int64)) {
	var granted, failed atomic.Int64
	for patience := 3 * time.Millisecond; granted.Load() == 0 || failed.Load() == 0; {
		if do(patience, &granted, &failed); granted.Load() == 0 {
			patience *= 4
		} else {
			patience /= 4
		}
	}
}

// The other half of V4: nothing leaks, whenever a call is cancelled.
func TestNothingLeaksOnCancelAtRandomMoments(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		processes := []*fairsem.Semaphore{w.semaphore(), w.semaphore()}
		bothWays(func(patience time.Duration, granted, failed *atomic.Int64) {
			var all sync.WaitGroup
			for i := range 40 {
				all.Go(func() {
					for j := range 25 {
						ctx, cancel := context.WithTimeout(t.Context(), patience*time.Duration(i*j)/1000)
						p, err := processes[i%2].Acquire(ctx, int64(1+i%3))
						if err == nil {
							granted.Add(1)
							assert.NoError(t, givenBack(t.Context(), p))
						} else {
							failed.Add(1)
							assert.ErrorIs(t, err, context.DeadlineExceeded)
						}
						cancel()
					}
				})
			}
			all.Wait()
		})
		w.eventually(func() bool {
			st := w.status(processes[0])
			return st.Used == 0 && st.Waiting == 0
		}, "something leaked")
	})
}

func TestCloseReleasesEverythingAndEndsEveryCall(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		c, other := w.client(), w.semaphore()
		s := w.of(c, 1)
		p := w.must(s.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), s, 1)
		next := w.queue(t.Context(), other, 1)
		require.NoError(t, c.Close())
		<-waiter.done
		require.ErrorIs(t, waiter.err, fairsem.ErrClosed)
		require.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrReleased)
		require.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrClosed)
		require.NoError(t, givenBack(t.Context(), p))
		_, err := s.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrClosed)
		_, err = s.Status(t.Context())
		require.ErrorIs(t, err, fairsem.ErrClosed)
		require.NoError(t, c.Close(), "again")
		w.release(w.granted(next))
	})
}

func TestStatusCountsHoldersAndWaiters(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 5
		s := w.semaphore()
		st := w.status(s)
		assert.Equal(t, fairsem.Status{Name: w.name, At: st.At, Limit: 5, Declared: 5}, st, "of a name never used")
		a, b := w.must(s.Acquire(t.Context(), 2)), w.must(s.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), s, 4)
		st = w.status(s)
		for head, err := range s.Waiters(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, st.At.Sub(head.Since), st.OldestWait)
		}
		assert.Positive(t, st.OldestWait)
		assert.InDelta(t, w.ttl, st.NextExpiry, float64(w.ttl/2))
		st.OldestWait, st.NextExpiry = 0, 0
		assert.Equal(t, fairsem.Status{Name: w.name, At: st.At, Limit: 5, Declared: 5, Used: 3, Holders: 2, Waiting: 1, Exists: true, Granted: 2}, st)
		w.release(a)
		w.release(b)
		w.release(w.granted(waiter))
	})
}

func TestStatusCountsWhatWasGranted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		a, b := w.semaphore(), w.semaphore()
		first := w.must(a.Acquire(t.Context(), 3))
		waiter := w.queue(t.Context(), b, 2)
		_, err := a.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		assert.Equal(t, int64(1), w.status(a).Granted)
		w.release(first)
		second := w.granted(waiter)
		third := w.must(b.With(fairsem.CallOptions{NoRefresh: true}).TryAcquire(t.Context(), 1))
		w.release(second)
		w.release(third)
		st := w.status(a)
		assert.Equal(t, []any{true, int64(3), int64(0)}, []any{st.Exists, st.Granted, st.Expired})
	})
}

func TestStatusCountsPermitsWhoseLeaseEnded(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 2
		s := w.semaphore()
		once := s.With(fairsem.CallOptions{NoRefresh: true, TTL: 4 * time.Second}) // a busy machine takes a part of it
		kept, late := w.must(s.Acquire(t.Context(), 1)), w.must(once.Acquire(t.Context(), 1))
		w.eventually(func() bool { return w.status(s).Expired == 1 }, "it is not counted")
		assert.ErrorIs(t, givenBack(t.Context(), late), fairsem.ErrLost)
		w.release(kept)
		assert.Equal(t, int64(1), w.status(s).Expired, "it was released")
	})
}

func TestHoldersAndWaitersAreListedInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 300
		c := w.clientOn(w.connect(), fairsem.Options{Label: "the label"})
		s := w.of(c, w.limit)
		calls := make([]*call, 250) // more than a page
		for i := range calls {
			calls[i] = acquire(t.Context(), s, 1)
		}
		var holders []*fairsem.Permit
		for _, call := range calls {
			holders = append(holders, w.granted(call))
		}
		slices.SortFunc(holders, func(a, b *fairsem.Permit) int { return cmp.Compare(a.Token(), b.Token()) })
		waiter := w.queue(t.Context(), s, 60)
		w.eventually(func() bool {
			for ticket, err := range s.Waiters(t.Context()) {
				require.NoError(t, err)
				return ticket.Label != ""
			}
			return false
		}, "a label is stored in the background")
		w.eventually(func() bool {
			read := 0
			for ticket, err := range s.Holders(t.Context()) {
				require.NoError(t, err)
				if ticket.Label == "the label" {
					read++
				}
			}
			return read == len(holders)
		}, "a page that is not there within a second has no labels")

		var listed []string
		for ticket, err := range s.Holders(t.Context()) {
			require.NoError(t, err)
			listed = append(listed, ticket.ID)
			assert.Positive(t, ticket.Token)
			assert.Equal(t, ticket.Token, ticket.Since.UnixMicro())
		}
		var want []string
		for _, p := range holders {
			want = append(want, p.ID())
		}
		assert.Equal(t, want, listed)

		var waiting []fairsem.Ticket
		for ticket, err := range s.Waiters(t.Context()) {
			require.NoError(t, err)
			waiting = append(waiting, ticket)
		}
		require.Len(t, waiting, 1)
		assert.Equal(t, int64(60), waiting[0].Weight)
		assert.Zero(t, waiting[0].Token)
		for _, p := range holders {
			w.release(p)
		}
		p := w.granted(waiter)
		assert.Equal(t, waiting[0].ID, p.ID())
		w.release(p)
	})
}

// S9
func TestNamesNeverInterfere(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		id := uuid.NewString()
		c := w.client()
		names := []string{
			"a", "a}", "a}:owner", "a}:queue", "{a", "{a}", "a:", " a", "a ", "A", "a\x00", "\xff\xfe", "a\n", "ä", "*", "a{b}c",
			strings.Repeat("x", 512-len(id)),
		}
		var permits []*fairsem.Permit
		for _, name := range names {
			s, err := c.Semaphore(name+id, 1)
			require.NoError(t, err, "%q", name)
			permits = append(permits, w.must(s.TryAcquire(t.Context(), 1)))
			_, err = s.TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, fairsem.ErrNotAcquired, "%q", name)
		}
		other := w.clientOn(w.connect(), fairsem.Options{Prefix: "fairsem:other"})
		s, err := other.Semaphore(names[0]+id, 1)
		require.NoError(t, err)
		permits = append(permits, w.must(s.TryAcquire(t.Context(), 1)))
		for _, p := range slices.Backward(permits) {
			w.release(p)
		}
	})
}

// V6
func TestFlushedScriptCacheGoesUnnoticed(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		for range 3 {
			p := w.must(s.Acquire(t.Context(), 1))
			waiter := w.queue(t.Context(), s, 1)
			require.NoError(t, w.rdb.ScriptFlush(t.Context()).Err())
			w.release(p)
			w.release(w.granted(waiter))
		}
	})
}

// V7: the keys of names in use expire, too, but after every deadline in them.
func TestEveryKeyOutlivesItsDeadlinesAndExpires(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 2
		numbered := w.beside("-numbered")
		n := w.must(numbered.semaphore().With(fairsem.CallOptions{TTL: time.Hour, Numbered: true}).Acquire(t.Context(), 1))
		s := w.semaphore().With(fairsem.CallOptions{Tenant: "acme"})
		long := s.With(fairsem.CallOptions{TTL: time.Hour, Tenant: "initech"})
		permits := []*fairsem.Permit{w.must(s.Acquire(t.Context(), 1)), w.must(long.Acquire(t.Context(), 1))}
		waiter := w.queue(t.Context(), s, 2)
		for _, kind := range protocol.Kinds {
			key := w.key(kind)
			if kind == protocol.NumbersKey {
				key = numbered.key(kind)
			}
			left, err := w.rdb.PTTL(t.Context(), key).Result()
			require.NoError(t, err)
			assert.Greater(t, left, time.Hour, kind)
			assert.Less(t, left, 2*time.Hour, kind)
		}
		for _, p := range append(permits, n) {
			w.release(p)
		}
		w.release(w.granted(waiter))
		for _, kind := range []string{"counter", "meta", "tenants"} {
			left, err := w.rdb.PTTL(t.Context(), w.key(kind)).Result()
			require.NoError(t, err)
			assert.LessOrEqual(t, left, time.Hour+20*time.Second, "%s of an idle name", kind)
		}
	})
}
