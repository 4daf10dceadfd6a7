package fairsem_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// What docs/upgrading.md says about versions that run at the same time.

// A later version that stores data differently records another layout. Earlier versions must neither read that data nor keep their
// permits.
func TestLaterLayoutEndsTheCallsOfAnOldProcessWithErrorsThatSayWhy(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = 3 * time.Second
		c, err := fairsem.New(w.connect(), fairsem.Options{TTL: w.ttl})
		require.NoError(t, err)
		t.Cleanup(func() {
			if err := c.Close(); err != nil { // a release that Redis refused for its layout may still be in flight
				assert.ErrorIs(t, err, fairsem.ErrUnavailable)
			}
		})
		s := w.of(c, w.limit)
		held := w.must(s.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), s, 1)
		require.NoError(t, w.rdb.HSet(t.Context(), w.key("meta"), "layout", 2).Err())

		_, err = s.TryAcquire(t.Context(), 1)
		require.ErrorContains(t, err, "FAIRSEMLAYOUT")
		assert.ErrorContains(t, err, "upgrade this one")
		assert.NotErrorIs(t, err, fairsem.ErrUnavailable, "the call fails at once")

		<-held.Context().Done()
		assert.ErrorIs(t, held.Release(t.Context()), fairsem.ErrLost)
		<-waiter.done
		assert.ErrorContains(t, waiter.err, "FAIRSEMLAYOUT")

		require.NoError(t, w.rdb.HSet(t.Context(), w.key("meta"), "layout", 1).Err())
		w.release(w.must(s.Acquire(t.Context(), 1)))
	})
}

// In a rolling update an old process that crashes and starts again declares its limit later than the new ones did.
func TestRestartedOldProcessRestoresItsLimitUnlessOneIsSetByHand(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		after := w.of(w.client(), 5)
		w.release(w.must(after.Acquire(t.Context(), 1)))
		before := w.of(w.client(), 2)
		w.release(w.must(before.Acquire(t.Context(), 1)))
		w.release(w.must(after.Acquire(t.Context(), 1)))
		assert.Equal(t, int64(2), w.status(after).Limit, "the newest declaration")

		require.NoError(t, after.SetLimit(t.Context(), 5))
		w.release(w.must(w.of(w.client(), 2).Acquire(t.Context(), 1)))
		assert.Equal(t, int64(5), w.status(after).Limit, "the limit set by hand")
		require.NoError(t, after.ResetLimit(t.Context()))
	})
}
