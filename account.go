package fairsem

import (
	"errors"
	"fmt"
)

// account is the tenant that a ticket is charged to, and the share and limit that its caller declares for it. The zero value declares
// nothing: it is that of a call which names no tenant.
type account struct {
	tenant string
	share  int64 // 0: it declares nothing
	limit  int64
}

// isDefault reports whether it declares the share and limit of a tenant for which nothing was declared.
func (a account) isDefault() bool { return a.share <= 1 && a.limit == 0 }

// explain adds to the error of a call for so many units, which declared that limit of the name, which queue or limit it is about. Redis
// does not say which limit was exceeded.
func (o *CallOptions) explain(err error, units, limit int64) error {
	a := o.account()
	switch {
	case errors.Is(err, ErrExceedsLimit) && limit > 0 && units > limit:
		return fmt.Errorf("%w (%d is more than the limit %d of the name)", err, units, limit)
	case errors.Is(err, ErrExceedsLimit) && a.share == 0:
		return fmt.Errorf("%w (%d is more than the limit in force, which another handle or process declared, or which was set by hand: see Status)", err, units)
	case errors.Is(err, ErrExceedsLimit):
		return fmt.Errorf("%w (of the name or of tenant %q: the limit in force is lower than the one this call declares)", err, a.tenant)
	case errors.Is(err, ErrQueueFull) && a.share == 0:
		return fmt.Errorf("%w (MaxQueue %d)", err, o.MaxQueue)
	case errors.Is(err, ErrQueueFull):
		return fmt.Errorf("%w (MaxQueue %d, tenant %q)", err, o.MaxQueue, a.tenant)
	}
	return err
}
