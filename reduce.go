package fairsem

import "slices"

// A permit that is given back in parts. How much of it was given back is a number that only grows, and
// Redis is told what the holder keeps: one call can tell of many parts, and one that is late undoes none.

// parts are what a holder has given back of a ticket that it goes on to hold.
type parts struct {
	given int64  // units
	told  int64  // of these, what the operation under way tells Redis
	taken int64  // of these, what Redis has taken back in the ticket's epoch
	waits []part // until it has
}

// part is a wait until Redis has taken so many units of a ticket back.
type part struct {
	units int64
	taken chan struct{}
}

// keeps is how many units t should still have. The caller holds view.mu.
func (t *ticket) keeps() int64 { return t.weight - t.parts.given }

// keeps returns how many units each of the tickets should still have.
func (v *nameState) keeps(tickets []*ticket) []int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := make([]int64, len(tickets))
	for i, t := range tickets {
		all[i] = t.keeps()
	}
	return all
}

// reduce gives back n units of t, which keeps some. The channel is closed when Redis has taken them; if
// t ends before that, it never is.
func (v *nameState) reduce(t *ticket, n int64) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	t.parts.given += n
	p := part{t.parts.given, make(chan struct{})}
	t.parts.waits = append(t.parts.waits, p)
	v.reduceLocked(t)
	return p.taken
}

// reduceLocked tells Redis what was given back of t. A renewal that is due, also in a new epoch, goes first: a reduce renews
// nothing, and many parts, one after the other, would keep the renewal from its turn.
func (v *nameState) reduceLocked(t *ticket) {
	switch {
	case t.phase != holding || t.parts.taken == t.parts.given:
	case t.outdated(v.epoch) || t.renewable() && t.lease.isDue(v.client.clock.now()):
		v.refreshLocked(t)
	default:
		v.submitLocked(t, batchKey{state: v, script: reduceScript, spec: v.spec})
	}
}

// takenLocked: Redis has taken back what it was told.
func (v *nameState) takenLocked(t *ticket) {
	t.parts.taken = t.parts.told
	t.parts.waits = slices.DeleteFunc(t.parts.waits, func(p part) bool {
		over := p.units <= t.parts.taken
		if over {
			close(p.taken)
		}
		return over
	})
	v.scheduleLocked(t.nextDeadline())
}
