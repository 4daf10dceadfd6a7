package fairsem

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// background is for what go-redis wants a context for and never looks at it.
var background = context.Background()

// crew are the goroutines of a client that do one thing after another. Some stay when there is
// nothing to do: a new one would first have to grow a stack that is deep enough for go-redis. ctx ends
// with them: go-redis honours it while it waits for a connection, though not while it reads, so what
// bounds a batch is its patience.
type crew struct {
	ctx    context.Context
	cancel context.CancelFunc
	tasks  chan func() // to those who stayed
	idle   atomic.Int32

	mu     sync.Mutex
	closed bool
	busy   sync.WaitGroup
}

// maxIdle is how many stay at the most.
const maxIdle = 2 * maxFlying

func newCrew() *crew {
	ctx, cancel := context.WithCancel(background)
	return &crew{ctx: ctx, cancel: cancel, tasks: make(chan func())}
}

// launch runs f in a goroutine that close waits for. False: it came too late.
func (c *crew) launch(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	select {
	case c.tasks <- f:
	default:
		c.busy.Go(func() { c.work(f) })
	}
	return true
}

// work runs f, and then what comes, unless enough others stay for that.
func (c *crew) work(f func()) {
	for ok := true; ok; {
		f()
		if c.idle.Add(1) > maxIdle {
			ok = false
		} else {
			f, ok = <-c.tasks
		}
		c.idle.Add(-1)
	}
}

// sleep waits, but for no longer than ctx, or than the crew, whose end is [ErrClosed].
func (c *crew) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrClosed
	}
}

func (c *crew) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.tasks)
	}
	c.mu.Unlock()
	c.cancel()
	c.busy.Wait()
}
