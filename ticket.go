package fairsem

import (
	"context"
	"errors"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
)

// phase is how far a ticket has come, as far as its client knows.
//
//	asking ──> waiting ──> holding ──> leaving ──> removed
//
// Any phase can be skipped. Only Redis, in an answer or a message, moves a ticket forward, with exceptions that are
// safe without it: its caller or Close can give it up, and the end of a lease also ends the permit or position of the ticket.
type phase uint8

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
	weight    int64              // units that it asks for
	opts      *CallOptions       // of the handle that asked, which never change
	spec      protocol.LimitSpec // that the handle declares
	ttl       time.Duration
	waits     bool            // in the queue, if it is not granted at once
	observed  bool            // its events are wanted
	refused   bool            // its caller has received the refusal of Redis; only the caller uses it
	asked     time.Time       // when its caller called
	waitUntil time.Time       // until when it may wait for its turn of a rate; zero: for any time
	values    context.Context // the context of its caller, for the values of the permit's context

	done     chan struct{} // closed when hold or err is set
	released chan struct{} // closed when it is removed; nil until it is released, also in parts, or removed

	// Guarded by nameState.mu.
	phase               phase
	busy                bool          // an operation is queued or in flight; the next one is sent after it
	maybeApplied        bool          // an operation without an answer may have been executed, or may be later
	releaseMaybeApplied bool          // one of them was a release
	recheck             bool          // query it as soon as no operation is under way
	heard               bool          // Redis has answered its acquire, if only that it cannot say yet
	known               bool          // Redis has said that it holds or waits; cleared only when it is given up because Redis does not have it
	reported            bool          // the end of the permit has been reported
	unansweredSince     time.Time     // since when an answer is due; zero: none is
	cause               error         // of the missing answer
	position            int64         // in the queue; only users who can read the queue know it, so it authenticates a wake message
	token               int64         // of the grant, once it is known
	numbers             []int64       // of its units, with the token
	earlyGrant          *grantNotice  // notice that overtook the answer to the acquire, or nil
	by                  GrantedBy     // how the client learned of the grant
	epoch               int64         // in which Redis confirmed it last
	grantedIn           int64         // the epoch in which its permit was granted; 0: an earlier one than that of its first confirmation
	parts               *parts        // released by its holder; nil: none
	lease               window        // from the last confirmation
	leftAt              time.Time     // leaving: since when
	releaseErr          error         // set before released is closed: result of the release
	wanted              chan struct{} // closed when calls wait; nil until its holder asks for it
	hold                hold          // of its permit, set before done is closed
	err                 error         // set before done is closed
	quoted              quote         // of a rate limit; set before done is closed
}

// PermitID is the id under which Redis knows t.
func (t *ticket) PermitID() string { return t.id }

// Units is the number of units that t requests.
func (t *ticket) Units() int64 { return t.weight }

// MaxWait is for how long t may wait from now on.
func (t *ticket) MaxWait() time.Duration { return time.Until(t.waitUntil) }

// account is the tenant that t is charged to.
func (t *ticket) account() account { return t.opts.account() }

// params are those of the acquire of t.
func (t *ticket) params() protocol.AcquireParams {
	return protocol.AcquireParams{
		TTL: t.ttl, Wait: t.waits, MaxQueue: t.opts.MaxQueue, HeadStart: t.opts.HeadStart,
		Bounded: !t.waitUntil.IsZero(), Numbered: t.opts.Numbered,
	}
}

// cost is how many tickets without numbers take Redis as long as t.
func (t *ticket) cost() int {
	if t.opts.Numbered {
		return protocol.Cost(t.weight)
	}
	return 1
}

// grantNotice is a grant from a message or a reply, with the epoch of the name at that time.
type grantNotice struct {
	protocol.Grant
	epoch int64
	by    GrantedBy
}

// quote is the answer of a rate limit besides yes or no.
type quote struct {
	available int64         // units
	retry     time.Duration // until the answer would be yes
}

// parts are the units that the holder of a ticket has released while keeping the rest.
type parts struct {
	released  int64  // units
	sent      int64  // of these, in the operation in flight
	confirmed int64  // of these, confirmed by Redis in the ticket's epoch
	waits     []part // until they are confirmed
}

// isUnconfirmed reports whether Redis has not confirmed all that was released.
func (p *parts) isUnconfirmed() bool { return p != nil && p.confirmed != p.released }

// part is a wait until Redis has confirmed the release of so many units of a ticket.
type part struct {
	units     int64
	confirmed chan struct{}
}

// keeps is how many units t should still have.
func (t *ticket) keeps() int64 {
	if t.parts == nil {
		return t.weight
	}
	return t.weight - t.parts.released
}

// keptNumbers are those of the units that t should still have: a part that is released has the highest.
func (t *ticket) keptNumbers() []int64 { return t.numbers[:min(int64(len(t.numbers)), t.keeps())] }

// countsInWindow reports whether a grant of t is never released, but expires after the window of a rate limit.
func (t *ticket) countsInWindow() bool { return t.spec.Window > 0 }

func (t *ticket) isDone() bool { return isClosed(t.done) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// renewable reports whether t may be refreshed now.
func (t *ticket) renewable() bool {
	return !t.busy && (t.phase == waiting || t.phase == holding && !t.opts.NoRefresh)
}

// isOverdue reports whether t has a permit that may no longer be relied on.
func (t *ticket) isOverdue(now clock.Instant) bool {
	return t.phase == holding && t.lease.remaining(now) <= 0
}

// isSilent reports whether Redis has not answered for a whole TTL.
func (t *ticket) isSilent(now clock.Instant) bool {
	return t.isUnanswered() && now.Sub(t.unansweredSince) >= t.ttl
}

// endsInSilence reports whether t ends when Redis has not answered for a whole TTL. A permit ends sooner, and a release is tried for
// longer.
func (t *ticket) endsInSilence() bool { return t.phase == asking || t.phase == waiting }

// isUnanswered reports whether an answer about t is due.
func (t *ticket) isUnanswered() bool { return !t.unansweredSince.IsZero() }

// isOutdated reports whether Redis has not confirmed a position, or a permit, in this epoch.
func (t *ticket) isOutdated(epoch int64) bool {
	return t.isStored() && epoch != 0 && t.epoch != epoch
}

// isStored reports whether Redis has confirmed a position or a permit that a loss of state may have taken.
func (t *ticket) isStored() bool {
	permit := (t.phase == holding || t.phase == leaving && t.hold.begun) && !t.countsInWindow()
	return t.phase == waiting || permit
}

// isLess reports whether Redis, where t is in a state, has less of it in this epoch than it had before: an old file may have a permit as a
// position still.
func (t *ticket) isLess(s protocol.State, epoch int64) bool {
	switch s {
	case protocol.Gone, protocol.Early: // Early: it is not restored yet
		return t.isOutdated(epoch)
	case protocol.Waiting:
		return t.phase != waiting && t.isOutdated(epoch)
	}
	return false
}

// confirmed records that Redis has t in this epoch. The weight that it has there may be older than the one it had before, also in the same
// epoch where nobody knows which server it is: without the right to INFO a restart begins none.
func (t *ticket) confirmed(epoch, server int64) {
	if t.parts != nil && (t.epoch != epoch || server == 0) {
		t.parts.confirmed = 0
	}
	t.epoch = epoch
}

// number is the token of a holder, or the position of a waiter.
func (t *ticket) number() int64 {
	if t.phase == holding {
		return t.token
	}
	return t.position
}

// rest is what is left of the lease of a permit that is never renewed, rounded up so that many can share a call.
func (t *ticket) rest(now clock.Instant) time.Duration {
	step := t.ttl / 100
	return (t.lease.after(t.ttl, now.Asleep).Sub(now.Time) + step - 1) / step * step
}

// nextDeadline returns when t needs a tick at the latest, if the machine has been suspended for asleep by now.
func (t *ticket) nextDeadline(asleep time.Duration) time.Time {
	var at time.Time
	sooner := func(other time.Time) {
		if at.IsZero() || other.Before(at) {
			at = other
		}
	}
	if t.phase == leaving {
		sooner(t.expiresAt())
	}
	if t.phase == holding {
		sooner(t.lease.end(asleep))
	}
	if t.isUnanswered() && t.endsInSilence() {
		sooner(t.unansweredSince.Add(t.ttl))
	}
	if t.renewable() {
		sooner(t.lease.due(asleep))
	}
	return at
}

// whyOver returns why the lease of t is over by the clock.
func (t *ticket) whyOver(asleep time.Duration) error {
	switch {
	case t.opts.NoRefresh:
		return errNoRefreshExpired
	case asleep > t.lease.sent.Asleep:
		return errAsleep
	case t.cause != nil:
		return t.cause
	case t.busy:
		return failure.ErrNoAnswer
	default:
		return errTooLate // this process stood still
	}
}

// longestDoubt is for how long after a TTL a call of a rate without an answer is released, where the window is longer. Longer would
// fill the memory in an outage, and have Redis remember all these calls after it.
const longestDoubt = time.Minute

// expiresAt is when t, which is leaving, will have expired in Redis: a late grant of an acquire without an answer still counts for the
// window of a rate.
func (t *ticket) expiresAt() time.Time {
	return t.leftAt.Add(t.ttl + min(t.spec.Window, longestDoubt))
}

// held is how long the holder of t could rely on its permit, until it was released.
func (t *ticket) held(now clock.Instant) time.Duration {
	end := now.Time
	if !t.leftAt.IsZero() {
		end = t.leftAt
	}
	if over := t.lease.end(now.Asleep); over.Before(end) {
		end = over
	}
	return end.Sub(t.hold.at)
}

// endLocked returns the channel released. It is made when a caller releases t: a waiter and a holder take less memory without it.
func (t *ticket) endLocked() chan struct{} {
	if t.released == nil {
		t.released = make(chan struct{})
	}
	return t.released
}

// isReleased reports whether t is removed, with Redis's confirmation.
func (t *ticket) isReleased() bool {
	return isClosed(t.released) && (t.releaseErr == nil || errors.Is(t.releaseErr, ErrLost))
}
