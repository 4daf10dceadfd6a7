package fairsem_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

func (w *world) limiter(limit int64, per time.Duration) *fairsem.Limiter {
	w.t.Helper()
	return w.limiterOf(w.client(), limit, per)
}

func (w *world) limiterOf(c *fairsem.Client, limit int64, per time.Duration) *fairsem.Limiter {
	w.t.Helper()
	l, err := c.Limiter(w.name, limit, per)
	require.NoError(w.t, err)
	w.limited.Store(true)
	return l
}

// forgetGrants deletes grants, because they are never released and would stay for a window. Clients must be closed, because a call
// in flight would find only some of the keys.
func (w *world) forgetGrants() {
	ctx := context.Background()
	for _, kind := range []string{"owner", "timeout", "weight"} {
		assert.NoError(w.t, w.rdb.Del(ctx, w.key(kind)).Err())
	}
}

func (w *world) allow(l *fairsem.Limiter, n int64) fairsem.Decision {
	w.t.Helper()
	d, err := l.Allow(w.t.Context(), n)
	require.NoError(w.t, err)
	return d
}

// take waits, because a server that was just started grants nothing at first.
func (w *world) take(l *fairsem.Limiter, n int64) {
	w.t.Helper()
	require.NoError(w.t, l.Wait(w.t.Context(), n))
}

// taken is a grant: its time on the server's clock and its units.
type taken struct {
	at time.Time
	n  int64
}

// mostInWindow returns the largest number of units in any window.
func mostInWindow(all []taken, per time.Duration) (most int64) {
	slices.SortFunc(all, func(a, b taken) int { return a.at.Compare(b.at) })
	var units int64
	first := 0
	for _, g := range all {
		units += g.n
		for !all[first].at.After(g.at.Add(-per)) {
			units -= all[first].n
			first++
		}
		most = max(most, units)
	}
	return most
}

// Only the test moves the clock of the server, so a list of all grants predicts each answer.
func TestAllowAgreesWithAListOfAllGrants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit, per := 1+r.Int64N(20), time.Duration(1+r.IntN(5000))*time.Millisecond
		now := time.UnixMicro(1_800_000_000_000_000 + r.Int64N(1_000_000))
		server := miniredis.RunT(t)
		server.SetTime(now)
		w := newWorld(t, func(testing.TB) redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr()}) })
		limiters := []*fairsem.Limiter{w.limiter(limit, per), w.limiter(limit, per)}
		var granted []taken
		used := func() (units int64) { // a grant counts for a window, and for the rest of its millisecond
			for _, g := range granted {
				if now.UnixMilli()-g.at.UnixMilli() <= per.Milliseconds() {
					units += g.n
				}
			}
			return units
		}
		step := func(d time.Duration) { now = now.Add(d); server.SetTime(now) }
		allow := func(n int64) fairsem.Decision {
			fits := used()+n <= limit
			d := w.allow(limiters[r.IntN(2)], n)
			if d.Allowed {
				granted = append(granted, taken{now, n})
			}
			require.Equal(t, fits, d.Allowed, "seed %d: %d in use, %d wanted, limit %d", seed, used(), n, limit)
			require.Equal(t, limit-used(), d.Remaining, "seed %d", seed)
			require.Equal(t, d.Allowed, d.RetryAfter == 0, "seed %d", seed)
			return d
		}
		refused := 0
		for range steps(300) {
			n := 1 + r.Int64N(min(limit, 3))
			if d := allow(n); !d.Allowed {
				refused++
				step(d.RetryAfter - time.Millisecond)
				require.False(t, allow(n).Allowed, "seed %d: RetryAfter is too late", seed)
				step(time.Millisecond)
				require.True(t, allow(n).Allowed, "seed %d: RetryAfter is too early", seed)
			}
			step(time.Duration(r.Int64N(int64(2 * per / time.Duration(limit)))))
		}
		assert.LessOrEqual(t, mostInWindow(granted, per), limit)
		assert.NotZero(t, refused, "the limit is never reached")
	}
}

func TestNoWindowHasMoreThanTheLimitWithManyCallers(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const limit, per = 20, 500 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var served, refused atomic.Int64
		var crowd sync.WaitGroup
		for range 3 {
			l := w.limiter(limit, per)
			for i := range 6 {
				crowd.Go(func() { // ends with cancel
					for ctx.Err() == nil {
						n := int64(1 + i%2)
						if i == 5 {
							if d, err := l.Allow(ctx, n); err == nil && d.Allowed {
								served.Add(n)
							} else if sleepUntil(ctx, d.RetryAfter); err == nil {
								refused.Add(1)
							}
						} else if l.Wait(ctx, n) == nil {
							served.Add(n)
						}
					}
				})
			}
		}
		// The crowd is cancelled after the last read: a grant that reaches a cancelled call is released and granted again.
		granted, known, all := w.watchGrants(5*limit, per, &served)
		cancel()
		crowd.Wait()
		var units int64
		for _, g := range granted {
			units += g.n
		}
		assert.LessOrEqual(t, mostInWindow(granted, per), int64(limit))
		if all { // on a busy machine grants come and go between two reads
			assert.GreaterOrEqual(t, units, known, "a grant that is not in Redis")
		}
	})
}

func sleepUntil(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(max(d, time.Millisecond)):
	}
}

// watchGrants reads the grants of the name until so many units were served. It finds each grant that exists for longer than the time
// between two reads; known is how many units were served before the last read.
func (w *world) watchGrants(units int64, per time.Duration, served *atomic.Int64) (list []taken, known int64, all bool) {
	w.t.Helper()
	seen := make(map[string]taken)
	last := time.Now()
	hangs := last.Add(time.Minute)
	all = true
	for known < units {
		require.True(w.t, last.Before(hangs), "%d of %d units were served", known, units)
		known = served.Load()
		began := time.Now()
		pipe := w.rdb.TxPipeline() // both at the same moment
		holders := pipe.ZRangeWithScores(context.Background(), w.key("owner"), 0, -1)
		weights := pipe.HGetAll(context.Background(), w.key("weight"))
		_, err := pipe.Exec(context.Background())
		require.NoError(w.t, err)
		all = all && time.Since(last) < per
		last = began
		for _, z := range holders.Val() {
			id := z.Member.(string)
			n, err := strconv.ParseInt(cmp.Or(weights.Val()[id], "1"), 10, 64)
			require.NoError(w.t, err)
			seen[id] = taken{time.UnixMicro(int64(z.Score)), n}
		}
		sleepUntil(context.Background(), 10*time.Millisecond) // often enough to find each grant
	}
	for _, g := range seen {
		list = append(list, g)
	}
	return list, known, all
}

func TestAllowReturnsRemainingUnitsAndRetryAfter(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const window = 3 * time.Second // a busy machine takes a part of it
		l, other := w.limiter(4, window), w.limiter(4, window)
		w.take(l, 1)
		for _, left := range []int64{2, 1, 0} {
			assert.Equal(t, fairsem.Decision{Allowed: true, Remaining: left}, w.allow(l, 1))
			l, other = other, l
		}
		d := w.allow(l, 1)
		assert.False(t, d.Allowed)
		assert.Zero(t, d.Remaining)
		assert.LessOrEqual(t, d.RetryAfter, window+time.Millisecond)
		sleepUntil(t.Context(), d.RetryAfter)
		assert.True(t, w.allow(other, 1).Allowed, "as RetryAfter said")
	})
}

func TestAllowNeverOvertakesAWaiter(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l, s := w.limiter(2, time.Hour), w.semaphore()
		w.take(l, 1)
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error)
		go func() { waits <- w.limiter(2, time.Hour).Wait(ctx, 2) }() // ends with cancel
		w.eventually(func() bool { return w.status(s).Waiting == 1 }, "no call waits")
		d := w.allow(l, 1)
		assert.False(t, d.Allowed, "one unit is free, but the waiter is granted first")
		assert.Equal(t, int64(1), d.Remaining)
		assert.Greater(t, d.RetryAfter, 90*time.Minute, "the first expires in an hour, and the waiter then has both for an hour")
		cancel()
		require.ErrorIs(t, <-waits, context.Canceled)
		w.eventually(func() bool { return w.status(s).Waiting == 0 }, "the position in the queue is not released")
		assert.True(t, w.allow(l, 1).Allowed)
	})
}

func TestWaitIsFirstComeFirstServed(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		w.pin(s, 0) // so that a queue forms
		var mu sync.Mutex
		var order []int
		var crowd sync.WaitGroup
		for i := range 4 {
			l := w.limiter(1, time.Hour)
			crowd.Go(func() { // ends when all are granted
				if assert.NoError(t, l.Wait(t.Context(), 1)) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
				}
			})
			w.eventually(func() bool { return w.status(s).Waiting == int64(i+1) }, "the call does not queue")
		}
		for i := range 4 {
			w.pin(s, int64(i+1))
			w.eventually(func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(order) > i
			}, "no call is granted")
		}
		crowd.Wait()
		assert.Equal(t, []int{0, 1, 2, 3}, order)
	})
}

// A cancelled call must not count, even if it is granted at the same time.
func TestWaitThatFailsUsesNoUnit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l, s := w.limiter(100_000, time.Hour), w.semaphore()
		var used int64
		bothWays(func(patience time.Duration, served, failed *atomic.Int64) {
			var crowd sync.WaitGroup
			for range 300 {
				crowd.Go(func() { // ends with its own context
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(patience))
					defer cancel()
					if l.Wait(ctx, 1) == nil {
						served.Add(1)
					} else {
						failed.Add(1)
					}
				})
			}
			crowd.Wait()
			used = served.Load()
		})
		w.eventually(func() bool { return w.status(s).Used == used }, "a failed call counts, or a granted one does not")
	})
}

func TestGrantsOfALimiterOutliveItsClient(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c := w.client()
		w.take(w.limiterOf(c, 1, time.Hour), 1)
		require.NoError(t, c.Close())
		assert.False(t, w.allow(w.limiter(1, time.Hour), 1).Allowed, "released at the end of its process")
	})
}

func TestStatusCountsCallsOfALimiterAndNoneAsExpired(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l := w.limiter(2, 100*time.Millisecond)
		for range 3 { // the third must wait until the others have expired
			w.take(l, 1)
		}
		w.take(l, 2)
		s := w.of(w.client(), 1)
		w.eventually(func() bool { return w.status(s).Holders == 0 }, "nothing expires")
		st := w.status(s)
		assert.Equal(t, []int64{4, 0}, []int64{st.Granted, st.Expired})
	})
}

func TestWaitEndsWithItsClient(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, s := w.client(), w.semaphore()
		l := w.limiterOf(c, 1, time.Hour)
		require.NoError(t, l.Wait(t.Context(), 1))
		waits := make(chan error)
		go func() { waits <- l.Wait(t.Context(), 1) }() // ends with the client
		w.eventually(func() bool { return w.status(s).Waiting == 1 }, "no call waits")
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-waits, fairsem.ErrClosed)
		assert.Zero(t, w.status(s).Waiting)
	})
}

func TestWaitSendsNothingUntilTheTimeOfItsGrant(t *testing.T) {
	w := onRedis(t)
	rdb := w.connect()
	calls := &fairsem.CountedCalls{}
	rdb.AddHook(calls)
	l := w.limiterOf(w.clientOn(rdb, fairsem.Options{}), 1, time.Second)
	began := time.Now() // not after the first: its answer may be late
	require.NoError(t, l.Wait(t.Context(), 1))
	require.NoError(t, l.Wait(t.Context(), 1))
	assert.GreaterOrEqual(t, time.Since(began), 990*time.Millisecond) // of a second in whole ms, by two clocks
	// Two acquires, a query when the subscription is established, and one at the time of the grant. One more is allowed,
	// because the clock may be a little fast.
	assert.LessOrEqual(t, calls.Load(), int64(5))
}

// All messages are lost, too: a waiter polls at the time of its grant.
func TestWaitersOfALimiterNeedNoMessage(t *testing.T) {
	w := securely(t, append(rights(t), "-publish")...)
	w.ttl = time.Hour // no renewal during the test
	const per = 100 * time.Millisecond
	var crowd sync.WaitGroup
	for range 4 {
		l := w.limiter(2, per)
		for range 3 {
			crowd.Go(func() { assert.NoError(t, l.Wait(t.Context(), 1)) }) // ends with the grant
		}
	}
	crowd.Wait()
}

func TestMoreThanTheLimitIsRefusedAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l := w.limiter(3, time.Hour)
		require.ErrorIs(t, l.Wait(t.Context(), 4), fairsem.ErrExceedsLimit)
		_, err := l.Allow(t.Context(), 4)
		require.ErrorIs(t, err, fairsem.ErrExceedsLimit)
		w.take(l, 3)
	})
}

func TestLimiterAndSemaphoreCannotShareAName(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s, l := w.semaphore(), w.limiter(3, time.Hour)
		held := w.must(s.Acquire(t.Context(), 1))
		_, err := l.Allow(t.Context(), 1)
		require.ErrorContains(t, err, "the name is that of a semaphore")
		require.ErrorContains(t, err, "need names of their own")
		assert.NoError(t, held.Context().Err())
		w.release(held)
		other := w.beside("-rate")
		limiter := other.limiter(3, time.Hour)
		require.NoError(t, limiter.Wait(t.Context(), 1))
		_, err = other.semaphore().Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "the name is that of a rate limit")
		st := other.status(other.semaphore())
		assert.Equal(t, []any{int64(3), int64(1), time.Hour}, []any{st.Limit, st.Used, st.Window})
	})
}

func TestLimiterCanBePausedAndItsLimitSet(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l, s := w.limiter(2, time.Hour), w.semaphore()
		w.pin(s, 0)
		assert.False(t, w.allow(l, 1).Allowed)
		waits := make(chan error)
		go func() { waits <- l.Wait(t.Context(), 1) }() // ends with the pause
		w.eventually(func() bool { return w.status(s).Waiting == 1 }, "no call waits")
		require.NoError(t, s.SetLimit(t.Context(), 1))
		require.NoError(t, <-waits)
		assert.False(t, w.allow(l, 1).Allowed)
		require.NoError(t, s.ResetLimit(t.Context()))
		w.take(l, 1)
	})
}

func TestNewestWindowCounts(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		before := w.limiter(5, time.Hour)
		w.take(before, 1)
		after := w.limiter(3, time.Minute)
		w.take(after, 1)
		assert.Equal(t, int64(0), w.allow(before, 1).Remaining, "three units of the newer limit are used")
		assert.Equal(t, time.Minute, w.status(w.semaphore()).Window)
	})
}

func TestGrantCountsForTheWindowThatWasInForce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.take(w.limiter(2, time.Hour), 1)
		brief := w.limiter(2, 10*time.Millisecond)
		w.take(brief, 1)
		assert.Greater(t, w.allow(brief, 2).RetryAfter, 50*time.Minute, "the first grant counts for an hour in a shorter window")
		long := w.limiter(2, 2*time.Hour)
		w.eventually(func() bool { return w.allow(long, 1).Allowed }, "the second grant counts for longer than its window")
	})
}

func TestLimiterUsesCallOptionsForItsQueue(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l, s := w.limiter(1, time.Hour), w.semaphore()
		w.take(l, 1)
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error)
		go func() { waits <- l.Wait(ctx, 1) }() // ends with cancel
		w.eventually(func() bool { return w.status(s).Waiting == 1 }, "no call waits")
		require.ErrorIs(t, l.With(fairsem.CallOptions{MaxQueue: 1}).Wait(t.Context(), 1), fairsem.ErrQueueFull)
		cancel()
		require.ErrorIs(t, <-waits, context.Canceled)
	})
}

func TestLimiterRefusesInvalidInputBeforeAnyIO(t *testing.T) {
	t.Parallel()
	c := offlineClient(t)
	for _, per := range []time.Duration{0, -time.Second, 31*24*time.Hour + 1} {
		_, err := c.Limiter("name", 1, per)
		invalid(t, err, "window")
	}
	for _, limit := range []int64{0, -1, maxUnits + 1} {
		_, err := c.Limiter("name", limit, time.Second)
		invalid(t, err, `limiter "name": invalid argument: limit `)
	}
	_, err := c.Limiter("", 1, time.Second)
	invalid(t, err, "empty")
	for _, per := range []time.Duration{-1, 0, 60, time.Millisecond - 1, 31*24*time.Hour + 1} { // 60: seconds were meant
		_, err := c.Limiter("name", 1, per)
		invalid(t, err, "between 1ms and 744h0m0s")
	}
	l, err := c.Limiter("name", 1, time.Millisecond)
	require.NoError(t, err)
	invalid(t, l.Wait(t.Context(), 0), "weight")
	invalid(t, l.Wait(none, 1), "nil")
	_, err = l.Allow(t.Context(), -1)
	invalid(t, err, "weight")
	invalid(t, l.With(fairsem.CallOptions{NoRefresh: true}).Wait(t.Context(), 1), "NoRefresh")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, l.Wait(done, 1), context.Canceled)
	assert.Equal(t, "name", l.Name())
}

// A restart loses the grants. During the grace period nothing new is granted, so the limit holds for windows that are not longer.
func TestLimitHoldsAcrossARestartForWindowsUpToGrace(t *testing.T) {
	w, server := privately(t)
	opts := fairsem.Options{Grace: 2 * time.Second}
	l := w.limiterOf(w.clientOn(w.connect(), opts), 2, 2*time.Second)
	require.NoError(t, l.Wait(t.Context(), 2))
	began := time.Now()
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart())
	other := w.limiterOf(w.clientOn(w.connect(), opts), 2, 2*time.Second)
	require.True(t, w.allow(other, 1).Allowed)
	assert.GreaterOrEqual(t, time.Since(began), 2*time.Second)
}

// A caller that followed RetryAfter once retried without a pause, for ever.
func TestAllowWithoutAnAnswerIsNoRefusal(t *testing.T) {
	w := onRedis(t)
	cutOff, proxy := w.network()
	l := w.limiterOf(cutOff, 1, time.Minute).With(fairsem.CallOptions{MaxWait: 10 * time.Millisecond})
	proxy.Hold()
	_, err := l.Allow(t.Context(), 1)
	assert.ErrorIs(t, err, fairsem.ErrUnavailable)
	proxy.Resume()
}

// The forecast was once that of a call at the end of the queue.
func TestWaitWithAHeadStartIsNotRefusedBecauseOfWaitersThatItOvertakes(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l, s := w.limiter(1, 2*time.Second), w.semaphore()
		w.take(l, 1)
		ctx, cancel := context.WithCancel(t.Context())
		var crowd sync.WaitGroup
		for range 50 {
			crowd.Go(func() { _ = l.Wait(ctx, 1) }) // ends with ctx
		}
		w.eventually(func() bool { return w.status(s).Waiting > 40 }, "they do not wait")
		assert.NoError(t, l.With(fairsem.CallOptions{HeadStart: time.Hour, MaxWait: time.Minute}).Wait(t.Context(), 1))
		cancel()
		crowd.Wait()
	})
}

// All of a burst were told the turn of the first, and waited in vain, in the way of others.
func TestWaitsOfABurstQueueOnlyIfTheirTurnsComeInTime(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l := w.limiter(1, time.Hour)
		w.take(l, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		patient := l.With(fairsem.CallOptions{MaxWait: 150 * time.Minute})
		outcomes := make(chan error)
		for range 20 {
			go func() { outcomes <- patient.Wait(ctx, 1) }() // ends with ctx
		}
		for range 18 { // otherwise the test hangs
			var known *fairsem.WaitError
			require.ErrorAs(t, <-outcomes, &known)
			assert.Greater(t, known.RetryAfter, 170*time.Minute)
		}
		assert.Equal(t, int64(2), w.status(w.semaphore()).Waiting, "those whose turns come in one and in two hours")
		cancel()
		for range 2 {
			require.ErrorIs(t, <-outcomes, context.Canceled)
		}
	})
}

// It once waited for a unit to become free, an hour here.
func TestAllowInAGracePeriodWaitsForItsEndOnly(t *testing.T) {
	w := onRedis(t)
	w.ttl = time.Hour
	l := w.limiterOf(w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Grace: 100 * time.Millisecond}), 1, time.Hour)
	w.take(l, 1)
	require.NoError(t, w.rdb.HSet(t.Context(), w.key("meta"), "server", "of a server before").Err())
	d := w.allow(l, 1) // otherwise the test hangs
	assert.False(t, d.Allowed)
	assert.Greater(t, d.RetryAfter, 50*time.Minute)
}

// Such a call was told when the next grant expires, and waited in vain.
func TestWaitOfATenantFailsAtOnceIfItsOwnWaitersTakeLonger(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		for _, o := range []fairsem.CallOptions{{Tenant: "a"}, {Tenant: "a", TenantLimit: 2}} {
			limit := int64(2)
			if o.TenantLimit > 0 {
				limit = 100
			}
			l, s := w.limiter(limit, time.Hour).With(o), w.semaphore()
			w.take(l, 2)
			ctx, cancel := context.WithCancel(t.Context())
			var crowd sync.WaitGroup
			for range 5 {
				crowd.Go(func() { _ = l.Wait(ctx, 1) }) // ends with ctx
			}
			w.eventually(func() bool { return w.status(s).Waiting == 5 }, "they do not wait")
			d := w.allow(l, 1)
			assert.False(t, d.Allowed)
			require.Greater(t, d.RetryAfter, 170*time.Minute, "two units an hour, and it is the sixth")
			o.MaxWait = 160 * time.Minute
			var known *fairsem.WaitError
			require.ErrorAs(t, l.With(o).Wait(t.Context(), 1), &known)
			assert.Greater(t, known.RetryAfter, o.MaxWait)
			cancel()
			crowd.Wait()
			w = w.beside("-limited")
		}
	})
}

func TestLimiterReturnsWhatItsHandleDeclares(t *testing.T) {
	t.Parallel()
	c := fairsemtest.NewServer(t).Client(fairsem.Options{})
	l, err := c.Limiter("searches", 100, 1500*time.Microsecond)
	require.NoError(t, err)
	for _, handle := range []*fairsem.Limiter{l, l.With(fairsem.CallOptions{MaxQueue: 1})} {
		limit, per := handle.Declared()
		assert.Equal(t, int64(100), limit)
		assert.Equal(t, 2*time.Millisecond, per, "rounded up")
	}
	for _, nothing := range []*fairsem.Limiter{nil, {}} {
		limit, per := nothing.Declared()
		assert.Zero(t, limit)
		assert.Zero(t, per)
	}
}
