package fairsem_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// Each pair is an Acquire and a Release. BenchmarkTwoPings is the floor: two round trips, nothing done.
//
//	go test -run '^$' -bench . -count 6 . | tee new.txt && benchstat new.txt

func BenchmarkTwoPings(b *testing.B) {
	rdb := benchClient(b)
	for b.Loop() {
		rdb.Ping(b.Context())
		rdb.Ping(b.Context())
	}
}

func BenchmarkPairAlone(b *testing.B) {
	pair := pairs(b, 1<<40)
	b.ReportAllocs()
	for b.Loop() {
		pair(b.Context())
	}
}

func BenchmarkPair256Goroutines(b *testing.B) { parallelPairs(b, 1<<40, 256) }

func BenchmarkPairContendedLimit4(b *testing.B) { parallelPairs(b, 4, 64) }

func parallelPairs(b *testing.B, limit int64, goroutines int) {
	pair := pairs(b, limit)
	b.ReportAllocs()
	b.SetParallelism(goroutines / 2) // times GOMAXPROCS, which is 2 where this was written
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			pair(b.Context())
		}
	})
}

// pairs returns a function that acquires and releases one unit.
func pairs(b *testing.B, limit int64) func(context.Context) {
	c, err := fairsem.New(benchClient(b), fairsem.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	s, err := c.Semaphore(b.Name(), limit)
	if err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context) {
		p, err := s.Acquire(ctx, 1)
		if err == nil {
			err = p.Release(ctx)
		}
		if err != nil {
			b.Error(err)
		}
	}
}

func benchClient(b *testing.B) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.SharedServer(b).Addr()})
	b.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
