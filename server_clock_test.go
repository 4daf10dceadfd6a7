package fairsem_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/testclient"
)

// clockWorld is a world in a bubble, on a server whose clock can be stepped.
type clockWorld struct {
	*world
	ahead *atomic.Int64 // of the clock of the processes
}

func withAClock(t *testing.T, test func(t *testing.T, w clockWorld)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		first, err := m.Dial() // starts the server
		require.NoError(t, err)
		require.NoError(t, first.Close())
		t.Cleanup(m.Close)
		ahead := new(atomic.Int64)
		m.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
			if cmd == "EVAL" || cmd == "EVALSHA" { // not the commands that they call
				m.SetTime(time.Now().Add(time.Duration(ahead.Load())))
			}
			return false
		})
		w := newWorld(t, func(testing.TB) redis.UniversalClient {
			return redis.NewClient(&redis.Options{
				Dialer:                   func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
				PoolSize:                 100, // a call that waits for a connection uses a timer from outside of the bubble
				DisableIdentity:          true,
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			})
		})
		test(t, clockWorld{w, ahead})
	})
}

func (w clockWorld) step(d time.Duration) { w.ahead.Add(int64(d)) }

// A head start is a duration: if the clock is stepped back by an hour, it must not grow by that hour.
func TestHeadStartIsNoLongerAfterTheClockWasSteppedBack(t *testing.T) {
	withAClock(t, func(t *testing.T, w clockWorld) {
		holder := w.must(w.semaphore().Acquire(t.Context(), 1))
		w.step(-time.Hour)
		plain := w.queue(t.Context(), w.semaphore(), 1)
		time.Sleep(time.Minute)
		hurried := w.queue(t.Context(), w.semaphore().With(fairsem.CallOptions{HeadStart: 10 * time.Second}), 1)
		first := w.queue(t.Context(), w.semaphore().With(fairsem.CallOptions{HeadStart: 2 * time.Minute}), 1)
		w.release(holder)
		for _, c := range []*call{first, plain, hurried} {
			w.release(w.granted(c))
		}
	})
}

func TestNewestLimitCountsAtOnceAfterTheClockWasSteppedBack(t *testing.T) {
	withAClock(t, func(t *testing.T, w clockWorld) {
		w.release(w.must(w.of(w.client(), 2).Acquire(t.Context(), 1)))
		w.step(-time.Hour)
		newer := w.of(w.client(), 7)
		w.release(w.must(newer.Acquire(t.Context(), 1)))
		assert.Equal(t, int64(7), w.status(newer).Limit)
	})
}

// A client took its first call for answered when it was made. So what it declared of a tenant later counted as newer by what that took, and
// repeating it replaced what others had declared meanwhile.
func TestDeclarationsOfATenantAreInOrderHoweverLongAClientTookToConnect(t *testing.T) {
	withAClock(t, func(t *testing.T, w clockWorld) {
		w.limit = 3
		rdb := w.connect().(*redis.Client)
		rdb.AddHook(slowDial{})
		slow, other := w.of(w.clientOn(rdb, fairsem.Options{TTL: w.ttl}), w.limit), w.semaphore()
		w.release(w.must(slow.Acquire(t.Context(), 1)))
		for _, d := range []struct {
			by          *fairsem.Semaphore
			limit, want int64
		}{{slow, 1, 1}, {other, 2, 2}, {slow, 1, 2}, {slow, 3, 3}, {other, 2, 3}, {other, 1, 1}, {slow, 3, 1}} {
			time.Sleep(time.Millisecond)
			p := w.must(as(d.by, "x", tenantLimit(d.limit)).Acquire(t.Context(), 1))
			for tenant, err := range other.Tenants(t.Context()) {
				require.NoError(t, err)
				assert.Equal(t, d.want, tenant.Limit, "%+v", d)
			}
			w.release(p)
		}
	})
}

// slowDial makes connecting take a second.
type slowDial struct{ testclient.Hook }

func (slowDial) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		time.Sleep(time.Second)
		return next(ctx, network, addr)
	}
}

// How large a step forward a lease survives. The margin is a tenth of a TTL; two thirds remain when a renewal is due.
func TestClockSteppedForwardGrantsNothingBesideAHolderUnless(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	for name, c := range map[string]struct {
		step    time.Duration
		renews  bool
		beside  bool // whether another call is granted while the context of the holder is live
		outlast bool // whether the holder keeps its permit
	}{
		"it does not renew, and the step is a tenth of its TTL":           {step: ttl/10 - time.Millisecond},
		"it does not renew, and the step is more than that":               {step: ttl/10 + 5*time.Millisecond, beside: true},
		"it renews, and the step is nearly two thirds of its TTL":         {step: 2*ttl/3 - 5*time.Millisecond, renews: true, outlast: true},
		"it renews, and the step is more than two thirds of its TTL":      {step: 2*ttl/3 + 5*time.Millisecond, renews: true, beside: true},
		"it does not renew, and the step is nearly two thirds of its TTL": {step: 2*ttl/3 - 5*time.Millisecond, beside: true},
	} {
		t.Run(name, func(t *testing.T) {
			withAClock(t, func(t *testing.T, w clockWorld) {
				w.ttl = ttl
				rival := w.semaphore()
				p := w.must(w.semaphore().With(fairsem.CallOptions{NoRefresh: !c.renews}).Acquire(t.Context(), 1))
				time.Sleep(ttl/3 - 3*time.Millisecond) // a renewal is about to be due
				w.step(c.step)
				for end := time.Now().Add(2 * ttl); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
					got, err := rival.TryAcquire(t.Context(), 1)
					if err != nil {
						require.ErrorIs(t, err, fairsem.ErrNotAcquired)
						continue
					}
					assert.Equal(t, c.beside, p.Context().Err() == nil)
					w.release(got)
					break
				}
				time.Sleep(ttl)
				assert.Equal(t, c.outlast, p.Context().Err() == nil)
				if c.outlast {
					w.release(p)
				}
			})
		})
	}
}

// If a change was in flight for too long, it is refused, because a later one may have been forgotten. So it is sent again.
func TestSetLimitThatArrivesTooLateIsSentAgain(t *testing.T) {
	withAClock(t, func(t *testing.T, w clockWorld) {
		rdb, scripts := w.connect(), 0
		rdb.AddHook(&afterScripts{then: func([][]any) bool {
			if scripts++; scripts == 1 {
				w.step(11 * time.Second)
			}
			return false
		}})
		s := w.of(w.clientOn(rdb, fairsem.Options{}), 1)
		w.pin(s, 3)
		assert.Equal(t, 4, scripts, "two queries of the time, each with a change")
		assert.Equal(t, int64(3), w.status(s).Limit)
	})
}

func TestSetLimitThatAlwaysArrivesTooLateIsErrUnavailableAfterATTL(t *testing.T) {
	withAClock(t, func(t *testing.T, w clockWorld) {
		rdb := w.connect()
		rdb.AddHook(&afterScripts{then: func([][]any) bool {
			w.step(10 * time.Second)
			time.Sleep(time.Second)
			return false
		}})
		s := w.of(w.clientOn(rdb, fairsem.Options{TTL: 10 * time.Second}), 1)
		began := time.Now()
		assert.ErrorIs(t, s.SetLimit(t.Context(), 3), fairsem.ErrUnavailable)
		assert.Equal(t, 10*time.Second, time.Since(began))
		assert.False(t, w.status(s).Pinned)
	})
}

// Its epochs then decrease, so it seems to have been granted in a later one than the last in which it was confirmed.
func TestHolderOutlivesALossAfterTheClockWasPutRight(t *testing.T) {
	withAClock(t, func(t *testing.T, w clockWorld) {
		w.limit, w.ttl = 1, 30*time.Second
		w.step(time.Hour)
		p := w.must(w.semaphore().Acquire(t.Context(), 1))
		w.step(-time.Hour)
		time.Sleep(time.Minute)
		require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
		time.Sleep(w.ttl)
		require.NoError(t, p.Context().Err(), "nobody else has asked for anything")
		w.release(p)
	})
}

// What is left does not conflict with what was granted since.
func TestReleaseOfWhatIsLeftOfAllUnitsIsNoLossAfterAnotherGrant(t *testing.T) {
	withAClock(t, func(t *testing.T, w clockWorld) {
		w.ttl = time.Minute
		sem, err := w.client().Weighted(w.name, 4)
		require.NoError(t, err)
		var lost atomic.Int64
		sem.OnLost(func(n int64, _ error) { lost.Add(n) })
		require.NoError(t, sem.Acquire(t.Context(), 4))
		sem.Release(3)
		time.Sleep(time.Second)
		require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
		q := w.must(w.of(w.client(), 4).Acquire(t.Context(), 1))
		sem.Release(1)
		time.Sleep(time.Second)
		assert.Zero(t, lost.Load())
		w.release(q)
	})
}
