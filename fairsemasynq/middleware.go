package fairsemasynq

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fairsem/fairsem/internal/gate"
	"github.com/fairsem/fairsem/internal/jobs"
)

const who = "fairsemasynq.Middleware"

// Middleware returns a middleware, for [asynq.ServeMux.Use], that handles the tasks which limit lets through and reschedules the others;
// see the package. The limit must be nil if Options.LimitOf is set. The error is [fairsem.ErrInvalid].
//
// It changes RetryDelayFunc, IsFailure, ErrorHandler and BaseContext of config, so that asynq does not count a rescheduled task as a
// failure. The functions that config has already are called for everything else, so set them before. The server must be made with config
// afterwards; on any other server every task fails. Several middlewares may share a config.
//
// A task passes the middlewares of a mux in the order of Use, which must be the same for all servers if several have limits: a task waits
// for one limit while it holds permits of those before it. A middleware before this one sees a [*RescheduleError] for each task
// that is rescheduled, and must return it, or an error that wraps it.
func Middleware(config *asynq.Config, limit Limit, opts Options) (asynq.MiddlewareFunc, error) {
	if config == nil {
		return nil, gate.Invalid(who, "the Config is nil: pass that of the server")
	}
	runner, err := jobs.New(jobs.Options[*asynq.Task, Limit]{
		Who: who, Limit: limit, LimitOf: opts.LimitOf, Weight: opts.Weight, MaxWait: opts.MaxWait, OnReschedule: opts.OnReschedule,
		MustStay: isLast,
	})
	if err != nil {
		return nil, err
	}
	configure(config)
	return func(next asynq.Handler) asynq.Handler {
		f, isFunc := next.(asynq.HandlerFunc)
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			switch {
			case next == nil || isFunc && f == nil:
				return gate.Invalid(who, "the handler is nil")
			case ctx.Value(configured{}) == nil:
				return gate.Invalid(who, "this server was not made with the Config that Middleware has changed: call Middleware before asynq.NewServer")
			}
			delay, err := runner.Run(ctx, task, func(ctx context.Context) error { return next.ProcessTask(ctx, task) })
			if delay > 0 {
				return &RescheduleError{Delay: delay, Err: err}
			}
			return err
		})
	}, nil
}

// isLast reports whether asynq would archive the task for any error: it looks at the number of retries before it asks IsFailure.
func isLast(ctx context.Context) bool {
	retried, known := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return known && retried >= most
}

// RescheduleError is the error that the middleware returns for a task that is rescheduled. Unwrap returns the reason, such as
// [fairsem.ErrNotAcquired] or [fairsem.ErrUnavailable]; a handler that returns one need not have a reason.
// If a handler returns one for a task without retries left, or one that wraps asynq.SkipRetry or asynq.RevokeTask, asynq does not try
// the task again, and Config.ErrorHandler is called.
type RescheduleError struct {
	Delay time.Duration // until the task is tried again
	Err   error
}

func (e *RescheduleError) Error() string {
	if e.Err == nil {
		return "rescheduled"
	}
	return "rescheduled: " + e.Err.Error()
}

func (e *RescheduleError) Unwrap() error { return e.Err }
