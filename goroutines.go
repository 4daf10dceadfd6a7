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

// background is the root context, also for go-redis calls that require a context and never use it.
var background = context.Background()

// goroutines runs the tasks of a client. Some goroutines stay when they are idle: a new one would first have to grow a
// stack that is deep enough for go-redis. close cancels ctx. go-redis honours ctx while it waits for a connection, but not
// while it reads, so the timeout of a batch bounds it.
type goroutines struct {
	ctx    context.Context
	cancel context.CancelFunc
	tasks  chan task // for idle goroutines
	idle   atomic.Int32

	mu       sync.Mutex
	closed   bool
	workers  int           // running goroutines, idle ones included
	underWay map[work]int  // how many tasks of each kind are running
	ended    chan struct{} // closed after close, when no goroutine is left
}

// task is one function to run.
type task struct {
	work work
	do   func()
}

// work is a kind of task, named for people.
type work string

const (
	scriptCalls   work = "script calls"
	subscriptions work = "subscriptions"
	listings      work = "lists of names"
	lossReports   work = "functions given to OnLost"
	observers     work = "the observer"
)

// goroutinesGrace is how long close waits.
const goroutinesGrace = 5 * time.Second

// maxIdle is how many idle goroutines stay.
const maxIdle = 2 * maxInFlight

func newGoroutines() *goroutines {
	ctx, cancel := context.WithCancel(background)
	return &goroutines{ctx: ctx, cancel: cancel, tasks: make(chan task), underWay: make(map[work]int), ended: make(chan struct{})}
}

// start runs f in a goroutine that close waits for. After close it reports false.
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

// work runs t and then further tasks, until enough others are idle.
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

// sleep waits for d. It returns early when ctx ends, or with [ErrClosed] when close is called.
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

// close stops the goroutines and waits for them for a limited time: go-redis may be reading from a silent server, and
// cannot be made to return.
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

// hanging returns ErrUnavailable with the tasks that did not end before close returned, nil if there are none.
func (c *goroutines) hanging() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for what, n := range c.underWay {
		if n > 0 && what != observers { // Close waits for them separately
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
