package worldtest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
	"github.com/fairsem/fairsem/internal/redistest"
)

// Unreached returns a limit that is never reached, with an observer.
func Unreached(t testing.TB, observer fairsem.Observer) *fairsem.Semaphore {
	t.Helper()
	server := redistest.SharedServer(t)
	require.NoError(t, server.AwaitAge(2))
	s, err := newClient(t, server.Addr(), fairsem.Options{Observer: observer}).Semaphore(t.Name(), 1_000_000)
	require.NoError(t, err)
	return s
}

// BenchmarkPair measures a pair of acquire and release, with which the cost of a limit is compared.
func BenchmarkPair(b *testing.B, s *fairsem.Semaphore) {
	b.ReportAllocs()
	for b.Loop() {
		p, err := s.Acquire(b.Context(), 1)
		require.NoError(b, err)
		_ = p.Release(b.Context())
	}
}

// Cost counts allocations.
type Cost struct {
	Limit    *fairsem.Semaphore // never reached
	released chan struct{}
}

// NewCost returns a Cost with a limit of its own.
func NewCost(t testing.TB) *Cost {
	t.Helper()
	c := &Cost{released: make(chan struct{}, 1)}
	c.Limit = Unreached(t, func(e fairsem.Event) {
		if _, ok := e.(fairsem.ReleasedEvent); ok {
			c.released <- struct{}{}
		}
	})
	return c
}

// Allocations counts what f allocates until its permit is released, so that no release shares a batch with the next acquire. What
// others allocate meanwhile, such as renewals, only adds to it.
func (c *Cost) Allocations(f func()) float64 {
	least := math.Inf(1)
	for range 4 {
		least = min(least, testing.AllocsPerRun(50, func() {
			f()
			<-c.released
		}))
	}
	return least
}

// Pair counts those of a pair of acquire and release.
func (c *Cost) Pair(t testing.TB) float64 {
	t.Helper()
	return c.Allocations(func() {
		p, err := c.Limit.Acquire(t.Context(), 1)
		require.NoError(t, err)
		held.Release(p)
	})
}
