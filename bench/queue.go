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

// line is a holder and many waiters on one name with a limit of 1, all in this process. It stands
// still until it is told to move: then each in turn releases, and goes to the end of the line.
type line struct {
	name    string
	waiting int
	sem     *fairsem.Semaphore
	turns   chan struct{} // one for each hand-off that is wanted
	moved   chan struct{} // one for each that was made
	ended   sync.WaitGroup
	failed  atomic.Pointer[error]
}

// fairOn is fairsem in this process.
type fairOn struct {
	rdb    *redis.Client
	client *fairsem.Client
}

func (b *bench) fairsem(ttl time.Duration) (fairOn, error) {
	rdb := redis.NewClient(&redis.Options{Addr: b.server.addr()})
	client, err := fairsem.New(rdb, fairsem.Options{TTL: ttl})
	if err != nil {
		return fairOn{}, errors.Join(err, rdb.Close())
	}
	return fairOn{rdb, client}, nil
}

func (f fairOn) close() error { return errors.Join(f.client.Close(), f.rdb.Close()) }

// form starts a line, and returns when everybody stands in it. It goes on until ctx or the client
// ends, also after an error, unless the line is nil; who wants to know waits for ended.
func (f fairOn) form(ctx context.Context, name string, waiting int) (*line, error) {
	sem, err := f.client.Semaphore(name, 1)
	if err != nil {
		return nil, err
	}
	l := &line{name: name, waiting: waiting, sem: sem, turns: make(chan struct{}), moved: make(chan struct{})}
	for range waiting + 1 {
		l.ended.Go(func() { l.stand(ctx) }) // ends with ctx or the client
	}
	return l, l.formed(ctx)
}

// stand waits in the line again and again.
func (l *line) stand(ctx context.Context) {
	for {
		permit, err := l.sem.Acquire(ctx, 1)
		if err == nil {
			select {
			case <-l.turns:
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
		case l.moved <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

const (
	formWithin = 60 * time.Second
	lookEvery  = 20 * time.Millisecond
)

// formed returns when Redis has everybody in the line.
func (l *line) formed(ctx context.Context) error {
	for overdue := time.Now().Add(formWithin); time.Now().Before(overdue); time.Sleep(lookEvery) {
		s, err := l.sem.Status(ctx)
		if failed := l.failed.Load(); failed != nil {
			err = *failed
		}
		if err != nil || s.Waiting == int64(l.waiting) {
			return err
		}
	}
	return fmt.Errorf("%d waiters are not in line within %v", l.waiting, formWithin)
}

// move makes so many hand-offs, one after the other.
func (l *line) move(ctx context.Context, handOffs int) error {
	for range handOffs {
		select {
		case l.turns <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(formWithin):
			return errors.New("nobody is granted the unit")
		}
		<-l.moved
	}
	return nil
}

// restful is a TTL so long that nothing is renewed while it is measured.
const restful = time.Hour

// lineLengths measures what a hand-off costs Redis, by how many wait. All lines stand at the same
// time, so that each round measures all of them on the same server.
func lineLengths(ctx context.Context, b *bench) (s *section, err error) {
	s = &section{
		Name: "waiters", Title: "waiters on one name: what a hand-off costs", Columns: []string{"cpu", "mean", "samples"},
		Notes: []string{"A hand-off is a release, the grant to the next in line, and the former holder's new place at its end, one after the other."},
	}
	f, err := b.fairsem(restful)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var lines []*line
	defer func() {
		cancel()
		for _, l := range lines {
			l.ended.Wait()
		}
		err = errors.Join(err, f.close())
	}()
	for _, n := range b.waiters {
		l, err := f.form(ctx, b.key(), n)
		if l != nil {
			lines = append(lines, l)
		}
		if err != nil {
			return s, err
		}
	}
	for round := 0; err == nil && round < b.Rounds; round++ {
		b.say("waiters, round %d of %d", round+1, b.Rounds)
		for i := 0; err == nil && i < len(lines); i++ {
			err = b.moveLine(ctx, s, lines[(i+round)%len(lines)])
		}
	}
	s.Targets = []target{b.growth(s)}
	return s, err
}

func (b *bench) moveLine(ctx context.Context, s *section, l *line) error {
	m, err := b.server.meter(ctx)
	if err != nil {
		return err
	}
	if err := l.move(ctx, b.handOffs); err != nil {
		return err
	}
	took := time.Since(m.since)
	cpu, err := m.cpu(ctx)
	s.add(waiterLabel(l.waiting), figures{
		"cpu": cpu / float64(b.handOffs), "mean": took.Seconds() / float64(b.handOffs), "samples": float64(b.handOffs),
	})
	return err
}

func waiterLabel(n int) string { return count(float64(n)) + " waiters" }

func (b *bench) growth(s *section) target {
	few, many := waiterLabel(b.waiters[0]), waiterLabel(b.waiters[len(b.waiters)-1])
	return atMost(1.5, fmt.Sprintf("Redis CPU per hand-off at most 1.5 x from %s to %s", few, many), s.ratio("cpu", many, few), ratio)
}
