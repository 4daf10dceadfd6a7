package main

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
)

// memory measures the memory of a waiter in Redis and in the process.
func memory(ctx context.Context, b *bench) (s *section, err error) {
	s = &section{
		Name: "memory", Title: "memory per waiter", Columns: []string{"redis bytes", "heap bytes", "stack bytes", "samples"},
		Notes: []string{"The runtime reuses goroutines that existed before, so neither figure contains what it allocates for each of them. Stacks are not part of the heap. A plain goroutine waits on a channel."},
	}
	if _, err := b.plainGoroutines(ctx); err != nil { // creates the goroutines that the runtime reuses later
		return s, err
	}
	plain, err := b.plainGoroutines(ctx)
	if err != nil {
		return s, err
	}
	f, err := b.fairsem(longTTL)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var l *queue
	defer func() {
		cancel()
		if l != nil {
			l.goroutines.Wait()
		}
		err = errors.Join(err, f.close())
	}()
	before, err := b.usage(ctx)
	if err != nil {
		return s, err
	}
	if l, err = f.startQueue(ctx, b.key(), b.memoryWaiters); err != nil {
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

// plainGoroutines measures the same number of goroutines that wait on a channel: the memory that Go itself needs.
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

// usage is the memory in use in bytes: in Redis, in the heap, in stacks.
type usage [3]float64

func (b *bench) usage(ctx context.Context) (usage, error) {
	runtime.GC()
	runtime.GC() // the first run keeps objects with a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	redis, err := b.server.memory(ctx)
	return usage{redis, float64(m.HeapAlloc), float64(m.StackInuse)}, err
}

// grown returns how much the usage has grown since before, for each waiter.
func (b *bench) grown(ctx context.Context, before usage) (figures, error) {
	after, err := b.usage(ctx)
	each := func(i int) float64 { return math.Round((after[i] - before[i]) / float64(b.memoryWaiters)) }
	return figures{
		"redis bytes": each(0), "heap bytes": each(1), "stack bytes": each(2), "samples": float64(b.memoryWaiters),
	}, err
}
