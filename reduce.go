package fairsem

import (
	"slices"

	"github.com/fairsem/fairsem/internal/protocol"
)

// A permit that is released in parts. The units released so far only increase, and Redis is sent the units that the holder
// keeps: one call can release many parts, and a late call undoes none.

// parts are what the holder of a ticket has released of it while keeping the rest.
type parts struct {
	released  int64  // units
	sent      int64  // of these, in the operation in flight
	confirmed int64  // of these, confirmed by Redis in the ticket's epoch
	waits     []part // until they are confirmed
}

// part is a wait until Redis has confirmed the release of so many units of a ticket.
type part struct {
	units     int64
	confirmed chan struct{}
}

// keeps is how many units t should still have. The caller holds nameState.mu.
func (t *ticket) keeps() int64 { return t.weight - t.parts.released }

// keeps returns how many units each ticket should still have.
func (v *nameState) keeps(tickets []*ticket) []int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]int64, len(tickets))
	for i, t := range tickets {
		all[i] = t.keeps()
	}
	return all
}

// reduce releases n units of t, which keeps some. The channel is closed when Redis has confirmed it; if t ends before that,
// it is never closed.
func (v *nameState) reduce(t *ticket, n int64) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	t.parts.released += n
	p := part{t.parts.released, make(chan struct{})}
	t.parts.waits = append(t.parts.waits, p)
	v.reduceLocked(t)
	return p.confirmed
}

// reduceLocked sends Redis what was released of t. A renewal that is due, or due to a new epoch, goes first: a reduce
// renews nothing, and a series of parts would keep delaying the renewal.
func (v *nameState) reduceLocked(t *ticket) {
	switch {
	case t.phase != holding || t.parts.confirmed == t.parts.released:
	case t.outdated(v.epoch) || t.renewable() && t.lease.isDue(v.client.clock.Now()):
		v.refreshLocked(t)
	default:
		v.submitLocked(t, batchKey{state: v, script: protocol.ReduceScript, spec: v.spec})
	}
}

// reducedLocked records that Redis has confirmed the parts in flight.
func (v *nameState) reducedLocked(t *ticket) {
	t.parts.confirmed = t.parts.sent
	t.parts.waits = slices.DeleteFunc(t.parts.waits, func(p part) bool {
		over := p.units <= t.parts.confirmed
		if over {
			close(p.confirmed)
		}
		return over
	})
	v.scheduleLocked(t.nextDeadline())
}
