package fairsem

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// The paths that the bench module compares with other libraries, on their own, for benchstat:
//
//	go test -run '^$' -bench . -count 6 . | tee new.txt && benchstat old.txt new.txt
//
// A pair is an Acquire and a Release. BenchmarkTwoPings is the floor: two round trips without any work. Besides the time,
// redis-us/op is all processor time of the server, script-us/op the part inside scripts, and calls/op the number of
// script calls. On a noisy machine these are steadier than the time.

// server starts to measure the server. The returned function reports the cost of an operation there.
func server(b *testing.B) (report func()) {
	rdb := benchRedis(b)
	read := func() (cpu, calls, inside float64) {
		for line := range strings.Lines(rdb.Info(b.Context(), "cpu", "commandstats").Val()) {
			var seconds float64
			if n, _ := fmt.Sscanf(line, "used_cpu_user:%f", &seconds); n == 1 {
				cpu += 1e6 * seconds
			}
			if n, _ := fmt.Sscanf(line, "used_cpu_sys:%f", &seconds); n == 1 {
				cpu += 1e6 * seconds
			}
			_, _ = fmt.Sscanf(line, "cmdstat_evalsha:calls=%f,usec=%f", &calls, &inside)
		}
		return cpu, calls, inside
	}
	cpu, calls, inside := read()
	return func() {
		n := float64(b.N)
		cpuNow, callsNow, insideNow := read()
		b.ReportMetric((cpuNow-cpu)/n, "redis-us/op")
		b.ReportMetric((callsNow-calls)/n, "calls/op")
		b.ReportMetric((insideNow-inside)/n, "script-us/op")
	}
}

func BenchmarkTwoPings(b *testing.B) {
	rdb := benchRedis(b)
	defer server(b)()
	for b.Loop() {
		rdb.Ping(b.Context())
		rdb.Ping(b.Context())
	}
}

// Two scripts that do nothing: the cost of script calls as such.
func BenchmarkTwoEmptyScripts(b *testing.B) {
	rdb := benchRedis(b)
	empty := redis.NewScript("return {1, 2, 3}")
	if err := empty.Load(b.Context(), rdb).Err(); err != nil {
		b.Fatal(err)
	}
	keys := protocol.DefaultKeyspace.Keys(b.Name())
	defer server(b)()
	for b.Loop() {
		for range 2 {
			if err := empty.EvalSha(b.Context(), rdb, keys[:], idLike, protocol.DefaultKeyspace.WakePrefix(), ample, 1, 10000, 1000, idLike).Err(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

const ample = 1 << 40 // a limit that is never reached

func BenchmarkPairAlone(b *testing.B) { pairsAlone(b, CallOptions{}) }

func pairsAlone(b *testing.B, o CallOptions) {
	b.Helper()
	s := benchSemaphore(b, b.Name(), ample).With(o)
	b.ReportAllocs()
	defer server(b)()
	for b.Loop() {
		pair(b, s)
	}
}

// The cost for a holder that checks its context before each step of its work.
func BenchmarkPermitContextErr(b *testing.B) {
	p, err := benchSemaphore(b, b.Name(), ample).Acquire(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
	ctx := p.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := ctx.Err(); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Release(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkPair256Goroutines(b *testing.B) { parallelPairs(b, 256, ample, 1) }

func BenchmarkPair1024GoroutinesOn100Names(b *testing.B) { parallelPairs(b, 1024, ample, 100) }

func BenchmarkPairContendedLimit4(b *testing.B) { parallelPairs(b, 64, 4, 1) }

func BenchmarkPairContendedLimit1(b *testing.B) { parallelPairs(b, 64, 1, 1) }

// parallelPairs runs pairs in that many goroutines of one client, on that many names.
func parallelPairs(b *testing.B, goroutines int, limit int64, names int) {
	semaphores := make([]*Semaphore, names)
	c := benchClient(b)
	for i := range semaphores {
		semaphores[i] = onClient(b, c, fmt.Sprint(b.Name(), i), limit)
	}
	b.ReportAllocs()
	share(b, goroutines, func(worker int) { pair(b, semaphores[worker%names]) })
}

// share divides b.N operations between workers.
func share(b *testing.B, workers int, do func(worker int)) {
	var all sync.WaitGroup
	report := server(b)
	b.ResetTimer()
	for worker := range workers {
		n := (b.N + worker) / workers
		all.Go(func() {
			for range n {
				do(worker)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	report()
}

// Two clients, each of which waits while the other holds: every grant comes by message.
func BenchmarkHandOffBetweenClients(b *testing.B) {
	semaphores := []*Semaphore{benchSemaphore(b, b.Name(), 1), benchSemaphore(b, b.Name(), 1)}
	share(b, len(semaphores), func(worker int) { pair(b, semaphores[worker]) })
}

// The cost of a grant must not depend on the number of waiters.
func BenchmarkHandOffInALine(b *testing.B) {
	for _, waiters := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) {
			s := benchSemaphore(b, b.Name(), 1)
			ctx, cancel := context.WithCancel(b.Context())
			granted := make(chan *Permit)
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() { // ends with ctx
					for p, err := s.Acquire(ctx, 1); err == nil; p, err = s.Acquire(ctx, 1) {
						granted <- p
					}
				})
			}
			awaitQueue(b, s, waiters-1)
			report := server(b)
			for b.Loop() {
				if err := (<-granted).Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
			report()
			cancel()
			go func() { all.Wait(); close(granted) }() // ends with the waiters
			for p := range granted {
				_ = p.Release(b.Context())
			}
		})
	}
}

func awaitQueue(b *testing.B, s *Semaphore, n int) {
	for {
		switch st, err := s.Status(b.Context()); {
		case err != nil:
			b.Fatal(err)
		case st.Waiting >= int64(n):
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A grant of a rate limit, which expires by itself: one call grants it and removes expired grants.
func BenchmarkAllowAlone(b *testing.B) {
	l := benchLimiter(b, b.Name(), ample, 100*time.Millisecond)
	defer server(b)()
	for b.Loop() {
		if d, err := l.Allow(b.Context(), 1); err != nil || !d.Allowed {
			b.Fatal(d, err)
		}
	}
}

func BenchmarkAllowRefused(b *testing.B) {
	l := benchLimiter(b, b.Name()+uuid.NewString(), 1, time.Hour) // used up
	defer server(b)()
	for b.Loop() {
		if d, err := l.Allow(b.Context(), 1); err != nil || d.Allowed {
			b.Fatal(d, err)
		}
	}
}

// The cost of a grant that 32 callers of 4 clients wait for: the time itself is not the point.
func BenchmarkWaitInALine(b *testing.B) {
	var limiters []*Limiter
	for range 4 {
		limiters = append(limiters, benchLimiter(b, b.Name(), 100, 100*time.Millisecond))
	}
	share(b, 32, func(worker int) {
		if err := limiters[worker%4].Wait(b.Context(), 1); err != nil {
			b.Error(err)
		}
	})
}

// benchLimiter returns a limiter of a client of its own, with one unit used.
func benchLimiter(b *testing.B, name string, limit int64, per time.Duration) *Limiter {
	l, err := benchClient(b).Limiter(name, limit, per)
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Wait(b.Context(), 1); err != nil { // a server that has just started grants nothing at first
		b.Fatal(err)
	}
	return l
}

const idLike = "0123456789A:"

// The memory of a waiter in Redis, and in its process besides the stack of its goroutine.
func BenchmarkMemoryOfAWaiter(b *testing.B) {
	const waiters = 20_000
	rdb := benchRedis(b)
	var inRedis, inGo float64
	for b.Loop() {
		s := benchSemaphore(b, b.Name(), 1)
		if _, err := s.Acquire(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
		before := liveHeap()
		ctx, cancel := context.WithCancel(b.Context())
		var all sync.WaitGroup
		for range waiters {
			all.Go(func() { _, _ = s.Acquire(ctx, 1) }) // ends with ctx
		}
		awaitQueue(b, s, waiters)
		inGo += float64(liveHeap()-before) / waiters
		for _, key := range s.client.keyspace.Keys(s.name) {
			inRedis += float64(rdb.MemoryUsage(b.Context(), key, 0).Val()) / waiters // 0: count every element
		}
		cancel()
		all.Wait()
		if err := s.client.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(inRedis/float64(b.N), "redis-B/waiter")
	b.ReportMetric(inGo/float64(b.N), "go-B/waiter")
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func pair(b *testing.B, s *Semaphore) {
	p, err := s.Acquire(b.Context(), 1)
	if err == nil {
		err = p.Release(b.Context())
	}
	if err != nil {
		b.Error(err)
	}
}

// benchSemaphore returns a semaphore of a client of its own.
func benchSemaphore(b *testing.B, name string, limit int64) *Semaphore {
	return onClient(b, benchClient(b), name, limit)
}

func onClient(b *testing.B, c *Client, name string, limit int64) *Semaphore {
	s, err := c.Semaphore(name, limit)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchClient(b *testing.B) *Client {
	c, err := New(benchRedis(b), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// benchRedis returns a client of a server that is old enough to grant at once.
func benchRedis(b *testing.B) *redis.Client {
	shared := redistest.SharedServer(b)
	if err := shared.AwaitAge(2); err != nil {
		b.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: shared.Addr()})
	b.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// The gain of shared reading: 64 goroutines of a client, nine in ten calls only read, and the same calls on a Mutex. Each
// call holds the lock for a while; 0 shows the cost of the lock itself.
func BenchmarkRWMutex90PercentReaders(b *testing.B) {
	pair(b, benchSemaphore(b, b.Name(), 1)) // a server that was just started delays the first call
	type get func(context.Context) (*Permit, error)
	for _, hold := range []time.Duration{0, time.Millisecond} {
		compare := func(lock string, read, write get) {
			b.Run(fmt.Sprintf("hold=%v/%s", hold, lock), func(b *testing.B) {
				const goroutines = 64
				var calls [goroutines]int
				b.ReportAllocs()
				share(b, goroutines, func(worker int) {
					get := read
					if (worker+calls[worker])%10 == 0 {
						get = write
					}
					calls[worker]++
					p, err := get(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					if hold > 0 {
						time.Sleep(hold) // the work
					}
					if err := p.Release(b.Context()); err != nil {
						b.Error(err)
					}
				})
			})
		}
		name := fmt.Sprint(b.Name(), hold)
		rw, err := benchClient(b).RWMutex(name)
		if err != nil {
			b.Fatal(err)
		}
		m, err := benchClient(b).Mutex(name + "-mutex")
		if err != nil {
			b.Fatal(err)
		}
		compare("RWMutex", rw.RLock, rw.Lock)
		compare("Mutex", m.Lock, m.Lock)
	}
}

// The same paths where permits have numbers, beside those without.

func BenchmarkNumberedPairAlone(b *testing.B) {
	for _, numbered := range []bool{false, true} {
		b.Run(fmt.Sprintf("numbered=%v", numbered), func(b *testing.B) {
			pairsAlone(b, CallOptions{Numbered: numbered})
		})
	}
}

// 64 callers.
func BenchmarkNumberedContended(b *testing.B) {
	for _, limit := range []int64{4, 48} {
		for _, numbered := range []bool{false, true} {
			b.Run(fmt.Sprintf("limit=%d/numbered=%v", limit, numbered), func(b *testing.B) {
				s := benchSemaphore(b, b.Name(), limit).With(CallOptions{Numbered: numbered})
				share(b, 64, func(int) { pair(b, s) })
			})
		}
	}
}

// The same paths where calls name a tenant, beside those without.

func BenchmarkTenantPairAlone(b *testing.B) {
	for _, tenant := range []string{"", "customer-1"} {
		b.Run(fmt.Sprintf("tenant=%q", tenant), func(b *testing.B) {
			pairsAlone(b, CallOptions{Tenant: tenant})
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
