package fairsemnet

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairsem/fairsem"
)

// refusal is the error of a dial that got no unit. By its methods it is a net.Error that is no timeout, whatever it wraps: pgx replaces the
// error of a dial by one that says no more than "timeout", if errors.As finds a net.Error that is one.
type refusal struct{ why error }

func (r *refusal) Error() string   { return r.why.Error() }
func (r *refusal) Unwrap() error   { return r.why }
func (r *refusal) Timeout() bool   { return false }
func (r *refusal) Temporary() bool { return false }

// explain adds to the error of a wait in vain what is in use. It asks Redis once more, so it does nothing if Redis was silent.
func (d *Dialer) explain(err error) error {
	inVain := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, fairsem.ErrNotAcquired) || errors.Is(err, fairsem.ErrQueueFull)
	if !inVain || errors.Is(err, fairsem.ErrUnavailable) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusWait)
	defer cancel()
	status, unknown := d.Semaphore.Status(ctx)
	if unknown != nil {
		return err
	}
	return fmt.Errorf("fairsemnet: %s: %w", inUse(status), err)
}

// inUse says how many connections are open. It does not count waiters: the call that has failed may still be one.
func inUse(s fairsem.Status) string {
	if s.Limit == 0 {
		return fmt.Sprintf("%q is paused: its limit was set to 0", s.Name)
	}
	return fmt.Sprintf("%d of %d connections of %q are in use", s.Used, s.Limit, s.Name)
}
