// Package held ties what a program uses to the permit that allows it: a context, or a connection. It is for packages that
// acquire and release permits on behalf of their callers.
package held

import (
	"context"

	"github.com/fairsem/fairsem"
)

// Release releases a permit and does not wait for Redis: what it is called from, such as the end of a response, is not delayed
// by a round trip, or by an outage.
func Release(p *fairsem.Permit) {
	go func() { _ = p.Release(context.Background()) }() // ends within a second; Client.Close releases what it has not released
}

// Context returns a context that has the values of parent and ends with parent or with the permit, whichever comes first;
// [context.Cause] says which. The caller calls cancel, which does not release the permit.
func Context(parent context.Context, p *fairsem.Permit) (ctx context.Context, cancel func()) {
	inner, end := context.WithCancelCause(parent)
	lease := p.Context()
	stop := context.AfterFunc(lease, func() { end(context.Cause(lease)) })
	return leaseContext{inner, lease, end}, func() {
		stop()
		end(nil)
	}
}

// leaseContext also ends by the clock, as the context of a permit does: when a process that was stopped continues, its first
// call of Err reports the loss.
type leaseContext struct {
	context.Context
	lease context.Context
	end   context.CancelCauseFunc
}

func (c leaseContext) Err() error {
	if c.lease.Err() != nil {
		c.end(context.Cause(c.lease))
	}
	return c.Context.Err()
}
