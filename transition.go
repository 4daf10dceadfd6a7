package fairsem

import "github.com/fairsem/fairsem/internal/protocol"

// What can happen to a ticket, and what is done then, is one pure function: next. It knows nothing but a situation, so
// transition_test.go can go through all situations; docs/model has the same rules beside those of the server.

// event is what happens to a ticket.
type event int

const (
	answered event = iota // Redis has answered an operation
	failed                // an operation got no answer, or a refusal
	notified              // a message, or the reply to another call, says something about it
	ticked                // time has passed
	left                  // it was given up, or is about to be sent although it was
	received              // its caller has its grant of a rate, which Redis counts until that expires
	closed                // its client closes
)

// situation is all that a transition depends on.
type situation struct {
	event event
	phase phase

	// Of an answer.
	verb  *protocol.Script
	state protocol.State
	other bool // holding: Redis has another grant of it
	less  bool // Redis has less of it in this epoch than it had before
	newer bool // the answer is younger than the grant
	stale bool // waiting: the grant in the answer is from before it waited, so from an old file
	old   bool // the answer is so old that an eviction since may have been forgotten

	// Of a notice, which can be late, or forged: it counts if it names what only Redis knows.
	grant      bool // it is about a grant, and not about something to be queried
	ofPosition bool // it names the position of the ticket in the queue
	ofToken    bool // it names the token of the ticket
	otherEpoch bool // the grant has been lost since: positions are restored unchanged
	misfit     bool // it has numbers for a permit without numbers

	// Of a grant that an answer or a notice reports.
	verifyFirst bool // the lease that is left is too short, or only an answer about the ticket is enough
	unnumbered  bool // it has not the numbers that the permit is to have

	// Of a failure.
	final    bool // trying again cannot help
	carried  bool // it was released by a call that had to acquire, too
	executed bool // Redis has executed it without confirming that, or may have executed an earlier copy of it, and no caller has its permit

	// Of the ticket.
	busy         bool // an operation is queued or in flight
	known        bool // Redis has said that it holds or waits, and it was not given up because Redis does not have it
	maybeApplied bool // an operation without an answer may have been executed, or may be later
	neverRenewed bool
	ended        bool // holding: its permit has ended, and its holder was notified
	overdue      bool // holding: its lease is over by the clock
	expired      bool // leaving: it has expired in Redis in any case, or its client waits no longer for an answer
	silent       bool // no answer for a whole TTL
	doubtful     bool // its state in Redis is to be queried
}

// effect is what is done with a ticket.
type effect int

const (
	doNothing          effect = iota
	doAsk                     // send its acquire
	doRelease                 // send its release
	doQuery                   // query its state, or renew it
	doRequery                 // the same, and once more if an answer is in flight
	doRestore                 // store it again
	doReduce                  // release what its holder has released of it
	doWait                    // record that it is in the queue
	doHold                    // hand over its permit
	doVerify                  // record that it was granted, and query it before its permit is handed over
	doReturn                  // end its wait and release it: its numbers are lost, and Acquire tries again
	doKeep                    // keep the notice until the answer to the operation under way shows whether it is true
	doRenew                   // its lease begins anew
	doConfirm                 // nothing has changed, but a query may be due
	doConfirmPart             // Redis has confirmed the release of a part
	doRetry                   // the server grants nothing yet: send its acquire later
	doRefuse                  // end its wait with the reason that Redis gave
	doLeave                   // give it up
	doLeaveUnanswered         // end its wait, and give it up: Redis does not answer
	doClose                   // end its wait and its permit, and give it up
	doLoseOverdue             // end its permit: its lease is over
	doLoseForged              // end its permit: a forged message had granted it
	doLoseEvicted             // end its permit: it was evicted
	doLoseMissing             // end its permit: Redis does not have it
	doLoseOther               // end its permit, and release it: Redis has granted it anew, with other numbers
	doRemove                  // remove it: Redis cannot have it
	doRemoveReleased          // remove it, with the outcome of its release
	doRemoveUnanswered        // remove it: it was released, and Redis does not answer
	doFail                    // end its wait with the error, and remove it
	doFailLeaving             // end its wait with the error, and give it up
)

// next is what is done with a ticket in a situation.
func next(s situation) effect {
	if s.phase == removed {
		return doNothing // it came too late
	}
	switch s.event {
	case answered:
		return nextAnswered(s)
	case failed:
		return nextFailed(s)
	case notified:
		return nextNotified(s)
	case ticked:
		return nextTicked(s)
	case left:
		return nextLeft(s)
	case received:
		return nextReceived(s)
	default:
		return nextClosed(s)
	}
}

func nextAnswered(s situation) effect {
	inRedis := s.state == protocol.Held || s.state == protocol.Waiting
	switch {
	case s.verb == protocol.ReleaseScript:
		return doRemoveReleased
	case s.phase == leaving && (inRedis || s.maybeApplied):
		return doRelease // given up while the operation was in flight, or a copy of an earlier one may still be
	case s.phase == leaving && s.less:
		return doRelease // of what Redis has lost, only the answer to that says whether another has it
	case s.phase == leaving:
		return doRemoveReleased // Redis no longer had it before its release was sent
	case s.phase == holding && s.other:
		return doLoseOther
	case s.phase == holding && s.ended:
		return doLeave // its lease is over by the clock, and its holder was notified
	case s.less && (s.verb == protocol.RefreshScript || s.verb == protocol.ReduceScript):
		return doRestore
	case s.phase == holding:
		return nextHolding(s)
	case s.stale && s.old:
		return doRequery // it may have been evicted since, and its tombstone may have expired
	case s.stale:
		return doRestore // the units of the old grant may have been granted again
	}
	switch s.state {
	case protocol.Held:
		return nextGranted(s)
	case protocol.Waiting:
		return doWait
	case protocol.Early:
		return doRetry
	default:
		return doRefuse
	}
}

// nextNotified ignores a notice that does not name the position or the token of the ticket, once its acquire has been answered, and a grant
// of another epoch.
func nextNotified(s situation) effect {
	switch {
	case s.phase == leaving:
		return doNothing
	case s.phase == asking || s.phase == waiting && !s.grant && s.ofToken:
		return doKeep // the answer that is in flight may be older
	case s.phase == holding && !s.grant && s.ofToken:
		return doRequery // it was evicted
	case s.phase == holding || !s.ofPosition:
		return doNothing
	case s.misfit || s.grant && s.otherEpoch:
		return doNothing
	case !s.grant:
		return doRequery // removed from the queue, and Acquire tries again; or a nearer deadline, which the answer has
	case s.unnumbered:
		return doVerify // keys were deleted, or it is forged
	default:
		return nextGranted(s)
	}
}

// nextGranted hands over a permit of whose lease enough is left.
func nextGranted(s situation) effect {
	switch {
	case s.verifyFirst:
		return doVerify
	case s.unnumbered:
		return doReturn // keys were deleted
	default:
		return doHold
	}
}

// nextHolding is for a permit whose holder relies on it.
func nextHolding(s situation) effect {
	switch {
	case s.state == protocol.Early:
		return doRequery // expired permits were in its way, and some still are
	case s.state == protocol.Waiting && s.newer:
		return doLoseForged
	case s.state == protocol.Evicted:
		return doLoseEvicted
	case s.state == protocol.Gone:
		return doLoseMissing
	case s.state == protocol.Held && s.verb == protocol.ReduceScript:
		return doConfirmPart
	case s.state == protocol.Held && s.neverRenewed:
		return doConfirm // its lease does not change
	default:
		return doRenew // even if it was still waiting then: a wake message overtook this answer
	}
}

// nextFailed: after a backoff every ticket continues where it was. Only what can never succeed ends here: a renewal is tried
// again all the same, and a permit that cannot be renewed or restored ends with its lease.
func nextFailed(s situation) effect {
	goesOn := s.verb == protocol.RefreshScript || s.verb == protocol.ReduceScript ||
		s.verb == protocol.RestoreScript && s.phase == holding
	switch {
	case !s.final || s.carried || goesOn:
		return doNothing
	case s.executed:
		return doFailLeaving
	default:
		return doFail
	}
}

func nextTicked(s situation) effect {
	switch {
	case s.phase == holding && s.overdue && !s.ended:
		return doLoseOverdue
	case s.phase == holding && s.overdue:
		return doLeave // Redis may not know yet
	case s.phase == leaving && s.expired:
		return doRemoveUnanswered
	case s.phase == leaving:
		return nextLeft(s)
	case s.silent && s.phase != holding:
		return doLeaveUnanswered
	case s.phase == asking:
		return doAsk
	case s.doubtful:
		return doQuery
	default:
		return doReduce // which does nothing unless a part of a holder is unconfirmed
	}
}

// nextLeft is for a ticket that was given up: it is released if Redis can have it.
func nextLeft(s situation) effect {
	switch {
	case s.busy:
		return doNothing // until the operation under way has ended
	case s.known || s.maybeApplied:
		return doRelease
	default:
		return doRemove // nothing was sent, or Redis refused it
	}
}

// nextReceived is for a grant of a rate: there is nothing to renew or to release.
func nextReceived(s situation) effect {
	if s.phase == holding {
		return doRemove
	}
	return doNothing // it was given up before, so it counts as not granted
}

func nextClosed(s situation) effect {
	if s.phase == leaving {
		return doNothing // it is released already
	}
	return doClose
}
