// Package goroutines runs the work of a client, names it for people, and waits for its end.
package goroutines

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem/internal/failure"
)

// Group runs the tasks of a client. Some goroutines stay when they are idle: a new one would first have to grow a stack
// that is deep enough for go-redis. Close cancels Context. go-redis honours a context while it waits for a connection, but
// not while it reads, so the timeout of a batch bounds it.
type Group struct {
	Context context.Context // ends with Close

	cancel context.CancelFunc
	tasks  chan task // for idle goroutines
	idle   atomic.Int32

	mu       sync.Mutex
	closed   bool
	workers  int           // running goroutines, idle ones included
	underWay map[Work]int  // how many tasks of each kind are running
	ended    chan struct{} // closed after Close, when no goroutine is left
}

// task is one function to run.
type task struct {
	work Work
	do   func()
}

// Work is a kind of task, named for people.
type Work string

// The kinds of work.
const (
	ScriptCalls   Work = "script calls"
	Subscriptions Work = "subscriptions"
	Listings      Work = "lists of names"
	LossReports   Work = "functions given to OnLost"
	Observers     Work = "the observer"
)

// Grace is how long Close waits.
const Grace = 5 * time.Second

// maxIdle is how many idle goroutines stay: twice as many as a pipeline has in flight.
const maxIdle = 4

// New returns a Group without goroutines.
func New() *Group {
	ctx, cancel := context.WithCancel(context.Background())
	return &Group{Context: ctx, cancel: cancel, tasks: make(chan task), underWay: make(map[Work]int), ended: make(chan struct{})}
}

// Start runs f in a goroutine that Close waits for. After Close it reports false.
func (g *Group) Start(what Work, f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.underWay[what]++
	t := task{what, f}
	select {
	case g.tasks <- t:
	default:
		g.workers++
		go g.work(t) // ends when nothing is left to do, or at Close, which waits for it
	}
	return true
}

// work runs t and then further tasks, until enough others are idle, or until a function of the user ends the goroutine, as FailNow of a
// test does.
func (g *Group) work(t task) {
	defer g.left()
	for ok := true; ok; {
		g.run(t)
		if g.idle.Add(1) > maxIdle {
			ok = false
		} else {
			t, ok = <-g.tasks
		}
		g.idle.Add(-1)
	}
}

func (g *Group) run(t task) {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.underWay[t.work]--
	}()
	t.do()
}

func (g *Group) left() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.workers--
	g.endedLocked()
}

func (g *Group) endedLocked() {
	if g.closed && g.workers == 0 {
		close(g.ended)
	}
}

// Sleep waits for d. It returns early when ctx ends, or with [failure.ErrClosed] when Close is called.
func (g *Group) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-g.Context.Done():
		return failure.ErrClosed
	}
}

// Close stops the goroutines and waits for them for a limited time: go-redis may be reading from a silent server, and
// cannot be made to return.
func (g *Group) Close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.tasks)
		g.endedLocked()
	}
	g.mu.Unlock()
	g.cancel()
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case <-g.ended:
	case <-timer.C:
	}
}

// Hanging names the kinds of Work that had not ended when Close returned.
func (g *Group) Hanging() (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for what, n := range g.underWay {
		if n > 0 && what != Observers { // Client.Close waits for them separately
			all = append(all, string(what))
		}
	}
	slices.Sort(all)
	return all
}
