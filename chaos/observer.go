package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// lookName is the name of a call that is none: what the observer saw that should not be.
const lookName = "look"

const (
	lookPause = 10 * time.Millisecond
	// A server that comes back is to be looked at before anybody else asks, so the observer tries again at once.
	lookLimit = 50 * time.Millisecond
)

// observe is the turn of a process that only looks, as `fairsem top` and a dashboard do. What it changes is
// nothing that anybody could see: it pins a limit to what it is, and evicts who is not there.
func (w *worker) observe(ctx context.Context, random *rand.Rand) error {
	if random.IntN(20) == 0 {
		w.brief(ctx, func(ctx context.Context) {
			for _, err := range w.client.List(ctx) {
				if err != nil {
					return // the server is away
				}
			}
		})
	}
	for _, s := range w.inView() {
		if there, err := w.lookAt(ctx, s); err != nil || !there {
			return err // and the seat is first again, at which others are about to ask
		}
		switch random.IntN(60) {
		case 0:
			w.brief(ctx, func(ctx context.Context) { _ = s.Evict(ctx, "nobody:0") }) // it never finds anybody
		case 1:
			w.pinned[s] = true // whatever becomes of it
			w.brief(ctx, func(ctx context.Context) { _ = s.SetLimit(ctx, limitOf(s.Name())) })
		}
	}
	w.unpin(ctx)
	rest(ctx, lookPause)
	return nil
}

// inView is what the observer looks at, and pins.
func (w *worker) inView() []*fairsem.Semaphore {
	return []*fairsem.Semaphore{w.seat, w.pool, w.solo, w.aside}
}

// brief has f end soon.
func (w *worker) brief(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	f(ctx)
}

// lookAt writes down if a semaphore has a limit that is not its own. It reports whether the server answered.
func (w *worker) lookAt(ctx context.Context, s *fairsem.Semaphore) (there bool, err error) {
	w.brief(ctx, func(ctx context.Context) {
		asked := history.Now()
		status, failed := s.Status(ctx)
		if there = failed == nil; !there {
			return
		}
		if status.Limit != limitOf(s.Name()) {
			err = w.journal.write(&call{
				Grant:  history.Grant{Process: w.order.Process, Asked: asked},
				Number: w.calls.Add(1), Name: lookName, Wrong: fmt.Sprintf("%s has a limit of %d", s.Name(), status.Limit),
			})
		}
		for _, failed := range s.Holders(ctx) {
			if failed != nil {
				return
			}
		}
	})
	return there, err
}

// unpin takes back what the observer pinned. A pin that is forgotten stays for ever.
func (w *worker) unpin(ctx context.Context) {
	for s := range w.pinned {
		w.brief(ctx, func(ctx context.Context) {
			if s.ResetLimit(ctx) == nil {
				delete(w.pinned, s)
			}
		})
	}
}

// tidy unpins when the load has ended, all there is: a server with an old state may have a pin that was taken back since.
// One that was down a moment ago may take a while.
func (w *worker) tidy() {
	for _, s := range w.inView() {
		w.pinned[s] = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	for len(w.pinned) > 0 && ctx.Err() == nil {
		w.unpin(ctx)
		rest(ctx, lookPause)
	}
}
