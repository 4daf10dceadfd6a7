package fairsemnet

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/fair"
)

// refusal is the error of a dial that got no unit. By its methods it is a net.Error that is no timeout, whatever it wraps: pgx replaces the
// error of a dial by one that says no more than "timeout", if errors.As finds a net.Error that is one.
type refusal struct{ why error }

func (r *refusal) Error() string   { return r.why.Error() }
func (r *refusal) Unwrap() error   { return r.why }
func (r *refusal) Timeout() bool   { return false }
func (r *refusal) Temporary() bool { return false }

// explain adds the units in use to the error of a wait in vain. It asks Redis once more, so it does nothing if Redis was silent.
func (d *Dialer) explain(err error) error {
	inVain := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, fairsem.ErrNotAcquired) || errors.Is(err, fairsem.ErrQueueFull)
	if !inVain || errors.Is(err, fairsem.ErrUnavailable) {
		return err
	}
	inUse, known := fair.InUse(d.Semaphore.Inspector)
	if !known {
		return err
	}
	return fmt.Errorf("fairsemnet: %s: %w", inUse, err)
}
