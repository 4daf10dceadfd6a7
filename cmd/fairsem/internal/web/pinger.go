package web

import (
	"context"
	"sync/atomic"
	"time"
)

// pinger knows when Redis answered last. It sends nothing but PING, so that a slow query does not count as a Redis that
// is away.
type pinger struct {
	ping  func(context.Context) error
	every time.Duration
	last  atomic.Pointer[time.Time] // nil: never
	asked atomic.Bool
}

// maxPingInterval is the time between two PINGs at most.
const maxPingInterval = time.Second

func newPinger(interval time.Duration, ping func(context.Context) error) *pinger {
	return &pinger{ping: ping, every: min(interval, maxPingInterval) / 2}
}

// run pings until ctx ends.
func (p *pinger) run(ctx context.Context) { repeat(ctx, p.every, p.once) }

// repeat calls f at every interval until ctx ends. A call that takes longer than an interval is not followed by another
// one at once.
func repeat(ctx context.Context, every time.Duration, f func(context.Context)) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		f(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// once sends one PING. Once ctx has ended it does not wait for go-redis, which may read from a silent server.
func (p *pinger) once(ctx context.Context) {
	answer := make(chan error, 1)
	go func() { answer <- p.ping(ctx) }() // ends with go-redis's time-outs; waited for unless ctx ends
	select {
	case err := <-answer:
		if err == nil {
			now := time.Now()
			p.last.Store(&now)
		}
		p.asked.Store(true)
	case <-ctx.Done():
	}
}

// age is how long ago the last answer was.
func (p *pinger) age() (age time.Duration, ever bool) {
	last := p.last.Load()
	if last == nil {
		return 0, false
	}
	return time.Since(*last), true
}
