package gate

import (
	"context"
	"errors"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/failure"
)

// Verdict is the class of an error of Enter.
type Verdict int

// The verdicts.
const (
	Mistake     Verdict = iota // of the program
	Busy                       // the limit is reached
	TooHeavy                   // the limit is lower than the weight
	Closing                    // the Client is closed
	Unavailable                // Redis does not answer, or not as it should
)

// VerdictOf classifies an error. An error can be more than one, so the order matters.
func VerdictOf(err error) Verdict {
	var limited *fairsem.WaitError
	switch {
	case errors.Is(err, fairsem.ErrInvalid), failure.IsOtherKind(err): // also of a LimitOf that asks another Redis
		return Mistake
	case errors.Is(err, fairsem.ErrUnavailable):
		return Unavailable
	case errors.Is(err, fairsem.ErrExceedsLimit):
		return TooHeavy
	case errors.Is(err, fairsem.ErrClosed):
		return Closing
	case errors.As(err, &limited), errors.Is(err, fairsem.ErrNotAcquired), errors.Is(err, fairsem.ErrQueueFull),
		errors.Is(err, fairsem.ErrEvicted), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Busy
	}
	return Unavailable
}
