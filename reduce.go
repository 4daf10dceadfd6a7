package fairsem

import (
	"slices"

	"github.com/fairsem/fairsem/internal/protocol"
)

// A permit that is released in parts. The units released so far only increase, and Redis is sent the units that the holder
// keeps: one call can release many parts, and a late call undoes none.

// reduce releases n units of t, which keeps some. The channel is closed when Redis has confirmed it; if t ends before that,
// it is never closed.
func (v *nameState) reduce(t *ticket, n int64) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t.parts == nil {
		t.parts = new(parts)
	}
	t.parts.released += n
	p := part{t.parts.released, make(chan struct{})}
	t.parts.waits = append(t.parts.waits, p)
	t.endLocked() // a caller that waits for a part also waits for the end
	v.reduceLocked(t)
	return p.confirmed
}

// reduceLocked sends Redis the released units of t. A renewal that is due, or due to a new epoch, goes first: a reduce
// renews nothing, and a series of parts would keep delaying the renewal.
func (v *nameState) reduceLocked(t *ticket) {
	switch {
	case t.phase != holding || !t.parts.isUnconfirmed():
	case t.isOutdated(v.epoch) || t.renewable() && t.lease.isDue(v.host.clock.Now()):
		v.refreshLocked(t)
	default:
		v.submitLocked(t, requestKey{script: protocol.ReduceScript, spec: t.spec})
	}
}

// reducedLocked records that Redis has confirmed the parts in flight.
func (v *nameState) reducedLocked(t *ticket) {
	t.parts.confirmed = t.parts.sent
	t.parts.waits = slices.DeleteFunc(t.parts.waits, func(p part) bool {
		over := p.units <= t.parts.confirmed
		if over {
			v.waking.callers++
			close(p.confirmed)
		}
		return over
	})
	v.scheduleLocked(t.nextDeadline(v.host.clock.Asleep()))
}
