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
	longestRetry     = time.Minute           // a pace is an estimate
	unavailableRetry = 10 * time.Second
)

// RetryAfter returns when a request that an error of Enter refused may be let through; 0: that is not known, or never. It asks
// Redis for the pace of a queue, unless ctx, that of the request, has ended.
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
	_, rate := limit.(*fairsem.Limiter)
	switch {
	case errors.As(err, &limited):
		return max(limited.RetryAfter, time.Millisecond)
	case rate || ctx.Err() != nil: // no pace helps: the rate is exact, or the client is gone
		return busyRetry
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusWait)
	defer cancel()
	status, err := limit.Status(ctx)
	wait, known := status.ExpectedWait()
	if err != nil || !known {
		return busyRetry
	}
	return min(max(wait, busyRetry), longestRetry)
}
