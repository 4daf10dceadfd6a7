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
