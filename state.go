package fairsem

import (
	"cmp"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
)

// open adds t and requests a permit for it. It reports false if the state has retired and t needs a new one.
func (v *nameState) open(t *ticket) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.retired {
		return false
	}
	t.state = v
	v.tickets[t.seq] = t
	v.askLocked(t)
	return true
}

func (v *nameState) askLocked(t *ticket) {
	v.submitLocked(t, requestKey{script: protocol.AcquireScript, spec: t.spec, params: t.params()})
}

// refreshLocked queries tickets, and renews those that Redis has, in as few calls as possible. It skips tickets whose last
// operation has not ended.
func (v *nameState) refreshLocked(tickets ...*ticket) {
	calls := make(map[requestKey][]*ticket, 1)
	for _, t := range tickets {
		if t.busy {
			continue
		}
		t.busy, t.recheck = true, false
		k := requestKey{script: protocol.RefreshScript, spec: t.spec, lease: t.ttl}
		if t.phase == holding && t.opts.NoRefresh { // an old file may have the earlier deadline of a waiter
			k.lease = t.rest(v.host.clock.Now())
		}
		calls[k] = append(calls[k], t)
	}
	for k, together := range calls {
		v.queueLocked(k, together...)
	}
}

// releaseLocked sends the release of a leaving ticket. If an acquire of it may still be in flight, a tombstone makes sure
// that it comes too late.
func (v *nameState) releaseLocked(t *ticket) {
	k := requestKey{script: protocol.ReleaseScript, spec: t.spec}
	if t.maybeApplied {
		k.tombstone = t.ttl
	}
	k.overdue = t.hold.begun && errors.Is(t.hold.ended(), ErrLost)
	v.submitLocked(t, k)
}

// recheckLocked queries tickets, and queries them again if the answer that is in flight may be too old.
func (v *nameState) recheckLocked(tickets ...*ticket) {
	for _, t := range tickets {
		t.recheck = true
	}
	v.refreshLocked(tickets...)
}

// pollLocked has the script reap and promote for all processes. Waiters of a rate limit are granted by polls. There it
// also queries its own first waiter: the poll of another process may have granted it, and the message may be lost.
func (v *nameState) pollLocked() {
	if v.spec.Window > 0 {
		if first := v.firstLocked(); first != nil {
			v.refreshLocked(first)
			return
		}
	}
	v.queueLocked(requestKey{script: protocol.RefreshScript, spec: v.spec})
}

// firstLocked returns the ticket of this process that is first in the queue, nil if none waits.
func (v *nameState) firstLocked() (first *ticket) {
	for _, t := range v.tickets {
		if t.phase == waiting && (first == nil || t.position < first.position) {
			first = t
		}
	}
	return first
}

func (v *nameState) moveLocked(t *ticket, to phase) {
	if t.phase == waiting {
		v.waiters--
	}
	if to == waiting {
		v.waiters++
	}
	if t.phase == holding && to != holding {
		delete(v.listeners, t)
	}
	t.phase = to
}

// stillWantedLocked is called when an operation is about to be sent. It returns the tickets that still want it.
func (v *nameState) stillWantedLocked(verb *protocol.Script, tickets []*ticket, now time.Time) []*ticket {
	still := tickets[:0]
	for _, t := range tickets {
		if verb != protocol.ReleaseScript && (t.phase == leaving || t.phase == removed) {
			t.busy = false
			v.applyLocked(t, situation{event: left})
			continue
		}
		if t.unansweredSince.IsZero() {
			t.unansweredSince = now
		}
		if verb == protocol.ReduceScript {
			t.parts.sent = t.parts.released
		}
		if t.endsInSilence() {
			v.scheduleLocked(t.unansweredSince.Add(t.ttl))
		}
		still = append(still, t)
	}
	return still
}

// answeredLocked handles the reply to a request that was sent at the time sent.
func (v *nameState) answeredLocked(r *request, rep protocol.Reply, sent clock.Instant) {
	k := r.callKey()
	v.backoff, v.spec = 0, k.spec
	v.scheduleLocked(v.checkAt)
	if v.refused.endsWith(k.script, rep) {
		v.refused = refused{}
	}
	v.host.declared.learn(v.name, k.spec, rep.Since)
	if v.host.servers.add(rep.Server) {
		v.host.hub.Resubscribe()
	}
	if r.plain.script == nil { // a plain script answers only where it is the same server
		v.server = rep.Server
	}
	v.queriesFirst = v.queriesFirst && k.script != protocol.RestoreScript
	v.fastPath.learn(rep, r.plain.script)
	v.noteEpochLocked(rep.Epoch, sent.Time)
	now := v.host.clock.Now()
	i := 0
	for verb, t := range r.all() {
		t.unansweredSince, t.cause = time.Time{}, nil
		if t.phase == asking {
			t.heard, t.quoted = true, quote{rep.Room, time.Duration(rep.Results[i].Number) * time.Millisecond}
		}
		v.learnLocked(t, answer{verb, rep.Results[i], rep.Epoch, rep.Room, sent, now})
		v.reduceLocked(t)
		i++
	}
	for _, g := range rep.Grants {
		v.noticeLocked(grantNotice{g, rep.Epoch, GrantedByReply}, now)
	}
	v.notifyHoldersLocked(rep.Waiters, sent.Time)
	v.hintLocked(k.script, rep, sent.Time)
}

// answer is what Redis has said of a ticket.
type answer struct {
	verb *protocol.Script
	protocol.Result
	epoch int64
	limit int64         // in force, if a permit to release is missing and others were granted some
	sent  clock.Instant // when it was asked
	now   clock.Instant // when it is handled
}

// isOther reports whether Redis has another grant of t than the one on which its holder relies. A server that had lost the one may
// have given the units other numbers, and theirs to others.
func (a answer) isOther(t *ticket) bool {
	return t.phase == holding && t.opts.Numbered && a.State == protocol.Held && a.Number != 0 && a.Number != t.token && a.sent.After(t.hold.at)
}

// isReplaced reports whether another may have had the units of t, which is missing in a new epoch: t had all, or another has had all since,
// or a number of t. All are those of the limit in force or, as that may be another than at the grant, those that this process declares.
func (a answer) isReplaced(t *ticket) bool {
	if a.State != protocol.Gone || a.Number == 0 {
		return false
	}
	hadAll := t.keeps() == t.spec.Limit || a.limit > 0 && t.keeps() >= a.limit
	return hadAll || a.Number == protocol.MaxUnits || slices.ContainsFunc(t.keptNumbers(), func(n int64) bool { return n < a.Number-1 })
}

// isUnchecked reports whether an answer from a new epoch does not say which grant of t it is about.
func (a answer) isUnchecked(t *ticket) bool {
	return t.phase == holding && t.opts.Numbered && a.verb == protocol.RefreshScript && a.Number == 0 && t.isOutdated(a.epoch)
}

// learnLocked handles the result of one ticket's operation.
func (v *nameState) learnLocked(t *ticket, a answer) {
	t.known = t.known || a.State == protocol.Held || a.State == protocol.Waiting // so a refused release is tried again
	s := situation{
		event: answered, verb: a.verb, state: a.State,
		ended: t.phase == holding && t.hold.ended() != nil,
		other: a.isOther(t),
		less:  t.isLess(a.State, a.epoch) && (t.phase == leaving || t.lease.remaining(a.now) > 0),
		newer: t.phase == holding && a.sent.After(t.hold.at),
		stale: t.phase == waiting && a.State == protocol.Held && a.Number != 0 && a.Number != t.token && a.Number < t.epoch,
	}
	renewed := window{a.sent, t.ttl}
	s.old = s.stale && renewed.remaining(a.now) <= 0
	s.verifyFirst, s.unnumbered = renewed.tooShort(a.now), t.opts.Numbered && len(a.Numbers) == 0
	missed := s.less && (a.verb == protocol.RefreshScript || t.phase == leaving)
	if (a.State == protocol.Held || a.State == protocol.Waiting) && a.verb != protocol.ReduceScript && !missed && !a.isUnchecked(t) {
		t.confirmed(a.epoch, v.server) // a reduce renews nothing: an old file's lease of t may soon be over
	}
	v.acceptLocked(t, v.applyLocked(t, s), a)
}

// acceptLocked does what an effect needs the answer for.
func (v *nameState) acceptLocked(t *ticket, e effect, a answer) {
	switch e {
	case doRemoveReleased:
		v.removeReleasedLocked(t, a)
	case doConfirmPart:
		v.reducedLocked(t)
		v.recheckPendingLocked(t)
	case doRenew:
		v.renewLocked(t, a.sent)
		v.recheckPendingLocked(t)
	case doHold, doVerify, doReturn:
		found := a.verb == protocol.RefreshScript && t.token == 0 // without a message: more messages may be lost
		v.renewLocked(t, a.sent)
		v.grantLocked(t, e, cmp.Or(a.Number, t.token), a.Numbers, a.now)
		if found {
			v.gapAfterGrantLocked(t.spec)
		}
	case doWait:
		v.queuedLocked(t, a.Number, a.sent, a.now)
	case doRetry:
		v.scheduleLocked(time.Now().Add(retryIn(a.Number))) // then it is sent again
	case doRefuse:
		v.finishLocked(t, refusals[a.State])
		v.leaveMissingLocked(t)
	}
}

// applyLocked does what comes next for a ticket, and returns what that is: some effects need more than the situation.
func (v *nameState) applyLocked(t *ticket, s situation) effect {
	s.phase, s.busy, s.known, s.maybeApplied, s.neverRenewed = t.phase, t.busy, t.known, t.maybeApplied, t.opts.NoRefresh
	e := next(s)
	switch e {
	case doAsk:
		v.askLocked(t)
	case doRelease:
		v.releaseLocked(t)
	case doQuery:
		v.refreshLocked(t)
	case doRequery:
		v.recheckLocked(t)
	case doConfirm:
		v.recheckPendingLocked(t)
	case doRestore:
		v.restoreLocked(t)
	case doReduce:
		v.reduceLocked(t)
	case doLeave:
		v.leaveLocked(t)
	case doLeaveUnanswered:
		v.finishLocked(t, unavailable(t.ttl, t.cause))
		v.leaveLocked(t)
	case doClose:
		v.closeTicketLocked(t)
	case doLoseOverdue:
		v.loseLocked(t, lostFor(t.whyOver(v.host.clock.Asleep())))
	case doLoseForged:
		v.loseLocked(t, lostFor(errForged))
		v.leaveLocked(t)
	case doLoseEvicted:
		v.loseLocked(t, errHolderEvicted)
		v.leaveMissingLocked(t)
	case doLoseMissing:
		v.loseLocked(t, lostFor(errMissing))
		v.leaveMissingLocked(t)
	case doLoseOther:
		v.loseLocked(t, lostFor(errRegranted))
		v.leaveLocked(t)
	case doRemove:
		v.removeLocked(t, nil)
	}
	return e
}

// refusals are the errors of tickets that neither hold nor wait. On errPositionLost, Acquire tries again.
var refusals = map[protocol.State]error{
	protocol.Gone:    errPositionLost,
	protocol.Refused: errTaken,
	protocol.Full:    ErrQueueFull,
	protocol.TooBig:  ErrExceedsLimit,
	protocol.Evicted: ErrEvicted,
}

// queuedLocked records that t waits in the queue.
func (v *nameState) queuedLocked(t *ticket, position int64, sent, now clock.Instant) {
	early := t.earlyGrant
	t.earlyGrant = nil
	v.moveLocked(t, waiting)
	t.reportWaiting(v.host.events, now.Time)
	t.position, t.token = position, 0
	v.renewLocked(t, sent)
	v.host.hub.Start()
	v.checkLocked()
	if early != nil {
		v.noticeLocked(*early, now)
	}
	v.recheckPendingLocked(t)
}

// recheckPendingLocked queries t if a notice arrived while the last query was in flight.
func (v *nameState) recheckPendingLocked(t *ticket) {
	if t.recheck {
		v.refreshLocked(t)
	}
}

// noticeLocked handles the notice of a grant, from a reply or from a wake message. Forged and late messages come here too.
func (v *nameState) noticeLocked(g grantNotice, now clock.Instant) {
	t := v.tickets[g.Seq]
	if t == nil {
		return
	}
	e := v.applyLocked(t, situation{
		event: notified, grant: g.Token != 0, ofPosition: g.Position == t.position, ofToken: g.Position == t.token,
		otherEpoch: t.epoch != g.epoch,
		misfit:     len(g.Numbers) > 0 && !t.opts.Numbered,
		unnumbered: len(g.Numbers) == 0 && t.opts.Numbered,
		// A permit that is never renewed needs an answer to have its whole TTL, and one that replicas must acknowledge needs it
		// for their acknowledgement.
		verifyFirst: t.opts.NoRefresh || v.host.replicas > 0 || t.lease.tooShort(now),
	})
	switch e {
	case doKeep:
		v.earlyLocked(t, g)
	case doHold, doVerify:
		t.by = g.by
		v.grantLocked(t, e, g.Token, g.Numbers, now)
	}
}

// earlyLocked keeps a notice until the answer shows whether it is true. A forged message can come before the true one or
// after it: of two that differ the first is kept, and Redis is queried.
func (v *nameState) earlyLocked(t *ticket, g grantNotice) {
	if t.earlyGrant == nil {
		t.earlyGrant = new(g)
	} else if !t.earlyGrant.Equal(g.Grant) || t.earlyGrant.epoch != g.epoch {
		t.recheck = true
	}
}

// retryIn is how long to wait until a server may grant again. At 0 ms it is still removing expired entries, and is called
// again at once.
func retryIn(ms int64) time.Duration {
	if ms == 0 {
		return time.Millisecond
	}
	return max(time.Duration(ms+1)*time.Millisecond, firstRetry)
}

// grantLocked records a grant, and does with it what next has decided.
func (v *nameState) grantLocked(t *ticket, e effect, token int64, numbers []int64, now clock.Instant) {
	t.token, t.numbers = token, numbers
	switch e {
	case doVerify:
		v.moveLocked(t, waiting)
		v.recheckLocked(t)
	case doReturn:
		v.moveLocked(t, waiting)
		v.finishLocked(t, errPositionLost)
		v.leaveLocked(t)
	case doHold:
		v.handOverLocked(t, now)
	}
}

// handOverLocked gives the permit of t to its caller.
func (v *nameState) handOverLocked(t *ticket, now clock.Instant) {
	v.moveLocked(t, holding)
	if !t.countsInWindow() {
		v.host.hub.Start()
		v.checkLocked()
	}
	t.recheck = false
	if t.token >= t.epoch {
		t.grantedIn = t.epoch
	}
	t.hold.begin(v.host.clock, t.asked, now.Time, t.lease)
	v.finishLocked(t, nil)
	v.scheduleLocked(t.nextDeadline(v.host.clock.Asleep()))
	if early := t.earlyGrant; early != nil {
		t.earlyGrant = nil
		v.noticeLocked(*early, now)
	}
}

// renewLocked starts the lease of t anew: Redis confirmed t in reply to a call that was sent at that time.
func (v *nameState) renewLocked(t *ticket, sent clock.Instant) {
	t.lease = window{sent: sent, ttl: t.ttl}
	if t.hold.begun {
		t.hold.renew(t.lease)
	}
	v.scheduleLocked(t.nextDeadline(v.host.clock.Asleep()))
}

// removeReleasedLocked removes t with the outcome of its release. If there was nothing to release, the permit was lost before,
// unless an earlier release may have been executed, which leaves the same behind as an eviction, or Redis has lost its state since and
// not granted the units to another.
func (v *nameState) removeReleasedLocked(t *ticket, a answer) {
	var err error
	switch {
	case a.State == protocol.Held || !t.hold.begun || t.releaseMaybeApplied || t.epoch != a.epoch && !a.isReplaced(t):
	case a.State == protocol.Evicted:
		err = errHolderEvicted // the message about it is still on its way
	default:
		err = lostFor(errMissing)
	}
	v.removeLocked(t, err)
}

// leaveLocked gives t up. It is removed at once if Redis cannot have it, and otherwise when Redis has confirmed its release.
func (v *nameState) leaveLocked(t *ticket) {
	t.endLocked() // its caller waits for it
	if t.phase == leaving || t.phase == removed {
		return
	}
	t.reportLost(v.host.events, v.host.clock)
	v.moveLocked(t, leaving)
	t.leftAt = time.Now()
	if v.applyLocked(t, situation{event: left}) != doRemove {
		v.scheduleLocked(t.expiresAt())
	}
}

// leaveMissingLocked gives up t, of which Redis has just said that it does not have it. It is removed at once, unless a copy of an earlier
// operation may be in flight, or a query of it is queued: then when that is about to be sent.
func (v *nameState) leaveMissingLocked(t *ticket) {
	t.known = false
	v.leaveLocked(t)
}

// loseLocked ends the permit of t with the error lost, and reports that.
func (v *nameState) loseLocked(t *ticket, lost error) {
	t.hold.end(lost)
	t.reportLost(v.host.events, v.host.clock)
}

// finishLocked ends the wait of the call that asked for t.
func (v *nameState) finishLocked(t *ticket, err error) {
	if t.isDone() {
		return
	}
	t.err = err
	v.waking.callers++
	close(t.done)
}

// removeLocked removes t. err is what its release reports.
func (v *nameState) removeLocked(t *ticket, err error) {
	v.moveLocked(t, removed)
	delete(v.tickets, t.seq)
	t.releaseErr = err
	t.reportEnd(v.host.events, v.host.clock, err)
	if t.hold.begun {
		v.waking.callers++
	}
	close(t.endLocked())
	if len(v.tickets) == 0 {
		v.scheduleLocked(time.Now().Add(retireAfter))
	}
}

// failedLocked handles a request that got no answer, or a refusal. After a backoff every ticket continues where it was; only
// an acquire, a release or the restore of a waiter that can never succeed ends here.
func (v *nameState) failedLocked(r *request, err error) {
	script := r.callKey().script
	v.backoff = nextRetry(v.backoff)
	pause := v.backoff
	if failure.Refused(err) {
		pause = max(pause, nextRetry(v.refused.pause)) // also that of another script: a full server refuses several in turns
		v.refused = refused{script, pause}
	}
	v.host.events.callFailed(v.name, script.Verb, err)
	v.queriesFirst = v.queriesFirst || script == protocol.RestoreScript && failure.Refused(err)
	full := failure.IsFull(err) // then nothing was executed, and a full server releases what comes alone
	s := situation{event: failed, final: !failure.Transient(err)}
	for verb, t := range r.all() {
		if t.phase == removed {
			continue
		}
		t.cause = err
		s.verb, s.carried = verb, verb != script // a release may have failed because of the acquire
		s.executed = failure.IsUnreplicated(err) || failure.Refused(err) && t.maybeApplied && !t.hold.begun
		if !failure.Refused(err) || s.carried {
			t.maybeApplied = true // so it is released in a call of its own
			t.releaseMaybeApplied = t.releaseMaybeApplied || verb == protocol.ReleaseScript && !full
		}
		switch v.applyLocked(t, s) {
		case doFail:
			v.finishLocked(t, advise(err))
			v.removeLocked(t, advise(err))
		case doFailLeaving:
			v.finishLocked(t, advise(err))
			v.leaveLocked(t)
		default:
			if s.carried && full {
				v.applyLocked(t, situation{event: left}) // the pause is for the acquire
			}
		}
	}
	for verb, t := range r.all() {
		t.recheck = t.recheck || verb == protocol.RefreshScript // its reason may have been a message
	}
	for _, t := range v.tickets {
		t.recheck = t.recheck || t.phase == waiting && !full // the lost reply may have had its grant
	}
	v.scheduleLocked(time.Now().Add(pause/2 + rand.N(pause/2+1)))
}

// nextRetry is the backoff after the one that was in vain.
func nextRetry(backoff time.Duration) time.Duration {
	return min(max(2*backoff, firstRetry), lastRetry)
}

// hintLocked schedules the next poll: at once if work is left, or if the waiters of a rate here wait no more in Redis, and soon after the
// nearest deadline if a ticket here waits, because an expired entry makes room. Jitter keeps many waiters apart. Of two replies, the one to the later call is newer
// and counts.
func (v *nameState) hintLocked(script *protocol.Script, r protocol.Reply, sent time.Time) {
	if r.More {
		v.pollLocked()
	}
	if v.waiters == 0 || sent.Before(v.deadlineSent) {
		return
	}
	if r.Next < 0 {
		if v.spec.Window > 0 && script == protocol.RefreshScript { // they were granted, unnoticed
			v.pollLocked()
		}
		return
	}
	delay := r.Next + time.Millisecond + rand.N(min(v.host.ttl/20, 100*time.Millisecond))
	if v.spec.Window > 0 {
		delay = pollDelay(v.spec.Window, r.Next)
	}
	v.deadline, v.deadlineSent = time.Now().Add(delay), sent
	v.scheduleLocked(v.deadline)
}

// pollDelay is how long to wait for the turn of a waiter of a rate limit. Many turns may follow closely, and one poll serves
// them; a turn that is far off may come sooner, when other waiters leave the queue.
func pollDelay(window, turn time.Duration) time.Duration {
	return min(max(turn, min(window/250, 5*time.Millisecond)), max(window, time.Second))
}

// tick does what is due for the tickets of the name, and schedules the next tick. A nameState without tickets retires.
func (v *nameState) tick(now clock.Instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = time.Time{}
	if len(v.tickets) == 0 {
		v.retired = true
		v.host.retired(v)
		return
	}
	v.host.inUse(now.Time, 0)
	over := !v.deadline.IsZero() && !now.Before(v.deadline)
	if over {
		v.deadline = time.Time{}
	}
	if !v.checkAt.IsZero() && !now.Before(v.checkAt) {
		v.checkAt = time.Time{}
		if v.host.hub.Blind() {
			v.verifySince = now.Time
		}
	}
	v.checkLocked()
	verify := !v.verifySince.IsZero()
	due := over || verify
	for _, t := range v.tickets { // first of all: every holder must be notified before the margin is over
		if t.isOverdue(now) && t.hold.ended() == nil {
			v.advanceLocked(t, now)
		}
	}
	for _, t := range v.tickets {
		v.advanceLocked(t, now)
		due = due || t.renewable() && t.lease.isDue(now)
	}
	if due && !v.refreshAllLocked(now, verify) && over {
		v.pollLocked()
	}
	for _, t := range v.tickets {
		v.scheduleLocked(t.nextDeadline(v.host.clock.Asleep()))
	}
	v.scheduleLocked(v.deadline)
	if v.backoff == 0 || !due { // else it is scheduled with the answer: a query that fails is repeated sooner
		v.scheduleLocked(v.checkAt)
	}
}

// refreshAllLocked renews every lease that is not quite new, so that they are all due together from then on. If verify is
// set it queries every holder and waiter. It reports whether there was any: a refresh also reaps and promotes.
func (v *nameState) refreshAllLocked(now clock.Instant, verify bool) bool {
	var old []*ticket
	for _, t := range v.tickets {
		if t.renewable() && !now.Before(t.lease.after(t.ttl/6, now.Asleep)) || verify && !t.busy && (t.phase == waiting || t.phase == holding) {
			old = append(old, t)
		}
	}
	v.refreshLocked(old...)
	return len(old) > 0
}

// advanceLocked does what is due for one ticket, by the clock or after a failure.
func (v *nameState) advanceLocked(t *ticket, now clock.Instant) {
	s := situation{
		event:    ticked,
		overdue:  t.isOverdue(now),
		expired:  t.phase == leaving && !now.Before(t.expiresAt()),
		silent:   t.isSilent(now),
		doubtful: t.recheck || t.isOutdated(v.epoch),
	}
	s.ended = s.overdue && t.hold.ended() != nil
	if v.applyLocked(t, s) == doRemoveUnanswered {
		v.removeLocked(t, unavailable(t.ttl, t.cause))
	}
}

// scheduleLocked makes sure that a tick comes at that time or earlier.
func (v *nameState) scheduleLocked(at time.Time) {
	if at.IsZero() || !v.next.IsZero() && !at.Before(v.next) {
		return
	}
	v.next = at
	v.host.scheduler.schedule(&v.timer, at)
}

// gap is called when wake messages may have been lost.
func (v *nameState) gap() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gapLocked()
}

// gapAfterGrantLocked is called when a query has found a grant. Of a rate that is usual, as each process polls for all: there the next
// waiter of each tenant is queried, and the one after it if that was granted its units, too.
func (v *nameState) gapAfterGrantLocked(spec protocol.LimitSpec) {
	if spec.Window == 0 {
		v.gapLocked()
		return
	}
	next := make(map[string]*ticket)
	for _, t := range v.tickets {
		if first := next[t.opts.Tenant]; t.phase == waiting && (first == nil || t.position < first.position) {
			next[t.opts.Tenant] = t
		}
	}
	v.recheckLocked(slices.Collect(maps.Values(next))...)
}

func (v *nameState) gapLocked() {
	var all []*ticket
	for _, t := range v.tickets {
		if t.phase == waiting || t.phase == asking && t.busy {
			all = append(all, t)
		}
	}
	v.recheckLocked(all...)
}

// close gives up all tickets and accepts no more. It returns them so that the caller can wait for their removal.
func (v *nameState) close() []*ticket {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.retired = true
	var all []*ticket
	for _, t := range v.tickets {
		t.endLocked() // the caller waits for it
		v.applyLocked(t, situation{event: closed})
		all = append(all, t)
	}
	return all
}

func (v *nameState) closeTicketLocked(t *ticket) {
	if t.phase == holding && !t.hold.lost() {
		t.hold.end(errHolderClosed)
	}
	v.finishLocked(t, ErrClosed)
	v.leaveLocked(t)
}

// removeUnanswered removes the tickets whose release was not confirmed while Close waited.
func (v *nameState) removeUnanswered() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.tickets {
		if v.applyLocked(t, situation{event: ticked, expired: true}) == doRemoveUnanswered {
			v.removeLocked(t, unavailable(closeGrace, t.cause))
		}
	}
}

// removeRateGrant removes a grant of a rate limit, which is never released. It reports false if the ticket has been given
// up: the call then counts as not granted.
func (v *nameState) removeRateGrant(t *ticket) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.applyLocked(t, situation{event: received}) != doRemove {
		return false
	}
	t.reportGranted(v.host.events)
	return true
}

// leave is leaveLocked for callers without the lock.
func (v *nameState) leave(t *ticket) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leaveLocked(t)
}

// leaveUngranted is leave for a caller that has not received a grant. The error says why Redis has said neither yes nor no, if it has not:
// there was no answer, or it grants nothing yet.
func (v *nameState) leaveUngranted(t *ticket) (doubt error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t.phase == asking && t.heard {
		doubt = errNotYet
	}
	since := t.unansweredSince
	if t.phase == asking && !t.heard && (t.busy || !since.IsZero()) { // no answer so far, however late it was sent
		since = t.asked
	}
	if !since.IsZero() && (t.phase == asking || t.phase == waiting) && (t.cause != nil || tooLong(t.asked, since)) {
		doubt = unavailable(time.Since(since), cmp.Or(t.cause, v.pipeline.Failure()))
	}
	v.leaveLocked(t)
	return doubt
}

// tooLong reports whether an answer that is due since then takes longer than usual.
func tooLong(asked, since time.Time) bool {
	return time.Since(since) >= min(pipeline.MinTimeout, time.Since(asked)/2)
}

// woken handles the grants of a wake message.
func (v *nameState) woken(epoch int64, grants []protocol.Grant) {
	v.pipeline.Wake(func() int {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.waking = waking{queue: v.waiters > 0}
		now := v.host.clock.Now()
		for _, g := range grants {
			v.noticeLocked(grantNotice{g, epoch, GrantedByMessage}, now)
		}
		return v.waking.woken(v.waiters)
	})
}
