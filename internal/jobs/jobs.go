// Package jobs runs stored jobs while they hold a permit, and says when to try those again that got none. It is for middleware of
// libraries that store jobs.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/gate"
	"github.com/fairsem/fairsem/internal/held"
)

// DefaultMaxWait is how long a job waits. A job that is rescheduled loses its position in the queue, so it is longer than that of requests.
const DefaultMaxWait = 5 * time.Second

// Options of jobs of type J. L is the interface that the package of their user shows as Limit.
type Options[J any, L gate.Limit] struct {
	Who          string // makes a Runner, such as fairsemasynq.Middleware: for errors
	Limit        L
	LimitOf      func(context.Context, J) (L, error)            // instead of Limit, unless nil
	Weight       func(context.Context, J) int64                 // nil: 1 for all
	MaxWait      time.Duration                                  // 0: DefaultMaxWait; or gate.NoWait
	OnReschedule func(context.Context, J, time.Duration, error) // nil: none
	MustStay     func(context.Context) bool                     // whether a job must not be rescheduled; nil: none
}

// Runner limits jobs.
type Runner[J any, L gate.Limit] struct {
	gate         gate.Gate[request[J], L]
	onReschedule func(context.Context, J, time.Duration, error)
	mustStay     func(context.Context) bool
}

// request is the job that a limit applies to.
type request[J any] struct {
	ctx context.Context
	job J
}

// New returns a Runner. The error is [fairsem.ErrInvalid].
func New[J any, L gate.Limit](o Options[J, L]) (*Runner[J, L], error) {
	g := gate.Gate[request[J], L]{Who: o.Who, Limit: o.Limit, MaxWait: o.MaxWait}
	if o.MaxWait == 0 {
		g.MaxWait = DefaultMaxWait
	}
	if o.LimitOf != nil {
		g.LimitOf = func(r request[J]) (L, error) { return o.LimitOf(r.ctx, r.job) }
	}
	if o.Weight != nil {
		g.Weight = func(r request[J]) int64 { return o.Weight(r.ctx, r.job) }
	}
	return &Runner[J, L]{gate: g, onReschedule: o.OnReschedule, mustStay: o.MustStay}, g.Check()
}

// Run does the work of a job while it holds its permit, and ends the context of the work when the permit is lost or its Client closed. If
// delay is above 0, the work has not begun, and the job is to be rescheduled by that long; err says why. Otherwise err is that of the work,
// or says why the work cannot begin, and wraps the error of ctx if that has ended. A job that must not be rescheduled waits until it has its
// permit or ctx ends, whatever MaxWait its limit has.
func (r *Runner[J, L]) Run(ctx context.Context, job J, work func(context.Context) error) (delay time.Duration, err error) {
	stays := r.mustStay != nil && r.mustStay(ctx)
	for {
		loan := new(held.Loan)
		limit, err := r.enter(ctx, loan, job, stays)
		if err == nil {
			return 0, do(ctx, loan, limit, work)
		}
		delay := again(ctx, limit, err, stays)
		switch {
		case delay == 0:
			return 0, withEndOf(ctx, err)
		case stays:
			clock.Sleep(ctx, delay)
		default:
			if r.onReschedule != nil {
				r.onReschedule(ctx, job, delay, err)
			}
			return delay, err
		}
	}
}

// enter lends a permit to a job. The loan has none if the job needs none, and has ended beside an error.
func (r *Runner[J, L]) enter(ctx context.Context, loan *held.Loan, job J, stays bool) (L, error) {
	g := r.gate
	switch {
	case stays:
		g.MaxWait, g.Stays = 0, true
	case g.MaxWait == gate.NoWait:
		g.AnswerWait = bounded(ctx, gate.AnswerWait)
	default:
		g.MaxWait = bounded(ctx, g.MaxWait)
	}
	granted, err := g.Lend(ctx, loan, request[J]{ctx, job})
	return granted.Limit, err
}

// bounded returns at most half of the time that a job has: it must not fail because it waited, and needs time for its work.
func bounded(ctx context.Context, wait time.Duration) time.Duration {
	deadline, is := ctx.Deadline()
	if !is {
		return wait
	}
	return max(min(wait, time.Until(deadline)/2), 1)
}

// again returns in how long a job is to be tried again; 0: its context has ended, or trying again does not help. Jobs that are rescheduled
// together do not come back together. The context of a job that holds a permit of another limit ends with that, too: it can be
// rescheduled, but one that stays cannot go on.
func again(ctx context.Context, limit gate.Limit, err error, stays bool) time.Duration {
	if ctx.Err() != nil && (stays || !held.IsEnd(context.Cause(ctx))) {
		return 0
	}
	d := gate.RetryAfter(ctx, limit, err)
	return d + rand.N(d/4+1) // 0 stays 0
}

// withEndOf has the error of a job that has not begun say that its context has ended, also when its wait ended first: a store of
// jobs does not count it then.
func withEndOf(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

func do[L gate.Limit](ctx context.Context, loan *held.Loan, limit L, work func(context.Context) error) error {
	defer loan.End()
	if loan.Permit == nil {
		return work(ctx)
	}
	err := work(&loan.Scope)
	ended := loan.Ended()
	another := loan.Permit.Context().Err() == nil // the end is that of a permit around this one
	if ended == nil || another || !errors.Is(err, context.Canceled) || held.IsEnd(err) {
		return err
	}
	return fmt.Errorf("%w, because the permit of %q ended: %w", err, limit.Name(), ended)
}
