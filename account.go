package fairsem

import (
	"errors"
	"fmt"
)

// account is on whose account a ticket is, and what its caller declares of that tenant. The zero value declares nothing: it is that of
// a call which names no tenant.
type account struct {
	tenant string
	share  int64 // 0: it declares nothing
	limit  int64
}

// isDefault reports whether it declares what holds for a tenant of which nothing was declared.
func (a account) isDefault() bool { return a.share <= 1 && a.limit == 0 }

// explain adds to an error that it is about the tenant, where it may be.
func (a account) explain(err error) error {
	if a.share > 0 && (errors.Is(err, ErrQueueFull) || errors.Is(err, ErrExceedsLimit)) {
		return fmt.Errorf("%w (tenant %q)", err, a.tenant)
	}
	return err
}
