package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/history"
)

// observedName is the name of a record that is not a call: a violation that the observer saw.
const observedName = "observed"

const (
	observePause = 10 * time.Millisecond
	// After a restart the observer must be the first process to call, so it retries soon.
	observeTimeout = 50 * time.Millisecond
)

// observe is the action of a process that only reads, like "fairsem top" or a dashboard. Its changes have no visible effect: it
// sets a limit to the value that the limit has, and evicts an id that does not exist.
func (w *worker) observe(ctx context.Context, random *rand.Rand) error {
	if random.IntN(20) == 0 {
		w.withTimeout(ctx, func(ctx context.Context) {
			for _, err := range w.client.List(ctx) {
				if err != nil {
					return // the server is down
				}
			}
		})
	}
	for _, s := range w.observed() {
		if there, err := w.checkLimit(ctx, s); err != nil || !there {
			return err // the next action begins with the seat again, which others are about to acquire
		}
		switch random.IntN(60) {
		case 0:
			w.withTimeout(ctx, func(ctx context.Context) { _ = s.Evict(ctx, "nobody:0") }) // no holder or waiter has this id
		case 1:
			w.limitSet[s] = true // whether or not the call succeeds
			w.withTimeout(ctx, func(ctx context.Context) { _ = s.SetLimit(ctx, limitOf(s.Name())) })
		}
	}
	w.resetLimits(ctx)
	clock.Sleep(ctx, observePause)
	return nil
}

// observed returns the semaphores that the observer reads, and whose limits it sets.
func (w *worker) observed() []*fairsem.Semaphore {
	return []*fairsem.Semaphore{w.seat, w.pool, w.solo, w.aside, w.shared, w.slots}
}

// withTimeout calls f with a short timeout.
func (w *worker) withTimeout(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	f(ctx)
}

// checkLimit reads a semaphore and records a violation if its limit is wrong. It reports whether the server answered.
func (w *worker) checkLimit(ctx context.Context, s *fairsem.Semaphore) (there bool, err error) {
	w.withTimeout(ctx, func(ctx context.Context) {
		asked := history.Now()
		status, failed := s.Status(ctx)
		if there = failed == nil; !there {
			return
		}
		if status.Limit != limitOf(s.Name()) {
			err = w.journal.write(&call{
				Grant:  history.Grant{Process: w.config.Process, Asked: asked},
				Number: w.calls.Add(1), Name: observedName, Violation: fmt.Sprintf("%s has a limit of %d", s.Name(), status.Limit),
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

// resetLimits resets the limits that the observer has set. Otherwise they would stay in Redis for ever.
func (w *worker) resetLimits(ctx context.Context) {
	for s := range w.limitSet {
		w.withTimeout(ctx, func(ctx context.Context) {
			if s.ResetLimit(ctx) == nil {
				delete(w.limitSet, s)
			}
		})
	}
}

// resetAllLimits resets all limits after the load has ended: a server with an old state may have a limit that was already reset.
// A server that was just down may take a while to answer.
func (w *worker) resetAllLimits() {
	for _, s := range w.observed() {
		w.limitSet[s] = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout/2)
	defer cancel()
	for len(w.limitSet) > 0 && ctx.Err() == nil {
		w.resetLimits(ctx)
		clock.Sleep(ctx, observePause)
	}
}
