package fairsemriver

import (
	"context"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/fairsem/fairsem/internal/jobs"
)

// Middleware returns a middleware that lets those jobs be worked which limit lets through, and reschedules the others; see the package. The
// limit must be nil if Options.LimitOf is set. The error is [fairsem.ErrInvalid].
//
// It is for Config.Middleware of a River client, or for the result of the Middleware method of a Worker. A middleware before it sees
// an error that wraps a [river.JobSnoozeError] for each job that is rescheduled, and must return it, or an error that wraps it.
func Middleware(limit Limit, opts Options) (rivertype.WorkerMiddleware, error) {
	runner, err := jobs.New(jobs.Options[*rivertype.JobRow, Limit]{
		Who: "fairsemriver.Middleware", Limit: limit, LimitOf: opts.LimitOf, Weight: opts.Weight, MaxWait: opts.MaxWait, OnReschedule: opts.OnReschedule,
	})
	if err != nil {
		return nil, err
	}
	return &middleware{runner: runner}, nil
}

type middleware struct {
	river.MiddlewareDefaults
	runner *jobs.Runner[*rivertype.JobRow, Limit]
}

func (m *middleware) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	delay, err := m.runner.Run(ctx, job, work)
	if delay > 0 {
		return fmt.Errorf("rescheduled: %w: %w", err, river.JobSnooze(delay))
	}
	return err
}
