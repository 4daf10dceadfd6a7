package fairsem_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// inspects are the methods of Inspector, which every handle has.
type inspects interface {
	Name() string
	Status(ctx context.Context) (fairsem.Status, error)
	SetLimit(ctx context.Context, limit int64) error
	ResetLimit(ctx context.Context) error
	Evict(ctx context.Context, id string) error
}

func TestEveryHandleShowsAndSetsItsOwnLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c := w.client()
		lock, err := c.Mutex(w.beside("m").name)
		require.NoError(t, err)
		shared, err := c.RWMutex(w.beside("rw").name)
		require.NoError(t, err)
		rate, err := c.Limiter(w.beside("l").name, 7, time.Minute)
		require.NoError(t, err)
		weighted, err := c.Weighted(w.beside("w").name, 5)
		require.NoError(t, err)
		sem, err := c.Semaphore(w.beside("s").name, 3)
		require.NoError(t, err)
		for _, one := range []struct {
			inspects
			limit, window int64
		}{
			{lock, 1, 0}, {shared, 1_000_000_000, 0}, {rate, 7, 60}, {weighted, 5, 0}, {sem, 3, 0},
			{lock.With(fairsem.CallOptions{MaxQueue: 1}), 1, 0}, {rate.With(fairsem.CallOptions{MaxQueue: 1}), 7, 60},
		} {
			s, err := one.Status(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []any{one.limit, one.limit, time.Duration(one.window) * time.Second}, []any{s.Limit, s.Declared, s.Window})
			require.NoError(t, one.SetLimit(t.Context(), 2))
			s, err = c.Inspect(one.Name()).Status(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []any{int64(2), int64(0), true}, []any{s.Limit, s.Declared, s.Pinned}, "an Inspector declares nothing")
			require.NoError(t, one.ResetLimit(t.Context()))
			assert.ErrorIs(t, one.Evict(t.Context(), "nobody:1"), fairsem.ErrNotFound)
		}
	})
}

func TestInspectorShowsALockThatAnotherProcessHolds(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		lock, err := w.client().Mutex(w.name)
		require.NoError(t, err)
		held, err := lock.Lock(t.Context())
		require.NoError(t, err)
		there := w.client().Inspect(w.name)
		s, err := there.Status(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []int64{1, 1, 1}, []int64{s.Limit, s.Declared, s.Used})
		for h, err := range there.Holders(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, held.ID(), h.ID)
		}
		require.NoError(t, there.SetLimit(t.Context(), 0))
		w.release(held)
		_, err = lock.TryLock(t.Context())
		require.ErrorIs(t, err, fairsem.ErrNotAcquired, "it is paused")
		require.NoError(t, there.ResetLimit(t.Context()))
		held, err = lock.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, there.Evict(t.Context(), held.ID()))
		<-held.Context().Done()
		assert.ErrorIs(t, context.Cause(held.Context()), fairsem.ErrEvicted)
	})
}

// An Inspector does not know the limit of its name, so it must not grant anything under a wrong one. It leaves nothing behind.
func TestInspectorOfANameThatIsNotInUseShowsNothingAndLeavesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		there := w.client().Inspect(w.name)
		s, err := there.Status(t.Context())
		require.NoError(t, err)
		assert.Equal(t, fairsem.Status{Name: w.name, At: s.At}, s)
		for _, err := range there.Holders(t.Context()) {
			t.Error("there is a holder", err)
		}
		for _, err := range there.Waiters(t.Context()) {
			t.Error("there is a waiter", err)
		}
		assert.ErrorIs(t, there.Evict(t.Context(), "nobody:1"), fairsem.ErrNotFound)
		keys, err := w.rdb.Keys(t.Context(), "*{"+w.name+"}*").Result()
		require.NoError(t, err)
		assert.Empty(t, keys)
	})
}

func TestInspectorOfAnInvalidNameOrWithoutAClientIsErrInvalidBeforeAnyIO(t *testing.T) {
	t.Parallel()
	client := offlineClient(t)
	for _, there := range []*fairsem.Inspector{nil, {}, client.Inspect(""), client.Inspect("}"), new(fairsem.Semaphore).Inspector, new(fairsem.Mutex).Inspector} {
		_, err := there.Status(t.Context())
		assert.ErrorIs(t, err, fairsem.ErrInvalid)
		assert.ErrorIs(t, there.SetLimit(t.Context(), 1), fairsem.ErrInvalid)
		assert.ErrorIs(t, there.ResetLimit(t.Context()), fairsem.ErrInvalid)
		assert.ErrorIs(t, there.Evict(t.Context(), "a:1"), fairsem.ErrInvalid)
		assert.ErrorIs(t, firstError(there.Holders(t.Context())), fairsem.ErrInvalid)
		assert.ErrorIs(t, firstError(there.Waiters(t.Context())), fairsem.ErrInvalid)
		assert.ErrorIs(t, firstError(there.Tenants(t.Context())), fairsem.ErrInvalid)
		_, err = there.EvictedBy(t.Context(), "a:1")
		assert.ErrorIs(t, err, fairsem.ErrInvalid)
	}
}

func TestPaceOfAQueueIsKnownOnceAWaiterWasGranted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 1
		s := w.semaphore()
		began := time.Now() // on a server that has just started, the first call may wait, too
		held := w.must(s.Acquire(t.Context(), 1))
		next, last := w.queue(t.Context(), s, 1), w.queue(t.Context(), s, 1)
		w.release(held)
		held = w.granted(next)
		var st fairsem.Status // it takes a second to be known
		w.eventually(func() bool { st = w.status(s); return st.Pace > 0 }, "the pace is not known")
		assert.Greater(t, st.Pace, 0.9/time.Since(began).Seconds(), "the first grant took less time")
		wait, known := st.ExpectedWait()
		assert.True(t, known)
		assert.InEpsilon(t, 2/st.Pace, wait.Seconds(), 0.01, "one waiter is before it")
		w.release(held)
		w.release(w.granted(last))
		assert.Zero(t, w.status(s).Pace, "no call waits")
	})
}
