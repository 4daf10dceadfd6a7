package held

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

// In a goroutine of its own the release came after the next acquire of its caller, which found the unit in use.
func TestReleaseIsQueuedWhenItReturns(t *testing.T) {
	t.Parallel()
	s, err := fairsemtest.NewServer(t).Client(fairsem.Options{}).Semaphore("a", 100)
	require.NoError(t, err)
	for range 100 {
		p, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		Release(p)
		require.ErrorIs(t, p.Context().Err(), context.Canceled)
		assert.NoError(t, p.Release(t.Context()), "it is released once")
	}
}
