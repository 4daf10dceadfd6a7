package fairsem

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
type goroutines struct {
	ctx    context.Context
	cancel context.CancelFunc
	tasks  chan task // to those who stayed
	idle   atomic.Int32

	mu       sync.Mutex
	closed   bool
	workers  int           // goroutines
	underWay map[work]int  // how many tasks of a kind
	ended    chan struct{} // closed when the crew is, and no goroutine is left
}

// task is what one goroutine does.
type task struct {
	work work
	do   func()
}

// work is a kind of task, by a name for people.
type work string

const (
	scriptCalls   work = "script calls"
	subscriptions work = "subscriptions"
	listings      work = "lists of names"
	lossReports   work = "functions given to OnLost"
	observers     work = "the observer"
)

// crewGrace is how long close waits.
const goroutinesGrace = 5 * time.Second

// maxIdle is how many stay at the most.
const maxIdle = 2 * maxInFlight

func newGoroutines() *goroutines {
	ctx, cancel := context.WithCancel(background)
	return &goroutines{ctx: ctx, cancel: cancel, tasks: make(chan task), underWay: make(map[work]int), ended: make(chan struct{})}
}

// launch runs f in a goroutine that close waits for. False: it came too late.
func (c *goroutines) start(what work, f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.underWay[what]++
	t := task{what, f}
	select {
	case c.tasks <- t:
	default:
		c.workers++
		go c.work(t) // ends when nothing is left to do, or at close, which waits for it
	}
	return true
}

// work runs t, and then what comes, unless enough others stay for that.
func (c *goroutines) work(t task) {
	for ok := true; ok; {
		t.do()
		c.finished(t)
		if c.idle.Add(1) > maxIdle {
			ok = false
		} else {
			t, ok = <-c.tasks
		}
		c.idle.Add(-1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers--
	c.endedLocked()
}

func (c *goroutines) finished(t task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay[t.work]--
}

func (c *goroutines) endedLocked() {
	if c.closed && c.workers == 0 {
		close(c.ended)
	}
}

// sleep waits, but for no longer than ctx, or than the crew, whose end is [ErrClosed].
func (c *goroutines) sleep(ctx context.Context, d time.Duration) error {
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

// close ends the crew, and waits for it, but not without end: go-redis may be reading from a server that is silent,
// and cannot be made to return.
func (c *goroutines) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.tasks)
		c.endedLocked()
	}
	c.mu.Unlock()
	c.cancel()
	timer := time.NewTimer(goroutinesGrace)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
	}
}

// hanging is ErrUnavailable with what close did not see the end of; nil: there is nothing.
func (c *goroutines) hanging() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for what, n := range c.underWay {
		if n > 0 && what != observers { // which Close waits for by itself
			all = append(all, string(what))
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return fmt.Errorf("%w: close: after %v these have not ended: %s (go-redis without a ReadTimeout waits for Redis without end)",
		ErrUnavailable, goroutinesGrace, strings.Join(all, ", "))
}
