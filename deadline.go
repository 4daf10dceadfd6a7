package fairsem

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// WaitError is the error of a call that was not granted, with the time until it would be. It is also [ErrNotAcquired].
type WaitError struct {
	RetryAfter time.Duration // until the same call would be granted, if no other came; or a lower bound, as from [Limiter.Allow]
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("%v: its turn would come in %v", ErrNotAcquired, e.RetryAfter)
}

// Unwrap returns [ErrNotAcquired].
func (e *WaitError) Unwrap() error { return ErrNotAcquired }

// ended returns the error of a call whose context has ended: that of the context, and its cause if that says more.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// withDoubt adds to the error of a call that Redis had not answered it; nil: Redis had.
func withDoubt(err, unanswered error) error {
	if unanswered == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, unanswered)
}

// background is the root context, also for go-redis calls that require a context and never use it.
var background = context.Background()
