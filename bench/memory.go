package main

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
)

// memory measures what a waiter costs, in Redis and in the process.
func memory(ctx context.Context, b *bench) (s *section, err error) {
	s = &section{
		Name: "memory", Title: "memory per waiter", Columns: []string{"redis bytes", "heap bytes", "stack bytes", "samples"},
		Notes: []string{"The goroutines existed before, so what the runtime keeps of each is in neither figure; stacks are not in the heap. A plain goroutine waits on a channel."},
	}
	if _, err := b.plainGoroutines(ctx); err != nil { // makes the goroutines, which the runtime then uses again
		return s, err
	}
	plain, err := b.plainGoroutines(ctx)
	if err != nil {
		return s, err
	}
	f, err := b.fairsem(restful)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var l *line
	defer func() {
		cancel()
		if l != nil {
			l.ended.Wait()
		}
		err = errors.Join(err, f.close())
	}()
	before, err := b.usage(ctx)
	if err != nil {
		return s, err
	}
	if l, err = f.form(ctx, b.key(), b.memoryWaiters); err != nil {
		return s, err
	}
	waiters, err := b.grown(ctx, before)
	s.add("a waiter", waiters)
	s.add("a plain goroutine", plain)
	s.Targets = []target{
		atMost(250, "at most 250 bytes in Redis", s.of("a waiter", "redis bytes"), bytesEach),
		atMost(1024, "at most 1 KiB in Go plus the goroutine", s.of("a waiter", "heap bytes"), bytesEach),
	}
	return s, err
}

// plainGoroutines is the same number of goroutines that wait on a channel: what Go itself takes.
func (b *bench) plainGoroutines(ctx context.Context) (figures, error) {
	before, err := b.usage(ctx)
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	var all sync.WaitGroup
	for range b.memoryWaiters + 1 {
		all.Go(func() { <-over }) // ends below
	}
	f, err := b.grown(ctx, before)
	close(over)
	all.Wait()
	delete(f, "redis bytes")
	return f, err
}

// usage is what is in use, in bytes: in Redis, in the heap, in stacks.
type usage [3]float64

func (b *bench) usage(ctx context.Context) (usage, error) {
	runtime.GC()
	runtime.GC() // the first leaves what had a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	redis, err := b.server.memory(ctx)
	return usage{redis, float64(m.HeapAlloc), float64(m.StackInuse)}, err
}

// grown is what came to it since, for each waiter.
func (b *bench) grown(ctx context.Context, before usage) (figures, error) {
	after, err := b.usage(ctx)
	each := func(i int) float64 { return math.Round((after[i] - before[i]) / float64(b.memoryWaiters)) }
	return figures{
		"redis bytes": each(0), "heap bytes": each(1), "stack bytes": each(2), "samples": float64(b.memoryWaiters),
	}, err
}
