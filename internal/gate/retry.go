package gate

import (
	"context"
	"errors"
	"time"

	"github.com/fairsem/fairsem"
)

const (
	statusWait       = 50 * time.Millisecond // for the pace of a queue
	busyRetry        = time.Second           // where the pace is not known, or says nothing about the tenant of the request
	pausedRetry      = 10 * time.Second
	longestRetry     = time.Minute // a pace is an estimate
	unavailableRetry = 10 * time.Second
)

// Ended returns the error of a context that has ended for its caller, or nil. The end of a Client is none: it ends the context where the
// caller holds a permit of another limit.
func Ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), fairsem.ErrClosed) {
		return nil
	}
	return ctx.Err()
}

// RetryAfter returns when a request that an error of Enter refused may be let through; 0: that is not known, or never. It asks
// Redis for the pace of a queue, or for the queue of a rate, unless ctx, that of the request, has ended.
func RetryAfter(ctx context.Context, limit Limit, err error) time.Duration {
	switch VerdictOf(err) {
	case Busy:
		return retryBusy(ctx, limit, err)
	case Closing:
		return busyRetry
	case Unavailable:
		return unavailableRetry
	}
	return 0
}

func retryBusy(ctx context.Context, limit Limit, err error) time.Duration {
	var limited *fairsem.WaitError
	switch {
	case errors.As(err, &limited):
		return max(limited.RetryAfter, time.Millisecond)
	case ctx.Err() != nil: // the client is gone
		return busyRetry
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusWait)
	defer cancel()
	status, err := limit.Status(ctx)
	switch {
	case err == nil && status.Limit == 0:
		return pausedRetry
	case err == nil && status.Window > 0:
		return max(atItsRate(status), busyRetry)
	}
	wait, known := status.ExpectedWait()
	if err != nil || !known {
		return busyRetry
	}
	return min(max(wait, busyRetry), longestRetry)
}

// atItsRate returns how long a Limiter takes for its waiters and one more, at most its window. Only a call that joined no queue gets that
// exactly: not one that found the queue full, and none with a head start.
func atItsRate(s fairsem.Status) time.Duration {
	return time.Duration(float64(s.Window) * min(float64(s.Waiting+1)/float64(s.Limit), 1))
}
