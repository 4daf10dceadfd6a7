package fairsem

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The paths of bench_test.go where calls name a tenant, beside the same without.

func BenchmarkTenantPairAlone(b *testing.B) {
	for _, tenant := range []string{"", "customer-1"} {
		b.Run(fmt.Sprintf("tenant=%q", tenant), func(b *testing.B) {
			s := benchSemaphore(b, b.Name(), ample).With(CallOptions{Tenant: tenant})
			b.ReportAllocs()
			defer server(b)()
			for b.Loop() {
				pair(b, s)
			}
		})
	}
}

// 64 callers, each of whose calls is on the account of the next tenant.
func BenchmarkTenantsContendedLimit4(b *testing.B) {
	for _, tenants := range []int{0, 2, 1000, 100_000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			s := benchSemaphore(b, b.Name(), 4)
			handles := []*Semaphore{s}
			if tenants > 0 {
				handles = nil
			}
			for n := range tenants {
				handles = append(handles, s.With(CallOptions{Tenant: fmt.Sprint("customer-", n)}))
			}
			next := make([]int, 64)
			share(b, 64, func(worker int) {
				next[worker]++
				pair(b, handles[(worker*7919+next[worker])%len(handles)])
			})
		})
	}
}

// The parts that tenants with a backlog get of 12 units, with jobs of 5 ms and of 500 ms mixed: the largest part by which one differs from
// its share, and Jain's index of what each has per unit of its share. Each run takes 15 s.
func BenchmarkSharesOfTenants(b *testing.B) {
	for _, shares := range [][]int64{{1, 1}, {1, 1, 1}, {1, 1, 1, 1}, {1, 2}, {1, 2, 3}} {
		b.Run(strings.Trim(strings.ReplaceAll(fmt.Sprint(shares), " ", ":"), "[]"), func(b *testing.B) {
			s := benchSemaphore(b, b.Name(), 12)
			for b.Loop() {
				off, jain := unitSeconds(b, s, shares)
				b.ReportMetric(100*off, "%off")
				b.ReportMetric(jain, "jain")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// unitSeconds has tenants work for a while, and compares the unit-seconds of each.
func unitSeconds(b *testing.B, s *Semaphore, shares []int64) (off, jain float64) {
	ctx, cancel := context.WithTimeout(b.Context(), 15*time.Second)
	defer cancel()
	held, sum := make([]atomic.Int64, len(shares)), int64(0)
	var all sync.WaitGroup
	for i, share := range shares {
		sum += share
		tenant := s.With(CallOptions{Tenant: fmt.Sprint("tenant-", i), Share: share})
		for worker := range 24 {
			all.Go(func() {
				for n := worker; ctx.Err() == nil; n++ {
					job := 5 * time.Millisecond
					if n%3 == i%3 { // long jobs, not the same number for each tenant
						job = 500 * time.Millisecond
					}
					held[i].Add(int64(work(ctx, tenant, job)))
				}
			})
		}
	}
	all.Wait()
	var total, squares float64
	for i := range held {
		total += float64(held[i].Load())
	}
	var mean float64
	for i, share := range shares {
		part := float64(held[i].Load()) / total
		off = max(off, math.Abs(part*float64(sum)/float64(share)-1))
		mean += part / float64(share) / float64(len(shares))
		squares += math.Pow(part/float64(share), 2) / float64(len(shares))
	}
	return off, mean * mean / squares
}

// work does a job and returns how long it held its unit.
func work(ctx context.Context, s *Semaphore, job time.Duration) time.Duration {
	p, err := s.Acquire(ctx, 1)
	if err != nil {
		return 0
	}
	began := time.Now()
	select {
	case <-time.After(job):
	case <-ctx.Done():
	}
	_ = p.Release(background) // it is confirmed before the next run, or expires
	return time.Since(began)
}

// How long a tenant with a job now and then waits beside one with 10,000 waiting calls, beside how long it takes until any unit is
// released. Without tenants it waits for all of them.
func BenchmarkQuietTenantBesideALongQueue(b *testing.B) {
	s := benchSemaphore(b, b.Name(), 10)
	noisy, quiet := s.With(CallOptions{Tenant: "noisy"}), s.With(CallOptions{Tenant: "quiet"})
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	var last atomic.Int64 // when a unit was released last
	for range 10_000 {
		all.Go(func() {
			for ctx.Err() == nil {
				if work(ctx, noisy, 100*time.Millisecond) > 0 {
					last.Store(time.Now().UnixNano())
				}
			}
		})
	}
	awaitQueue(b, s, 9_000)
	var waits, releases []float64
	for b.Loop() {
		time.Sleep(100*time.Millisecond + rand.N(200*time.Millisecond)) // drawn: else all calls could come just before a release
		asked := time.Now()
		p, err := quiet.Acquire(b.Context(), 1)
		if err != nil {
			b.Fatal(err)
		}
		waits = append(waits, time.Since(asked).Seconds()*1000)
		releases = append(releases, float64(last.Load()-asked.UnixNano())/1e6)
		time.Sleep(5 * time.Millisecond)
		if err := p.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	all.Wait()
	slices.Sort(waits)
	slices.Sort(releases)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(waits[len(waits)/2], "p50-ms")
	b.ReportMetric(waits[len(waits)*99/100], "p99-ms")
	b.ReportMetric(releases[len(releases)*99/100], "p99-release-ms")
}

// The memory of a waiter in Redis, without a tenant, with one for all, and with one for each.
func BenchmarkMemoryOfAWaiterOfATenant(b *testing.B) {
	const waiters = 5000
	rdb := benchRedis(b)
	for name, tenantOf := range map[string]func(waiter int) string{
		"none":         func(int) string { return "" },
		"one_for_all":  func(int) string { return "customer-1" },
		"one_for_each": func(waiter int) string { return fmt.Sprint("customer-", waiter) },
	} {
		b.Run("tenants="+name, func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				s := benchSemaphore(b, b.Name(), 1)
				if _, err := s.Acquire(b.Context(), 1); err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				var all sync.WaitGroup
				for waiter := range waiters {
					own := s.With(CallOptions{Tenant: tenantOf(waiter)})
					all.Go(func() { _, _ = own.Acquire(ctx, 1) }) // ends with ctx
				}
				awaitQueue(b, s, waiters)
				for _, key := range s.client.keyspace.Keys(s.name) {
					bytes += float64(rdb.MemoryUsage(b.Context(), key, 0).Val()) / waiters // 0: count every element
				}
				cancel()
				all.Wait()
				if err := s.client.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(bytes/float64(b.N), "redis-B/waiter")
		})
	}
}
