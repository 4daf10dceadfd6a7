package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

// queue is a holder and many waiters on one name with a limit of 1, all in this process. For each hand-off the holder releases
// and joins the end of the queue.
type queue struct {
	name       string
	waiters    int
	sem        *fairsem.Semaphore
	release    chan struct{} // one value for each requested hand-off
	released   chan struct{} // one value for each hand-off that was made
	goroutines sync.WaitGroup
	failed     atomic.Pointer[error]
}

// fairsemClient is fairsem in this process.
type fairsemClient struct {
	rdb    *redis.Client
	client *fairsem.Client
}

func (b *bench) fairsem(ttl time.Duration) (fairsemClient, error) {
	rdb := redis.NewClient(&redis.Options{Addr: b.server.addr()})
	client, err := fairsem.New(rdb, fairsem.Options{TTL: ttl})
	if err != nil {
		return fairsemClient{}, errors.Join(err, rdb.Close())
	}
	return fairsemClient{rdb, client}, nil
}

func (f fairsemClient) close() error { return errors.Join(f.client.Close(), f.rdb.Close()) }

// startQueue starts a queue, and returns when it is full. The queue exists until ctx or the client ends, also after an error,
// unless it is nil. To wait for its end, wait for goroutines.
func (f fairsemClient) startQueue(ctx context.Context, name string, waiting int) (*queue, error) {
	sem, err := f.client.Semaphore(name, 1)
	if err != nil {
		return nil, err
	}
	l := &queue{name: name, waiters: waiting, sem: sem, release: make(chan struct{}), released: make(chan struct{})}
	for range waiting + 1 {
		l.goroutines.Go(func() { l.run(ctx) }) // ends with ctx or the client
	}
	return l, l.awaitFull(ctx)
}

// run acquires and releases repeatedly.
func (l *queue) run(ctx context.Context) {
	for {
		permit, err := l.sem.Acquire(ctx, 1)
		if err == nil {
			select {
			case <-l.release:
			case <-ctx.Done():
			}
			err = permit.Release(ctx)
		}
		if ctx.Err() != nil || errors.Is(err, fairsem.ErrClosed) {
			return
		}
		if err != nil {
			l.failed.CompareAndSwap(nil, &err)
			return
		}
		select {
		case l.released <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

const (
	fillTimeout = 60 * time.Second
	pollEvery   = 20 * time.Millisecond
)

// awaitFull waits until all waiters are in the queue in Redis.
func (l *queue) awaitFull(ctx context.Context) error {
	for overdue := time.Now().Add(fillTimeout); time.Now().Before(overdue); time.Sleep(pollEvery) {
		s, err := l.sem.Status(ctx)
		if failed := l.failed.Load(); failed != nil {
			err = *failed
		}
		if err != nil || s.Waiting == int64(l.waiters) {
			return err
		}
	}
	return fmt.Errorf("%d waiters are not in the queue within %v", l.waiters, fillTimeout)
}

// handOff makes hand-offs, one after the other.
func (l *queue) handOff(ctx context.Context, handOffs int) error {
	for range handOffs {
		select {
		case l.release <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(fillTimeout):
			return errors.New("no call was granted the unit")
		}
		<-l.released
	}
	return nil
}

// longTTL is so long that nothing is renewed during a measurement.
const longTTL = time.Hour

// queueLengths measures the cost of a hand-off in Redis for different numbers of waiters. All queues exist at the same time, so
// that each round measures all of them on the same server.
func queueLengths(ctx context.Context, b *bench) (s *section, err error) {
	s = &section{
		Name: "waiters", Title: "waiters on one name: what a hand-off costs", Columns: []string{"cpu", "mean", "samples"},
		Notes: []string{"A hand-off is a release, the grant to the head of the queue, and the former holder's new position at the end of the queue. Hand-offs are made one after the other."},
	}
	f, err := b.fairsem(longTTL)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var queues []*queue
	defer func() {
		cancel()
		for _, l := range queues {
			l.goroutines.Wait()
		}
		err = errors.Join(err, f.close())
	}()
	for _, n := range b.waiters {
		l, err := f.startQueue(ctx, b.key(), n)
		if l != nil {
			queues = append(queues, l)
		}
		if err != nil {
			return s, err
		}
	}
	for round := 0; err == nil && round < b.Rounds; round++ {
		b.logf("waiters, round %d of %d", round+1, b.Rounds)
		for i := 0; err == nil && i < len(queues); i++ {
			err = b.measureHandOffs(ctx, s, queues[(i+round)%len(queues)])
		}
	}
	s.Targets = []target{b.growth(s)}
	return s, err
}

func (b *bench) measureHandOffs(ctx context.Context, s *section, l *queue) error {
	m, err := b.server.meter(ctx)
	if err != nil {
		return err
	}
	if err := l.handOff(ctx, b.handOffs); err != nil {
		return err
	}
	took := time.Since(m.since)
	cpu, err := m.cpu(ctx)
	s.add(waiterLabel(l.waiters), figures{
		"cpu": cpu / float64(b.handOffs), "mean": took.Seconds() / float64(b.handOffs), "samples": float64(b.handOffs),
	})
	return err
}

func waiterLabel(n int) string { return count(float64(n)) + " waiters" }

func (b *bench) growth(s *section) target {
	few, many := waiterLabel(b.waiters[0]), waiterLabel(b.waiters[len(b.waiters)-1])
	return atMost(1.5, fmt.Sprintf("Redis CPU per hand-off at most 1.5 x from %s to %s", few, many), s.ratio("cpu", many, few), ratio)
}
