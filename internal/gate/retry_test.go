package gate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
	"github.com/fairsem/fairsem/internal/held"
)

// A second would have clients of a slow rate come back in vain for an hour.
func TestRetryAfterAFullQueueOfALimiterIsWhatTheRateTakesForIt(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]time.Duration{60: 2 * time.Minute, 1: time.Hour, 3600 * 60: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			limiter, err := fairsemtest.NewServer(t).Client(fairsem.Options{TTL: time.Hour}).Limiter("a", limit, time.Hour)
			require.NoError(t, err)
			require.NoError(t, limiter.Wait(t.Context(), limit))
			ctx, cancel := context.WithCancel(t.Context())
			waits := make(chan error)
			go func() { waits <- limiter.Wait(ctx, 1) }() // ends with ctx
			synctest.Wait()
			err = limiter.With(fairsem.CallOptions{MaxQueue: 1}).Wait(t.Context(), 1)
			require.ErrorIs(t, err, fairsem.ErrQueueFull)
			assert.Equal(t, want, RetryAfter(t.Context(), limiter, err), "%d an hour", limit)
			cancel()
			assert.ErrorIs(t, <-waits, context.Canceled)
		})
	}
}

// Nothing is granted until somebody ends the pause. After a second all clients would be back at once, every second.
func TestRetryAfterARefusalByAPausedLimitIsTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for kind, limit := range limits(t, fairsemtest.NewServer(t).Client(fairsem.Options{})) {
			paused := limit.(interface {
				SetLimit(ctx context.Context, limit int64) error
			})
			require.NoError(t, paused.SetLimit(t.Context(), 0))
			g := Gate[string, Limit]{Who: "fairsemx.New", Limit: limit, MaxWait: time.Second}
			_, err := g.Lend(t.Context(), new(held.Loan), "")
			require.ErrorIs(t, err, fairsem.ErrNotAcquired, kind)
			assert.Equal(t, 10*time.Second, RetryAfter(t.Context(), limit, err), kind)
		}
	})
}
