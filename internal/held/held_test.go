package held

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

// In a goroutine of its own the release came after the next acquire of its caller, which found the unit in use.
func TestReleaseIsQueuedWhenItReturns(t *testing.T) {
	t.Parallel()
	s, err := fairsemtest.NewServer(t).Client(fairsem.Options{}).Semaphore("a", 1)
	require.NoError(t, err)
	const rounds = 100
	refused := 0
	for range rounds {
		p, err := s.TryAcquire(t.Context(), 1)
		if errors.Is(err, fairsem.ErrNotAcquired) { // of two batches in flight the second can arrive first, but seldom does
			refused++
			p, err = s.Acquire(t.Context(), 1)
		}
		require.NoError(t, err)
		Release(p)
		require.ErrorIs(t, p.Context().Err(), context.Canceled)
	}
	require.Less(t, refused, rounds/2)
}

// The context of a request ended when its handler closed the connection that it had taken over, and with it what came after.
func TestScopeEndsWithALossOrTheClientAndNotWithARelease(t *testing.T) {
	t.Parallel()
	client := fairsemtest.NewServer(t).Client(fairsem.Options{})
	s, err := client.Semaphore("a", 1)
	require.NoError(t, err)
	for _, c := range []struct {
		end  func(p *fairsem.Permit) error
		want error
	}{
		{func(p *fairsem.Permit) error { return p.Release(t.Context()) }, nil},
		{func(p *fairsem.Permit) error { return s.Evict(t.Context(), p.ID()) }, fairsem.ErrLost},
		{func(*fairsem.Permit) error { return client.Close() }, fairsem.ErrClosed},
	} {
		p, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		var scope Scope
		scope.Begin(t.Context())
		scope.Bind(p)
		require.NoError(t, c.end(p))
		if c.want == nil {
			require.NoError(t, scope.Err())
		} else {
			<-scope.Done()
			require.ErrorIs(t, context.Cause(&scope), c.want)
		}
		scope.End()
		require.ErrorIs(t, scope.Err(), context.Canceled)
	}
}
