package fairsempgx

import (
	"errors"
	"fmt"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/fair"
)

// What Configure cannot see, because it comes later.
var (
	errTwoPools      = fmt.Errorf("%w: fairsempgx: one config was used for two pools: parse and configure one for each", fairsem.ErrInvalid)
	errBeforeConnect = fmt.Errorf("%w: fairsempgx: BeforeConnect was set after Configure, so connections have no permit: set it before", fairsem.ErrInvalid)
	errTracer        = fmt.Errorf("%w: fairsempgx: ConnConfig.Tracer was set after Configure, so calls and dials do not wait for a permit: set it before", fairsem.ErrInvalid)
)

var errFull = errors.New("fairsempgx: the pool has MaxConns connections, with those that were hijacked or are being closed")

// explain adds the cause of a wait in vain to its error.
func (p *pool) explain(err error) error {
	p.mu.Lock()
	full, last := len(p.links) >= p.max, p.requests.err
	p.mu.Unlock()
	if full {
		return fmt.Errorf("fairsempgx: all %d connections of this pool are in use: %w", p.max, err)
	}
	inUse, known := fair.InUse(p.sem.Inspector)
	switch {
	case known:
		return fmt.Errorf("fairsempgx: %s: %w", inUse, err)
	case errors.Is(last, fairsem.ErrUnavailable):
		return fmt.Errorf("fairsempgx: %w: %w", err, last)
	}
	return fmt.Errorf("fairsempgx: %w, while it waited for a permit of %q", err, p.sem.Name())
}
