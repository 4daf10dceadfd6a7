package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/failure"
)

// RateJob is a command that starts at a limited rate. Without a command it only waits for the grant.
type RateJob struct {
	Request Request
	Units   int64 // that are granted in any window
	Window  time.Duration
}

// positionTTL is the lease of a position in the queue of a rate.
const positionTTL = 10 * time.Second

// Run waits for a grant, and is then replaced by the command. The error has the exit code.
func (j RateJob) Run(ctx context.Context) error {
	signals, stop := catch()
	defer stop()
	command, path := j.Request.Command, ""
	err := j.Request.journalled(func(journal *journal) (err error) {
		if len(command) > 0 {
			if path, err = findCommand(command[0]); err != nil {
				return err
			}
		}
		w := &rateWaiter{job: j, waiter: &waiter{request: &j.Request, signals: signals, journal: journal}}
		return w.run(ctx)
	})
	if err != nil {
		return err
	}
	if len(command) == 0 {
		return late(signals)
	}
	return j.Request.journalled(func(*journal) error {
		return become(ctx, path, command, j.Request.environment(j.Request.tenantVariable()), signals)
	})
}

// rateWaiter is a RateJob that waits for its grant.
type rateWaiter struct {
	job    RateJob
	waiter *waiter
}

func (w *rateWaiter) run(ctx context.Context) error {
	request := &w.job.Request
	return w.waiter.connect(max(positionTTL, request.Grace), func(s *dial.Session) error {
		limiter, err := s.Client.Limiter(request.Name, w.job.Units, w.job.Window)
		if err != nil {
			return err
		}
		options := request.callOptions()
		options.MaxWait = request.Wait
		w.waiter.inspector, limiter = limiter.Inspector, limiter.With(options)
		if err := w.waiter.reach(ctx, func(ctx context.Context) error { return limiter.Wait(ctx, request.Weight) }); err != nil {
			return err
		}
		began := time.Now()
		if err := w.wait(ctx, limiter); err != nil {
			return w.waiter.refused(err, "semaphore, which is for fairsem run, and whose limit fairsem resize changes")
		}
		w.waiter.journal.note(note{Event: "granted", Tenant: request.Tenant, Weight: request.Weight, WaitedMS: time.Since(began).Milliseconds()})
		return nil
	})
}

// wait returns when the units are granted, a signal comes, or it is known that they are not granted in time.
func (w *rateWaiter) wait(ctx context.Context, limiter *fairsem.Limiter) error {
	request := &w.job.Request
	stop := w.waiter.showPosition(ctx)
	defer stop()
	err := w.waiter.untilSignal(ctx, func(ctx context.Context) error {
		if request.NoWait {
			return promptly(ctx, request.Grace, func(ctx context.Context) error { return allow(ctx, limiter, request.Weight) })
		}
		return limiter.Wait(ctx, request.Weight)
	})
	var refusal *fairsem.WaitError
	switch {
	case errors.As(err, &refusal):
		return failure.Reworded(refusal, "not acquired: %q would grant the units in %v at the earliest: try again then", request.Name, refusal.RetryAfter)
	case errors.Is(err, fairsem.ErrUnavailable): // which may be a timeout, too
	case errors.Is(err, fairsem.ErrNotAcquired): // Redis said that the units might come in time
		return fmt.Errorf("%w: %q did not grant the units within %s", fairsem.ErrNotAcquired, request.Name, text.Span(request.Wait))
	}
	return err
}

// allow is Limiter.Allow with an error for a refusal, as Wait has it.
func allow(ctx context.Context, limiter *fairsem.Limiter, weight int64) error {
	d, err := limiter.Allow(ctx, weight)
	if err != nil || d.Allowed {
		return err
	}
	return &fairsem.WaitError{RetryAfter: d.RetryAfter}
}
