package fairsemtest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
	"github.com/fairsem/fairsem/internal/protocol"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
		code = 1
	}
	os.Exit(code)
}

// longTTL is so long that nothing expires and nothing is renewed while a test runs on the real clock.
const longTTL = 24 * time.Hour

// inABubble runs a test in a bubble of synctest, where time passes only when all goroutines wait.
func inABubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func semaphore(t testing.TB, c *fairsem.Client, name string, limit int64) *fairsem.Semaphore {
	t.Helper()
	s, err := c.Semaphore(name, limit)
	require.NoError(t, err)
	return s
}

func acquire(t testing.TB, s *fairsem.Semaphore, n int64) *fairsem.Permit {
	t.Helper()
	p, err := s.Acquire(t.Context(), n)
	require.NoError(t, err)
	return p
}

// queue acquires in the background, and returns when the call is in the queue.
func queue(t testing.TB, s *fairsem.Semaphore, n int64) <-chan *fairsem.Permit {
	t.Helper()
	waiting := func() int64 {
		st, err := s.Status(t.Context())
		require.NoError(t, err)
		return st.Waiting
	}
	before, granted := waiting(), make(chan *fairsem.Permit, 1)
	go func() { // ends with the test's context at the latest
		p, err := s.Acquire(t.Context(), n)
		if err == nil {
			granted <- p
		}
	}()
	require.Eventually(t, func() bool { return waiting() > before }, time.Minute, time.Millisecond)
	return granted
}

func TestClientsShareALimit(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	a := semaphore(t, server.Client(fairsem.Options{}), "pool", 2)
	b := semaphore(t, server.Client(fairsem.Options{}), "pool", 2)
	p := acquire(t, a, 2)
	_, err := b.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired)
	require.NoError(t, p.Release(t.Context()))
	acquire(t, b, 2) // the end of the test releases it
}

func TestServersShareNothing(t *testing.T) {
	t.Parallel()
	for range 3 {
		pool := semaphore(t, fairsemtest.NewServer(t).Client(fairsem.Options{TTL: longTTL}), "pool", 1)
		_, err := pool.TryAcquire(t.Context(), 1) // the end of the test releases it
		require.NoError(t, err)
	}
}

func TestUnitsOfAKilledProcessAreFreeAfterItsTTLAndNoSooner(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	killed, client := server.Client(fairsem.Options{TTL: longTTL}), server.Client(fairsem.Options{TTL: longTTL})
	acquire(t, semaphore(t, killed, "pool", 1), 1)
	server.Kill(killed)
	server.Advance(longTTL - time.Minute)
	pool := semaphore(t, client, "pool", 1)
	_, err := pool.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired)
	server.Advance(time.Minute)
	_, err = pool.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
}

func TestWaitersAreGrantedWhenKilledProcessesBeforeThemExpire(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	holder, waiter := server.Client(fairsem.Options{TTL: longTTL}), server.Client(fairsem.Options{TTL: longTTL})
	acquire(t, semaphore(t, holder, "pool", 2), 1)
	queue(t, semaphore(t, waiter, "pool", 2), 2)
	pool := semaphore(t, server.Client(fairsem.Options{TTL: longTTL}), "pool", 2)
	first, second := queue(t, pool, 1), queue(t, pool, 1)
	server.Kill(holder)
	server.Kill(waiter)
	server.Advance(longTTL)
	assert.Less(t, (<-first).Token(), (<-second).Token())
}

func TestAdvanceExpiresNothingOfRunningProcesses(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	a := semaphore(t, server.Client(fairsem.Options{Label: "a"}), "pool", 1)
	b := semaphore(t, server.Client(fairsem.Options{Label: "b"}), "pool", 1)
	p := acquire(t, a, 1)
	first, second := queue(t, b, 1), queue(t, a, 1)
	for range 20 {
		server.Advance(time.Hour)
	}
	require.NoError(t, p.Context().Err())
	status, err := a.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(1), status.Used)
	assert.GreaterOrEqual(t, status.OldestWait, 20*time.Hour)
	for ticket, err := range a.Waiters(t.Context()) {
		require.NoError(t, err)
		assert.NotEmpty(t, ticket.Label)
	}
	require.NoError(t, p.Release(t.Context()))
	p = <-first
	require.NoError(t, p.Release(t.Context()))
	assert.NoError(t, (<-second).Release(t.Context()))
}

// A script in the middle of Advance would see either the clock or the leases moved, but not both.
func TestAdvanceExpiresNothingOfConcurrentCalls(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	var busy sync.WaitGroup
	for range 4 {
		pool := semaphore(t, server.Client(fairsem.Options{}), "pool", 2)
		busy.Go(func() {
			for range 50 {
				p := acquire(t, pool, 1)
				err := p.Release(t.Context())
				for errors.Is(err, fairsem.ErrUnavailable) { // it waits for a second, and Advance keeps the server busy
					err = p.Release(t.Context())
				}
				assert.NoError(t, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { // ends with the callers
		busy.Wait()
		close(done)
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
			server.Advance(time.Minute)
		}
	}
}

// Scripts set the expiry of the keys of a name by a field of meta, not by the reply of PTTL.
func TestAdvanceKeepsKeysForAsLongAsTheLeasesInThem(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		brief := semaphore(t, server.Client(fairsem.Options{}), "pool", 1)
		p := acquire(t, brief.With(fairsem.CallOptions{TTL: longTTL, NoRefresh: true}), 1) // nothing renews it
		server.Advance(longTTL + time.Hour)
		for range 2 {
			_, err := brief.TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, fairsem.ErrNotAcquired)
			time.Sleep(time.Hour)
		}
		assert.NoError(t, p.Context().Err())
	})
}

// A test of an outage of hours takes seconds, whatever TTL keeps the tickets.
func TestTriesDuringAnOutageAreAFewASecond(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		server, failed := fairsemtest.NewServer(t), 0
		pool := semaphore(t, server.Client(fairsem.Options{TTL: time.Hour, Observer: func(e fairsem.Event) {
			if _, is := e.(fairsem.CallFailedEvent); is {
				failed++
			}
		}}), "pool", 1)
		acquire(t, pool, 1)
		server.Down()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Greater(t, failed, 60)
		assert.LessOrEqual(t, failed, 60*8) // with what is random between two tries
	})
}

func TestAdvanceMovesTheClockThatOrdersTheQueue(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	pool := semaphore(t, server.Client(fairsem.Options{}), "pool", 1)
	ahead := pool.With(fairsem.CallOptions{HeadStart: time.Hour})
	p := acquire(t, pool, 1)
	first := queue(t, pool, 1)
	server.Advance(30 * time.Minute)
	second := queue(t, ahead, 1)
	require.NoError(t, p.Release(t.Context()))
	p = <-second
	third := queue(t, ahead, 1)
	server.Advance(time.Hour)
	fourth := queue(t, ahead, 1)
	require.NoError(t, p.Release(t.Context()))
	for _, next := range []<-chan *fairsem.Permit{third, first, fourth} {
		require.NoError(t, (<-next).Release(t.Context()))
	}
}

func TestClockContinuesAfterAdvance(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		killed, client := server.Client(fairsem.Options{}), server.Client(fairsem.Options{})
		server.Advance(time.Hour)
		acquire(t, semaphore(t, killed, "pool", 1), 1)
		rdb := server.Redis()
		require.NoError(t, rdb.Set(t.Context(), "the user's own", 1, time.Minute).Err())
		server.Kill(killed)
		time.Sleep(time.Minute)
		require.ErrorIs(t, rdb.Get(t.Context(), "the user's own").Err(), redis.Nil)
		_, err := semaphore(t, client, "pool", 1).TryAcquire(t.Context(), 1)
		assert.NoError(t, err)
	})
}

func TestAdvanceMovesTheExpiryOfAllKeys(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	rdb := server.Redis()
	require.NoError(t, rdb.Set(t.Context(), "the user's own", 1, time.Hour).Err())
	server.Advance(time.Hour - time.Second)
	require.NoError(t, rdb.Get(t.Context(), "the user's own").Err())
	server.Advance(time.Second)
	assert.ErrorIs(t, rdb.Get(t.Context(), "the user's own").Err(), redis.Nil)
}

func TestExpireNotifiesAllHoldersOfTheNameAtOnce(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	opts := fairsem.Options{TTL: longTTL, Prefix: "app"}
	a, b := semaphore(t, server.Client(opts), "pool", 4), semaphore(t, server.Client(opts), "pool", 4)
	other := acquire(t, semaphore(t, server.Client(opts), "another pool", 1), 1)
	brief := acquire(t, b.With(fairsem.CallOptions{NoRefresh: true}), 1)
	var next <-chan *fairsem.Permit
	err := a.Do(t.Context(), 2, func(ctx context.Context) error {
		next = queue(t, b, 4)
		server.Expire("pool")
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, fairsem.ErrLost)
	<-brief.Context().Done()
	require.ErrorIs(t, brief.Release(t.Context()), fairsem.ErrLost)
	require.NoError(t, (<-next).Release(t.Context()))
	require.NoError(t, other.Context().Err())
	app := protocol.Keyspace{Prefix: "app"}
	assert.Zero(t, server.Redis().Exists(t.Context(), app.Key("pool", protocol.Owner), app.Key("pool", protocol.Weight)).Val(), "left behind")
}

func TestExpireTakesTheNumbers(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	client, numbered := server.Client(fairsem.Options{TTL: longTTL}), fairsem.CallOptions{Numbered: true}
	acquire(t, semaphore(t, client, "pool", 3).With(numbered), 1)
	server.Kill(client) // so it does not find out before the next call
	server.Expire("pool")
	next := acquire(t, semaphore(t, server.Client(fairsem.Options{TTL: longTTL}), "pool", 3).With(numbered), 1)
	assert.Zero(t, next.Number())
}

func TestExpireTakesThePermitsFromTheirTenantsAndCountsThem(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	sem := semaphore(t, server.Client(fairsem.Options{TTL: longTTL}), "pool", 4)
	permits := []*fairsem.Permit{acquire(t, sem.With(fairsem.CallOptions{Tenant: "acme"}), 3), acquire(t, sem.With(fairsem.CallOptions{Tenant: "zeta"}), 1)}
	server.Expire("pool")
	for _, p := range permits {
		<-p.Context().Done()
	}
	for tenant, err := range sem.Tenants(t.Context()) {
		require.NoError(t, err)
		t.Errorf("%+v has something still", tenant)
	}
	status, err := sem.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 0, 2, 2}, []int64{status.Used, status.Holders, status.Expired, status.Granted})
}

// A program in a bubble that uses a server of another ends the whole test binary, without a word about the reason.
func TestClientInABubbleOfAServerThatIsNotOfItFailsTheTest(t *testing.T) {
	t.Parallel()
	failure := record(func(tb testing.TB) {
		server := fairsemtest.NewServer(tb)
		synctest.Test(t, func(*testing.T) {
			var done sync.WaitGroup
			done.Go(func() { server.Client(fairsem.Options{}) }) // a failure ends the goroutine
			done.Wait()
		})
	})
	assert.Equal(t, "fairsemtest: the server is not of this bubble of testing/synctest: call NewServer in it", failure)
}

// The client subscribes just after it has its first permit. Before that it cannot be notified.
func TestExpireRightAfterTheFirstGrantIsReported(t *testing.T) {
	t.Parallel()
	for range 30 {
		server := fairsemtest.NewServer(t)
		p := acquire(t, semaphore(t, server.Client(fairsem.Options{TTL: longTTL}), "pool", 1), 1)
		server.Expire("pool")
		<-p.Context().Done()
		require.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
	}
}

func TestCallsTakeNoTimeInABubble(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		began := time.Now()
		server := fairsemtest.NewServer(t)
		a, b := server.Client(fairsem.Options{}), server.Client(fairsem.Options{})
		p := acquire(t, semaphore(t, a, "pool", 1), 1)
		_, err := semaphore(t, b, "pool", 1).TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		require.NoError(t, p.Release(t.Context()))
		require.NoError(t, a.Close())
		assert.Zero(t, time.Since(began))
	})
}

// A pipe is not a socket: it has no buffer, so a pipeline that is longer than the buffers of its ends would wait for ever.
func TestManyNamesShareARoundTrip(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		began := time.Now()
		client := fairsemtest.NewServer(t).Client(fairsem.Options{})
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				p := acquire(t, semaphore(t, client, fmt.Sprintf("pool %d", i), 1), 1)
				assert.NoError(t, p.Release(t.Context()))
			})
		}
		all.Wait()
		assert.Zero(t, time.Since(began))
	})
}

// go-redis reuses the timers with which callers wait for a connection, and a timer must not be used in another bubble.
func TestManyConnectionsStayInTheirBubble(t *testing.T) {
	t.Parallel()
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			rdb := fairsemtest.NewServer(t).Redis()
			var all sync.WaitGroup
			for range 100 * runtime.GOMAXPROCS(0) {
				all.Go(func() { assert.NoError(t, rdb.Ping(t.Context()).Err()) })
			}
			all.Wait()
		})
	}
}

func TestPermitsAreRenewedForHours(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		opts := fairsem.Options{TTL: time.Hour}
		a := semaphore(t, server.Client(opts), "pool", 1)
		b := semaphore(t, server.Client(opts), "pool", 1)
		p := acquire(t, a, 1)
		var waited time.Duration
		var waiter sync.WaitGroup
		waiter.Go(func() {
			q := acquire(t, b, 1)
			waited = q.Waited()
			assert.NoError(t, q.Release(t.Context()))
		})
		time.Sleep(10 * time.Hour)
		require.NoError(t, p.Context().Err())
		require.NoError(t, p.Release(t.Context()))
		waiter.Wait()
		assert.Equal(t, 10*time.Hour, waited)
	})
}

func TestDisconnectedHolderIsNotifiedBeforeTheNextGrant(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		client := server.Client(fairsem.Options{})
		p := acquire(t, semaphore(t, client, "pool", 1), 1)
		server.Kill(client)
		began := time.Now()
		var next sync.WaitGroup
		next.Go(func() {
			q := acquire(t, semaphore(t, server.Client(fairsem.Options{}), "pool", 1), 1)
			assert.InDelta(t, 10250*time.Millisecond, time.Since(began), float64(250*time.Millisecond))
			assert.NoError(t, q.Release(t.Context()))
		})
		<-p.Context().Done()
		assert.Equal(t, 9*time.Second, time.Since(began))
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
		next.Wait()
	})
}

func TestPermitWithoutRefreshEndsByTheClock(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		pool := semaphore(t, server.Client(fairsem.Options{}), "pool", 1)
		p := acquire(t, pool.With(fairsem.CallOptions{NoRefresh: true, TTL: time.Minute}), 1)
		began := time.Now()
		acquire(t, pool, 1)
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
		assert.Equal(t, 54*time.Second, time.Since(began), "its process releases it")
	})
}

func TestServerThatIsDownIsUnavailableAfterATTL(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		pool := semaphore(t, server.Client(fairsem.Options{}), "pool", 1)
		p := acquire(t, pool, 1)
		server.Down()
		began := time.Now()
		_, err := pool.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrUnavailable)
		assert.InDelta(t, 10*time.Second, time.Since(began), float64(500*time.Millisecond))
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
	})
}

func TestShortOutageLosesNothing(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		client := server.Client(fairsem.Options{})
		pool := semaphore(t, client, "pool", 1)
		p := acquire(t, pool, 1)
		server.Down()
		time.Sleep(4 * time.Second)
		server.Up()
		began := time.Now()
		q := acquire(t, semaphore(t, client, "another pool", 1), 1)
		assert.Less(t, time.Since(began), time.Second/2, "no grace period after an outage without a loss")
		require.NoError(t, q.Release(t.Context()))
		time.Sleep(time.Minute)
		require.NoError(t, p.Context().Err())
		assert.NoError(t, p.Release(t.Context()))
	})
}

func TestProgramCanCreateItsOwnClient(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	rdb := server.Redis()
	client, err := fairsem.New(rdb, fairsem.Options{TTL: longTTL})
	require.NoError(t, err)
	p := acquire(t, semaphore(t, client, "pool", 1), 1)
	server.Advance(longTTL)
	require.NoError(t, p.Context().Err())
	server.Expire("pool")
	<-p.Context().Done()
	require.NoError(t, client.Close())
	require.NoError(t, rdb.Close()) // the end of the test accepts that
}

// recorder is a test that records its failure for another test.
type recorder struct {
	testing.TB
	failure  string
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Context() context.Context { return context.Background() }

func (r *recorder) Errorf(format string, args ...any) { r.failure = fmt.Sprintf(format, args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// record runs a test and returns its failure, or "".
func record(test func(t testing.TB)) string {
	r := new(recorder)
	var done sync.WaitGroup
	done.Go(func() { test(r) })
	done.Wait()
	for len(r.cleanups) > 0 {
		last := len(r.cleanups) - 1
		f := r.cleanups[last]
		r.cleanups = r.cleanups[:last]
		f()
	}
	return r.failure
}

func TestMistakesFailTheTest(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]func(t testing.TB, s *fairsemtest.Server){
		"fairsemtest: fairsem: invalid argument: TTL 1ns is not between 100ms and 24h0m0s": func(_ testing.TB, s *fairsemtest.Server) {
			s.Client(fairsem.Options{TTL: 1})
		},
		"fairsemtest: Advance(-1s): the duration is negative": func(_ testing.TB, s *fairsemtest.Server) {
			s.Advance(-time.Second)
		},
		"fairsemtest: Advance(2562047h47m16.854775807s): the clock would be more than 100 years ahead": func(_ testing.TB, s *fairsemtest.Server) {
			s.Advance(math.MaxInt64)
		},
		"fairsemtest: Advance(876000h0m0s): the clock would be more than 100 years ahead": func(_ testing.TB, s *fairsemtest.Server) {
			s.Advance(time.Second)
			s.Advance(100 * 365 * 24 * time.Hour)
		},
		`fairsemtest: Expire: no permit of "pool" is held`: func(t testing.TB, s *fairsemtest.Server) {
			acquire(t, semaphore(t, s.Client(fairsem.Options{}), "x:{pool", 1), 1)
			s.Expire("pool")
		},
		`fairsemtest: Expire: no permit of "mails" is held`: func(t testing.TB, s *fairsemtest.Server) { // its grants were forgotten
			limiter, err := s.Client(fairsem.Options{}).Limiter("mails", 1, time.Hour)
			require.NoError(t, err)
			require.NoError(t, limiter.Wait(t.Context(), 1))
			s.Expire("mails")
		},
		"fairsemtest: Kill: the client is not one of this server": func(t testing.TB, s *fairsemtest.Server) {
			s.Kill(fairsemtest.NewServer(t).Client(fairsem.Options{}))
		},
	} {
		got := record(func(t testing.TB) { test(t, fairsemtest.NewServer(t)) })
		assert.Equal(t, want, got)
	}
}

// It once ended the whole test binary.
func TestSubscribeWithoutAChannelIsRefused(t *testing.T) {
	t.Parallel()
	rdb := fairsemtest.NewServer(t).Redis()
	require.ErrorContains(t, rdb.Do(t.Context(), "subscribe").Err(), "wrong number of arguments")
}

// A limit that is used a century later is still counted.
func TestClockOfTheServerCanBeACenturyAhead(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	server.Advance(100 * 365 * 24 * time.Hour)
	pool := semaphore(t, server.Client(fairsem.Options{}), "pool", 1)
	acquire(t, pool, 1)
	_, err := pool.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired)
}

// The end of a test releases all permits, also those of a disconnected client, without waiting for a lease to expire.
func TestEndOfATestReleasesEverythingSoon(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		var began time.Time
		failure := record(func(t testing.TB) {
			server := fairsemtest.NewServer(t)
			a, b := server.Client(fairsem.Options{}), server.Client(fairsem.Options{})
			acquire(t, semaphore(t, a, "pool", 2), 1)
			acquire(t, semaphore(t, b, "pool", 2), 1)
			queue(t, semaphore(t, b, "pool", 2), 1)
			server.Kill(a)
			server.Down()
			time.Sleep(5 * time.Second)
			began = time.Now()
		})
		assert.Empty(t, failure)
		assert.Less(t, time.Since(began), time.Second)
	})
}

func TestAdvanceEndsTheWindowOfALimiter(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	limiter, err := server.Client(fairsem.Options{}).Limiter("mails", 1, time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 1))
	server.Advance(59 * time.Minute)
	d, err := limiter.Allow(t.Context(), 1)
	require.NoError(t, err)
	assert.False(t, d.Allowed)
	assert.LessOrEqual(t, d.RetryAfter, time.Minute+time.Millisecond)
	waited := make(chan error)
	go func() { waited <- limiter.Wait(t.Context(), 1) }() // ends when the window has passed
	require.Eventually(t, func() bool {
		d, err := limiter.Allow(t.Context(), 1)
		return err == nil && d.RetryAfter > time.Hour // the other call waits
	}, time.Minute, time.Millisecond)
	server.Advance(time.Minute + time.Second)
	require.NoError(t, <-waited)
}
