package fairsemasynq

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
)

// configured is the key of a value that the contexts of tasks have on a server that was made with a Config of configure.
type configured struct{}

// configure has a server reschedule tasks without counting a failure. The functions of the Config are called for all other errors, and its
// ErrorHandler for those that end a task, too.
func configure(config *asynq.Config) {
	config.RetryDelayFunc = delayOf(config.RetryDelayFunc)
	config.IsFailure = isFailure(config.IsFailure)
	if config.ErrorHandler != nil {
		config.ErrorHandler = handleError(config.ErrorHandler)
	}
	config.BaseContext = baseContext(config.BaseContext)
}

func delayOf(others asynq.RetryDelayFunc) asynq.RetryDelayFunc {
	if others == nil {
		others = asynq.DefaultRetryDelayFunc
	}
	return func(n int, err error, task *asynq.Task) time.Duration {
		if rescheduled, is := errors.AsType[*RescheduleError](err); is {
			return toWholeSecond(time.Now(), rescheduled.Delay)
		}
		return others(n, err, task)
	}
}

// toWholeSecond lengthens a delay that begins now so that it ends with a second. asynq stores in which second a task is due, so it would
// try it up to a second early, and again and again until its turn comes.
func toWholeSecond(now time.Time, delay time.Duration) time.Duration {
	due := now.Add(delay)
	return due.Add(time.Second - 1).Truncate(time.Second).Sub(now)
}

func isFailure(others func(error) bool) func(error) bool {
	return func(err error) bool { return !isRescheduled(err) && (others == nil || others(err)) }
}

func handleError(others asynq.ErrorHandler) asynq.ErrorHandler {
	return asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
		if !isRescheduled(err) || endsTask(ctx, err) {
			others.HandleError(ctx, task, err)
		}
	})
}

// endsTask reports whether asynq archives or drops the task for that error, before it asks IsFailure.
func endsTask(ctx context.Context, err error) bool {
	return isLast(ctx) || errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask)
}

func baseContext(others func() context.Context) func() context.Context {
	if others == nil {
		others = context.Background
	}
	return func() context.Context { return context.WithValue(others(), configured{}, true) }
}

func isRescheduled(err error) bool {
	_, is := errors.AsType[*RescheduleError](err)
	return is
}
