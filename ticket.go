package fairsem

import (
	"context"
	"errors"
	"time"
)

// phase is where a ticket is on its way, as far as its client knows.
//
//	asking ──> waiting ──> holding ──> leaving ──> gone
//
// Any step can be left out. Only an answer of Redis moves a ticket forward, with two exceptions that
// are safe without one: its user can have it leave, and a lease that runs out ends what it held.
type phase int

const (
	asking  phase = iota // its acquire has not been answered
	waiting              // it has a place in line
	holding              // it has a permit that its user may rely on
	leaving              // it is given up, and Redis has not said yet that it is out
	gone                 // there is nothing more to do for it
)

// ticket is one try to get a permit, from the question to the giving back. Its id is never used again.
type ticket struct {
	state     *nameState
	seq       int64
	id        string
	weight    int64 // that it asks for
	params    acquireParams
	spec      limitSpec // that its caller declares
	noRefresh bool
	observed  bool            // somebody wants to be told what happens to it
	asked     time.Time       // when its caller came
	values    context.Context // for the permit: only its values are used

	done     chan struct{} // closed when permit or err is there
	released chan struct{} // closed when it is gone

	// Guarded by view.mu.
	phase               phase
	busy                bool        // an operation is queued or on its way; the next one comes after its end
	maybeApplied        bool        // some operation may have been executed, or may still be
	releaseMaybeApplied bool        // one of them was a release
	unansweredSince     time.Time   // since when Redis owes an answer; zero: it owes none
	cause               error       // of the silence
	position            int64       // in line; only Redis and this client know it, so it vouches for a wake message
	token               int64       // of the grant, as soon as it is heard of
	earlyGrant          grantNotice // that overtook the answer to the acquire
	by                  GrantedBy   // how it was heard of
	epoch               int64       // in which Redis confirmed it last
	recheck             bool        // ask Redis about it as soon as no operation is under way
	parts               parts       // that its user has given back
	lease               window      // what Redis confirmed last
	known               bool        // leaving: Redis had taken it in
	forgottenAt         time.Time   // leaving: when Redis has forgotten it anyway
	releaseErr          error       // set before left is closed: how the release went
	reported            bool        // how the permit ended
	permit              *Permit     // set before settled is closed
	err                 error       // likewise
	quoted              quote       // likewise, of a rate
}

// quote is what a rate says beside yes or no.
type quote struct {
	left  int64         // units that nobody has
	retry time.Duration // until it would be a yes
}

// lapses reports whether what t is granted is never given back, because it is that of a rate.
func (t *ticket) lapses() bool { return t.spec.window > 0 }

// await waits for the outcome of a ticket. It gives the ticket up when ctx ends first, or it is later than latest, and
// when the permit was lost before its user could see it.
func (t *ticket) await(ctx context.Context, latest time.Time) error {
	var late <-chan time.Time
	if !latest.IsZero() {
		timer := time.NewTimer(time.Until(latest))
		defer timer.Stop()
		late = timer.C
	}
	isLate := false
	select {
	case <-t.done:
	case <-ctx.Done():
	case <-late:
		isLate = !t.isDone()
	}
	if err := ended(ctx); err != nil {
		return withDoubt(err, t.state.giveUp(t))
	}
	if isLate {
		return withDoubt(ErrNotAcquired, t.state.giveUp(t))
	}
	if t.err != nil {
		return t.err
	}
	if !t.permit.take() {
		t.state.leave(t) // the client was closed, or this goroutine stood still for nearly a TTL
		if errors.Is(t.permit.ended(), ErrEvicted) {
			return ErrEvicted // who evicts it does not want it back
		}
		return errPositionLost
	}
	if t.lapses() && !t.state.spend(t) {
		return errPositionLost
	}
	return nil
}

func (t *ticket) isDone() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// renewable reports whether a refresh may name t now.
func (t *ticket) renewable() bool {
	return !t.busy && (t.phase == waiting || t.phase == holding && !t.noRefresh)
}

// isOverdue reports whether t has a permit that may not be relied on any more.
func (t *ticket) isOverdue(now instant) bool { return t.phase == holding && t.lease.left(now) <= 0 }

// isOwed reports whether a question about t has had no answer.
func (t *ticket) isUnanswered() bool { return !t.unansweredSince.IsZero() }

// attention returns when t needs a look at the latest.
func (t *ticket) nextDeadline() time.Time {
	var at time.Time
	sooner := func(other time.Time) {
		if at.IsZero() || other.Before(at) {
			at = other
		}
	}
	if t.phase == leaving {
		sooner(t.forgottenAt)
	}
	asleep := t.state.client.clock.known()
	if t.phase == holding {
		sooner(t.lease.end(asleep))
	}
	if !t.unansweredSince.IsZero() && t.phase != holding && t.phase != leaving {
		sooner(t.unansweredSince.Add(t.params.ttl))
	}
	if t.renewable() {
		sooner(t.lease.due(asleep))
	}
	return at
}

// isGone reports whether t is gone, and Redis has confirmed it.
func (t *ticket) isGone() bool {
	select {
	case <-t.released:
		return t.releaseErr == nil || errors.Is(t.releaseErr, ErrLost)
	default:
		return false
	}
}
