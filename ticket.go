package fairsem

import (
	"context"
	"errors"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/protocol"
)

// phase is how far a ticket has come, as far as its client knows.
//
//	asking ──> waiting ──> holding ──> leaving ──> removed
//
// Any phase can be skipped. Only what Redis says, in an answer or a message, moves a ticket forward, with exceptions that are
// safe without it: its caller or Close can give it up, and a lease that ends also ends what the ticket has.
type phase int

const (
	asking  phase = iota // its acquire has not been answered
	waiting              // it is in the queue
	holding              // it has a permit that its holder may rely on
	leaving              // it was given up, and Redis has not confirmed its release
	removed              // nothing more is to be done for it
)

// ticket is one attempt to get a permit, from the acquire to the release. Its id is never used again.
type ticket struct {
	state     *nameState
	seq       int64
	id        string
	weight    int64 // units that it asks for
	params    protocol.AcquireParams
	spec      protocol.LimitSpec // that its caller declares
	noRefresh bool
	observed  bool            // its events are wanted
	asked     time.Time       // when its caller called
	values    context.Context // the context of its caller, for the values of the permit's context

	done     chan struct{} // closed when permit or err is set
	released chan struct{} // closed when it is removed

	// Guarded by nameState.mu.
	phase               phase
	busy                bool        // an operation is queued or in flight; the next one is sent after it
	maybeApplied        bool        // an operation without an answer may have been executed, or may be later
	releaseMaybeApplied bool        // one of them was a release
	unansweredSince     time.Time   // since when an answer is due; zero: none is
	cause               error       // of the missing answer
	position            int64       // in the queue; only who may read the queue knows it, so it authenticates a wake message
	token               int64       // of the grant, once it is known
	earlyGrant          grantNotice // notice that overtook the answer to the acquire
	by                  GrantedBy   // how the client learned of the grant
	epoch               int64       // in which Redis confirmed it last
	recheck             bool        // query it as soon as no operation is under way
	parts               parts       // released by its holder
	lease               window      // from the last confirmation
	known               bool        // leaving: Redis had answered its acquire
	forgottenAt         time.Time   // leaving: when it has expired in Redis in any case
	releaseErr          error       // set before released is closed: result of the release
	reported            bool        // the end of the permit has been reported
	permit              *Permit     // set before done is closed
	err                 error       // set before done is closed
	quoted              quote       // of a rate limit; set before done is closed
}

// PermitID is the id under which Redis knows t.
func (t *ticket) PermitID() string { return t.id }

// Units are what t asks for.
func (t *ticket) Units() int64 { return t.weight }

// grantNotice is a grant from a message or a reply, with the epoch of the name at that time.
type grantNotice struct {
	protocol.Grant
	epoch int64
	by    GrantedBy
}

// quote is what a rate limit returns besides yes or no.
type quote struct {
	left  int64         // available units
	retry time.Duration // until the answer would be yes
}

// lapses reports whether a grant of t is never released, but expires after the window of a rate limit.
func (t *ticket) lapses() bool { return t.spec.Window > 0 }

// await waits for the outcome of a ticket. It gives the ticket up if ctx ends first, if the time latest passes, or if the
// permit was lost before the caller received it.
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
			return ErrEvicted // an evicted permit is not to be acquired again
		}
		return errPositionLost
	}
	if t.lapses() && !t.state.removeRateGrant(t) {
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

// renewable reports whether t may be refreshed now.
func (t *ticket) renewable() bool {
	return !t.busy && (t.phase == waiting || t.phase == holding && !t.noRefresh)
}

// isOverdue reports whether t has a permit that may no longer be relied on.
func (t *ticket) isOverdue(now clock.Instant) bool {
	return t.phase == holding && t.lease.left(now) <= 0
}

// isUnanswered reports whether an answer about t is due.
func (t *ticket) isUnanswered() bool { return !t.unansweredSince.IsZero() }

// nextDeadline returns when t needs a tick at the latest.
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
	asleep := t.state.client.clock.Asleep()
	if t.phase == holding {
		sooner(t.lease.end(asleep))
	}
	if !t.unansweredSince.IsZero() && t.phase != holding && t.phase != leaving {
		sooner(t.unansweredSince.Add(t.params.TTL))
	}
	if t.renewable() {
		sooner(t.lease.due(asleep))
	}
	return at
}

// isGone reports whether t is removed, with Redis's confirmation.
func (t *ticket) isGone() bool {
	select {
	case <-t.released:
		return t.releaseErr == nil || errors.Is(t.releaseErr, ErrLost)
	default:
		return false
	}
}
