package fairsem

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/semaphore"
)

// The cost of sharing a limit between processes: the benchmarks of x/sync with its own semaphore and with Weighted, in one run.

type weightedSemaphore interface {
	Acquire(ctx context.Context, n int64) error
	TryAcquire(n int64) bool
	Release(n int64)
}

// compareWeighted runs a benchmark on both semaphores.
func compareWeighted(b *testing.B, name string, size int64, bench func(b *testing.B, sem weightedSemaphore)) {
	b.Run(name+"/x-sync", func(b *testing.B) {
		b.ReportAllocs()
		bench(b, semaphore.NewWeighted(size))
	})
	b.Run(name+"/fairsem", func(b *testing.B) {
		sem, err := benchClient(b).Weighted(b.Name(), size)
		if err != nil {
			b.Fatal(err)
		}
		mustAcquire(b, sem, 1) // a server that was just started delays the first call
		sem.Release(1)
		b.ReportAllocs()
		report := server(b)
		b.ResetTimer()
		bench(b, sem)
		report()
	})
}

func mustAcquire(b *testing.B, sem weightedSemaphore, n int64) {
	if err := sem.Acquire(context.Background(), n); err != nil {
		b.Error(err)
	}
}

// An operation is that many acquires of n units, and then as many releases.
func BenchmarkWeightedAlone(b *testing.B) {
	for _, shape := range []struct {
		size, n int64
		times   int
	}{{1, 1, 1}, {128, 1, 1}, {2, 2, 1}, {2, 1, 2}, {16, 2, 8}, {128, 64, 2}, {128, 2, 64}} {
		rounds := func(acquire func(b *testing.B, sem weightedSemaphore)) func(*testing.B, weightedSemaphore) {
			return func(b *testing.B, sem weightedSemaphore) {
				for b.Loop() {
					for range shape.times {
						acquire(b, sem)
					}
					for range shape.times {
						sem.Release(shape.n)
					}
				}
			}
		}
		name := fmt.Sprintf("%d-%d-%d", shape.size, shape.n, shape.times)
		compareWeighted(b, "acquire-"+name, shape.size, rounds(func(b *testing.B, sem weightedSemaphore) {
			mustAcquire(b, sem, shape.n)
		}))
		compareWeighted(b, "tryAcquire-"+name, shape.size, rounds(func(b *testing.B, sem weightedSemaphore) {
			if !sem.TryAcquire(shape.n) {
				b.Error("it is not free")
			}
		}))
	}
}

// One acquire of sixteen units that are released one by one: fifteen parts and the last.
func BenchmarkWeightedInParts(b *testing.B) {
	compareWeighted(b, "acquire-16-release-1", 16, func(b *testing.B, sem weightedSemaphore) {
		for b.Loop() {
			mustAcquire(b, sem, 16)
			for range 16 {
				sem.Release(1)
			}
		}
	})
}

// That many goroutines each acquire one unit and release it.
func BenchmarkWeightedContended(b *testing.B) {
	for _, shape := range []struct {
		size       int64
		goroutines int
	}{{1, 8}, {4, 64}, {128, 64}, {1024, 256}} {
		name := fmt.Sprintf("%d-of-%d", shape.goroutines, shape.size)
		compareWeighted(b, name, shape.size, func(b *testing.B, sem weightedSemaphore) {
			var all sync.WaitGroup
			for i := range shape.goroutines {
				all.Go(func() {
					for range (b.N + i) / shape.goroutines {
						mustAcquire(b, sem, 1)
						sem.Release(1)
					}
				})
			}
			all.Wait()
		})
	}
}
