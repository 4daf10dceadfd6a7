package worldtest

import (
	"math"
	"runtime"
	"slices"
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

// Allocations returns how many allocations f makes beside a pair of acquire and release. Other allocations meanwhile, such as
// those of renewals and of pools of memory that a collection emptied, come to both alike: each round counts one after the other.
func (c *Cost) Allocations(t testing.TB, f func()) float64 {
	t.Helper()
	pair := func() {
		p, err := c.Limit.Acquire(t.Context(), 1)
		require.NoError(t, err)
		held.Release(p)
	}
	rounds := make([]float64, 9)
	for i := range rounds {
		rounds[i] = c.count(f) - c.count(pair)
	}
	slices.Sort(rounds)
	return math.Round(rounds[len(rounds)/2]) // the rest of other allocations is less than half a one
}

// count returns how many allocations f makes until its permit is released, so that no release shares a batch with the next acquire. It
// is not rounded, as testing.AllocsPerRun would: half an allocation of others may not count as one of f.
func (c *Cost) count(f func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const runs = 50
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
		<-c.released
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs
}
