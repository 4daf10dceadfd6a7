package fairsem_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// A server that may have lost state grants nothing new until the grace period has ended, whatever the first call is.

// Guards against calls that declare no limit: they once expired the holder of an old file and granted its unit to the waiter,
// before any client could restore its permit. Every dashboard makes such calls.
func TestNothingIsGrantedBesideAHolderBecauseAnOperatorCallsFirst(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(ctx context.Context, s *fairsem.Semaphore) error{
		"status": func(ctx context.Context, s *fairsem.Semaphore) error { _, err := s.Status(ctx); return err },
		"resize": func(ctx context.Context, s *fairsem.Semaphore) error { return s.SetLimit(ctx, 1) },
		"unpin":  func(ctx context.Context, s *fairsem.Semaphore) error { return s.ResetLimit(ctx) },
		"evict":  func(ctx context.Context, s *fairsem.Semaphore) error { _ = s.Evict(ctx, "nobody:1"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w, server := privately(t)
			proxy := redistest.NewProxy(t, server.Addr())
			opts := fairsem.Options{TTL: w.ttl, Grace: 5 * time.Second} // the time to restore both in, on a busy machine too
			holder := w.of(w.clientOn(w.through(proxy), opts), 1)
			waiter := w.of(w.clientOn(w.through(proxy), opts), 1)
			operator := w.of(w.clientOn(w.connect(), opts), 1)
			p := w.must(holder.Acquire(t.Context(), 1))
			next := w.queue(t.Context(), waiter, 1)

			// The worst file: when the server starts again, the holder's lease has expired, and the waiter's has not.
			proxy.Hold() // no other call arrives, and nothing is restored, before the operator calls
			require.NoError(t, w.rdb.ZAdd(t.Context(), w.key("timeout"), redis.Z{Score: 1, Member: p.ID()}).Err())
			require.NoError(t, w.rdb.Save(t.Context()).Err())
			restart(t, server)
			require.NoError(t, ask(t.Context(), operator))
			assert.Empty(t, slices.DeleteFunc(slices.Collect(maps.Keys(w.holders(operator))), func(id string) bool { return id == p.ID() }),
				"a permit was granted beside the holder's")
			proxy.Resume()

			w.eventually(func() bool {
				return !next.waits() || maps.Equal(tokens(p), w.holders(operator)) && w.status(operator).Waiting == 1
			}, "not all is restored")
			require.True(t, next.waits(), "two live permits for one unit")
			require.NoError(t, p.Context().Err())
			w.release(p)
			w.release(w.granted(next))
			if name == "resize" {
				require.NoError(t, operator.ResetLimit(t.Context()))
			}
		})
	}
}

// switched is a client whose connections go to the target of a switch, like a client that follows the primary.
type switched struct {
	target atomic.Pointer[string] // nil: to no server
}

func (s *switched) to(server *redistest.Server) {
	addr := server.Addr()
	s.target.Store(&addr)
}

func (s *switched) client(w *world) redis.UniversalClient {
	return w.open(func(testing.TB) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			addr := s.target.Load()
			if addr == nil {
				return nil, net.ErrClosed
			}
			var d net.Dialer
			return d.DialContext(ctx, network, *addr)
		}})
	})
}

// pair is a primary and its replica, both started in the same second, so they have the same LASTSAVE.
func pair(t *testing.T) (a, b *redistest.Server) {
	t.Helper()
	for range 20 {
		a, b = redistest.NewServer(t), redistest.NewServer(t)
		if a.Client().LastSave(t.Context()).Val() == b.Client().LastSave(t.Context()).Val() {
			follow(t, b, a)
			return a, b
		}
	}
	require.Fail(t, "of 20 pairs none was started in one second")
	return nil, nil
}

// follow makes a server the replica of another one, and returns when it is in sync.
func follow(t *testing.T, replica, primary *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Client().ReplicaOf(t.Context(), host, port).Err())
	inStep := func() bool {
		info := replica.Client().InfoMap(t.Context(), "replication")
		return info.Item("Replication", "master_link_status") == "up"
	}
	require.Eventually(t, inStep, time.Minute, 5*time.Millisecond)
	n, err := primary.Client().Wait(t.Context(), 1, time.Minute).Result()
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}

func promote(t *testing.T, server *redistest.Server) {
	t.Helper()
	require.NoError(t, server.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// Guards against mistaking a server for the previous one because it was started in the same second, or because it was the primary
// before: an idle process that called it first was granted a unit beside a holder.
func TestNothingIsGrantedBesideAHolderAfterAFailoverThatAnIdleProcessDidNotSee(t *testing.T) {
	t.Parallel()
	for name, failOver := range map[string]func(t *testing.T, a, b *redistest.Server) (primary *redistest.Server){
		"to a replica that was started in the same second": func(t *testing.T, _, b *redistest.Server) *redistest.Server {
			promote(t, b)
			return b
		},
		"and back to the first": func(t *testing.T, a, b *redistest.Server) *redistest.Server {
			promote(t, b)
			follow(t, a, b)
			promote(t, a)
			follow(t, b, a)
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := pair(t)
			w := newWorld(t, func(testing.TB) redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: a.Addr()}) })
			require.NoError(t, a.AwaitAge(2))
			opts := fairsem.Options{TTL: time.Minute, Grace: 20 * time.Second} // ends early, by hand
			var busy, idle switched
			busy.to(a)
			idle.to(a)
			holder := w.of(w.clientOn(busy.client(w), opts), 2)
			other := w.of(w.clientOn(idle.client(w), opts), 2)
			first := w.of(w.clientOn(busy.client(w), fairsem.Options{TTL: time.Minute, Grace: time.Millisecond}), 2)
			keep := w.must(first.Acquire(t.Context(), 1)) // the name is known to both servers, and its grace period over
			_, err := other.TryAcquire(t.Context(), 2)    // and to both processes
			require.ErrorIs(t, err, fairsem.ErrNotAcquired)
			require.NoError(t, a.Client().Do(t.Context(), "wait", 1, 0).Err())

			promote(t, b) // the replica lacks the grants from here on
			p := w.must(holder.Acquire(t.Context(), 1))
			busy.target.Store(nil)
			for _, server := range []*redistest.Server{a, b} {
				for _, kind := range []string{"normal", "pubsub"} { // as Sentinel does
					require.NoError(t, server.Client().ClientKillByFilter(t.Context(), "TYPE", kind, "SKIPME", "yes").Err())
				}
			}
			primary := failOver(t, a, b)
			idle.to(primary)

			epoch := func() string { return primary.Client().HGet(t.Context(), w.key("meta"), "epoch").Val() }
			before := epoch()
			next := acquire(t.Context(), other, 1)
			w.eventually(func() bool { return !next.waits() || epoch() != before }, "it received no call")
			require.True(t, next.waits(), "two live permits for one unit")
			busy.to(primary)
			w.eventually(func() bool {
				return primary.Client().ZCard(t.Context(), w.key("owner")).Val() == 2
			}, "the holder is not restored")
			require.NoError(t, primary.Client().HSet(t.Context(), w.key("meta"), "quiet", 0).Err())
			require.True(t, next.waits(), "two live permits for one unit")
			require.NoError(t, p.Context().Err())
			w.release(p)
			w.release(w.granted(next))
			w.release(keep)
			require.NoError(t, a.Client().FlushAll(t.Context()).Err()) // if it is the old primary, it does not notice
		})
	}
}
