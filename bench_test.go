package fairsem

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

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

func BenchmarkPairAlone(b *testing.B) {
	s := benchSemaphore(b, b.Name(), ample)
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
