package fairsempgx

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
)

var errTwoPools = fmt.Errorf("%w: fairsempgx: one config was used for two pools: parse and configure one for each", fairsem.ErrInvalid)

var errFull = errors.New("fairsempgx: the pool has MaxConns connections, with those that were hijacked or are being closed")

// statusWait bounds the question for what is in use: a call that has failed returns soon all the same.
const statusWait = 50 * time.Millisecond

// explain says what a call waited for in vain.
func (p *pool) explain(err error) error {
	p.mu.Lock()
	full, last := len(p.links) >= p.max, p.requests.err
	p.mu.Unlock()
	if full {
		return fmt.Errorf("fairsempgx: all %d connections of this pool are in use: %w", p.max, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusWait)
	defer cancel()
	s, unknown := p.sem.Status(ctx)
	switch {
	case unknown != nil && errors.Is(last, fairsem.ErrUnavailable):
		return fmt.Errorf("fairsempgx: %w: %w", err, last)
	case unknown != nil:
		return fmt.Errorf("fairsempgx: %w, while it waited for a permit of %q", err, p.sem.Name())
	case s.Limit == 0:
		return fmt.Errorf("fairsempgx: %q is paused, its limit was set to 0: %w", s.Name, err)
	}
	return fmt.Errorf("fairsempgx: %d of %d connections of %q are in use: %w", s.Used, s.Limit, s.Name, err)
}
