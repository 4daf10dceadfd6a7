package fairsem

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// view is what a client knows of one name: its own tickets. The limit, the line and everybody
// else's permits are in Redis only.
type nameState struct {
	client   *Client
	name     string
	about    callPrefix
	pipeline *pipeline

	timer   timer      // guarded by keeper.mu
	filling []*request // in the lane, with room for tickets of this view; guarded by lane.mu

	mu          sync.Mutex
	tickets     map[int64]*ticket
	spec        limitSpec     // of the call that Redis answered last; a call about tickets has theirs
	retired     bool          // out of Client.views: a new ticket needs a new view
	next        time.Time     // when the keeper looks; zero: not at all
	deadline    time.Time     // the nearest one of anybody, while somebody waits; zero: unknown
	hinted      time.Time     // when the question was sent that told it
	waiters     int           // tickets in the phase waiting
	backoff     time.Duration // before the next try, while Redis does not answer
	epoch       int64         // of the name, as Redis told it last; 0: not yet
	told        time.Time     // when the question was sent whose answer told it
	verifySince time.Time     // since when there may be another one; zero: there is no doubt
	checkAt     time.Time     // when to doubt that, if it could not be seen until then; zero: not at all
}

// retireAfter is how long a view without tickets stays, for the next ticket of its name.
const retireAfter = time.Second

// The backoff of a view is between these.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 250 * time.Millisecond
)

// open lets t ask. False: the view has retired, and t needs a new one.
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
	v.submitLocked(t, batchKey{state: v, script: acquireScript, spec: t.spec, params: t.params})
}

// refreshLocked asks about tickets, and renews them if they are, in as few calls as can be. It leaves out
// those of which an operation has not ended.
func (v *nameState) refreshLocked(tickets ...*ticket) {
	calls := make(map[batchKey][]*ticket, 1)
	for _, t := range tickets {
		if t.busy {
			continue
		}
		t.busy, t.recheck = true, false
		j := batchKey{state: v, script: refreshScript, spec: t.spec, lease: t.params.ttl}
		if t.phase == holding && t.noRefresh {
			j.lease = 0
		}
		calls[j] = append(calls[j], t)
	}
	for j, together := range calls {
		v.pipeline.add(j, together...)
	}
}

// releaseLocked sends the release of a leaving ticket. Where an acquire of it may still be on its
// way, the tombstone sees to it that it comes too late.
func (v *nameState) releaseLocked(t *ticket) {
	j := batchKey{state: v, script: releaseScript, spec: t.spec}
	if t.maybeApplied {
		j.lease = t.params.ttl
	}
	if t.permit != nil && errors.Is(t.permit.ended(), ErrLost) {
		j.lease = overdue(j.lease)
	}
	v.submitLocked(t, j)
}

// submitLocked queues an operation, unless the one before has not ended. Its end then goes on.
func (v *nameState) submitLocked(t *ticket, j batchKey) {
	if t.busy {
		return
	}
	t.busy = true
	v.pipeline.add(j, t)
}

// recheckLocked asks about tickets, and does so again if the answer that is on its way may be too old.
func (v *nameState) recheckLocked(tickets ...*ticket) {
	for _, t := range tickets {
		t.recheck = true
	}
	v.refreshLocked(tickets...)
}

// lookAgainLocked has the script reap and promote, whoever needs it. Of a rate, where looks wake those who
// wait, it asks about its own first waiter, too: another's look may have let it in, and its message be lost.
func (v *nameState) lookAgainLocked() {
	if v.spec.window > 0 {
		if first := v.firstLocked(); first != nil {
			v.refreshLocked(first)
			return
		}
	}
	v.pipeline.add(batchKey{state: v, script: refreshScript, spec: v.spec})
}

// firstLocked is who of those that wait here is first in line; nil: nobody waits.
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
	t.phase = to
}

// board is called when an operation is about to be sent. It returns the tickets that still want it,
// and whether all of them hold.
func (v *nameState) prepare(s *script, tickets []*ticket, now time.Time) (still []*ticket, hold bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	still, hold = tickets[:0], true
	for _, t := range tickets {
		if s != releaseScript && (t.phase == leaving || t.phase == gone) {
			t.busy = false
			if t.phase == leaving {
				v.departLocked(t)
			}
			continue
		}
		if t.unansweredSince.IsZero() {
			t.unansweredSince = now
		}
		if s == reduceScript {
			t.parts.told = t.parts.given
		}
		v.scheduleLocked(t.unansweredSince.Add(t.params.ttl))
		still = append(still, t)
		hold = hold && t.phase == holding
	}
	return still, hold
}

// answered takes what became of an operation: reply or error, to what was sent at the time sent.
func (v *nameState) answered(p *request, r response, sent instant) {
	var rep reply
	if r.err == nil {
		rep, r.err = decodeReply(r.numbers, len(p.released)+len(p.tickets))
	}
	if r.err == nil {
		v.client.masters.watch(v)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range p.all() {
		t.busy = false
	}
	if r.err != nil {
		v.failedLocked(p, r.err)
		return
	}
	v.backoff, v.spec = 0, p.key.spec
	v.client.declared.learn(v.name, p.key.spec, rep.since)
	v.client.servers.meet(rep.server)
	v.heardLocked(rep.epoch, sent.Time)
	i := 0
	for verb, t := range p.all() {
		t.unansweredSince, t.cause = time.Time{}, nil
		if t.phase == asking {
			t.quoted = quote{rep.room, time.Duration(rep.results[i].number) * time.Millisecond}
		}
		v.learnLocked(verb, t, rep.results[i], rep.epoch, sent)
		v.reduceLocked(t)
		i++
	}
	for _, g := range rep.grants {
		v.grantedLocked(grantNotice{g, rep.epoch, GrantedByReply})
	}
	v.hintLocked(rep, sent.Time)
}

// learnLocked takes the answer to one ticket's operation.
func (v *nameState) learnLocked(s *script, t *ticket, r result, epoch int64, sent instant) {
	stale := t.phase == waiting && r.state == stateHeld && r.number != 0 && r.number != t.token && r.number < t.epoch
	missed := (s == refreshScript || s == reduceScript) && t.missedBy(r.state, epoch)
	if !missed && s != reduceScript && (r.state == stateHeld || r.state == stateWaiting) {
		t.confirmed(epoch) // a reduce renews nothing: what an old file has of t may be over soon
	}
	switch {
	case t.phase == gone: // Redis has answered too late
	case s == releaseScript:
		v.releasedLocked(t, r, epoch)
	case t.phase == leaving && (r.state == stateHeld || r.state == stateWaiting):
		v.releaseLocked(t) // what was on its way when its user gave it up
	case t.phase == leaving && t.maybeApplied:
		v.releaseLocked(t) // a copy of what was sent before may still be on its way
	case t.phase == leaving:
		v.releasedLocked(t, r, epoch) // it was out before its release was sent
	case t.phase == holding && t.permit.ended() != nil:
		v.leaveLocked(t) // its user was told by the clock
	case missed:
		v.restoreLocked(t)
	case t.phase == holding && r.state == stateEarly:
		v.recheckLocked(t) // expired permits were in its way, and some still are
	case t.phase == holding && r.state == stateWaiting && sent.After(t.permit.granted()):
		v.loseLocked(t, ErrLost, errForged)
		v.leaveLocked(t)
	case t.phase == holding && r.state == stateEvicted:
		v.loseLocked(t, errHolderEvicted, ErrEvicted)
		v.outLocked(t)
	case t.phase == holding && s == reduceScript && r.state == stateHeld:
		v.takenLocked(t)
	case t.phase == holding && r.state == stateHeld && t.noRefresh:
		v.recheckAgainLocked(t) // its lease ends when it did
	case t.phase == holding && r.state != stateGone:
		v.renewLocked(t, sent) // also if it was still waiting then: a wake message overtook this
		v.recheckAgainLocked(t)
	case stale && (window{sent, t.params.ttl}).left(v.client.clock.now()) <= 0:
		v.recheckLocked(t) // an answer so old that t may have been evicted since, and the trace of that be gone
	case stale: // it waited after this grant, so that is from an old file, and the units may be somebody else's since
		v.restoreLocked(t)
	case r.state == stateHeld:
		if s == refreshScript && t.token == 0 {
			v.gapLocked() // a grant, and no message told of it: there may be more
		}
		v.renewLocked(t, sent)
		v.grantLocked(t, cmp.Or(r.number, t.token), true)
	case r.state == stateWaiting:
		v.queuedLocked(t, r.number, sent)
	case t.phase == holding:
		v.loseLocked(t, ErrLost, errMissing)
		v.outLocked(t)
	case r.state == stateEarly:
		v.scheduleLocked(time.Now().Add(early(r.number))) // and ask again
	default:
		v.finishLocked(t, refusals[r.state])
		v.outLocked(t)
	}
}

// outLocked: Redis does not know t. A copy of an earlier question about it may still be on its way.
func (v *nameState) outLocked(t *ticket) {
	if t.maybeApplied {
		v.leaveLocked(t)
	} else {
		v.dropLocked(t, nil)
	}
}

// refusals are the errors of those who neither hold nor wait. Acquire asks again after errGone.
var refusals = map[state]error{
	stateGone:    errPositionLost,
	stateRefused: ErrNotAcquired,
	stateFull:    ErrQueueFull,
	stateTooBig:  ErrExceedsLimit,
	stateEvicted: ErrEvicted,
}

// queuedLocked: t has a place in line.
func (v *nameState) queuedLocked(t *ticket, place int64, sent instant) {
	early := t.earlyGrant
	t.earlyGrant = grantNotice{}
	v.moveLocked(t, waiting)
	v.client.events.waiting(t)
	t.position, t.token = place, 0
	v.renewLocked(t, sent)
	v.client.wake.start()
	v.checkLocked()
	if early.seq == t.seq {
		v.grantedLocked(early)
	}
	v.recheckAgainLocked(t)
}

// recheckAgainLocked asks about t if news came while the last question about it was under way.
func (v *nameState) recheckAgainLocked(t *ticket) {
	if t.recheck {
		v.refreshLocked(t)
	}
}

// grantedLocked takes the news of a promotion, from a reply or from a wake message. It does nothing
// unless the news names the place that only Redis can have told: forged and late ones come here too.
// News of another epoch is of a grant that was lost since, for places are put back as they were.
func (v *nameState) grantedLocked(g grantNotice) {
	t := v.tickets[g.seq]
	switch {
	case t == nil:
	case t.phase == asking || t.phase == waiting && g.token == 0 && g.place == t.token:
		v.earlyLocked(t, g) // the answer that is on its way may be older
	case t.phase == holding && g.token == 0 && g.place == t.token:
		v.recheckLocked(t) // it was evicted
	case t.phase != waiting || t.position != g.place || g.token != 0 && t.epoch != g.epoch:
	case g.token == 0:
		v.recheckLocked(t) // out of the line, and Acquire asks again; or a nearer deadline, which the answer tells
	default:
		t.by = g.by
		v.grantLocked(t, g.token, false)
	}
}

// earlyLocked keeps news until the answer says whether they are true. A forged message can come before the true one, or
// after it: of two that differ the first is kept, and Redis is asked.
func (v *nameState) earlyLocked(t *ticket, g grantNotice) {
	if t.earlyGrant.seq != t.seq {
		t.earlyGrant = g
	} else if t.earlyGrant.grant != g.grant || t.earlyGrant.epoch != g.epoch {
		t.recheck = true
	}
}

// early is how long to wait for a server to grant something again. At 0 ms it cleans up, and is asked at once to go on.
func early(ms int64) time.Duration {
	if ms == 0 {
		return time.Millisecond
	}
	return max(time.Duration(ms+1)*time.Millisecond, firstRetry)
}

// grantLocked gives t to its user, if its lease has enough left to be worth it. A permit that is
// never renewed gets its whole TTL from here on, and one that must be on replicas has to be: fresh says
// that its lease begins with the grant, in an exchange of our own.
func (v *nameState) grantLocked(t *ticket, token int64, fresh bool) {
	t.token = token
	now := v.client.clock.now()
	if t.lease.left(now) < t.lease.margin() || (t.noRefresh || v.client.replicas > 0) && !fresh {
		v.moveLocked(t, waiting)
		v.recheckLocked(t)
		return
	}
	v.moveLocked(t, holding)
	if !t.lapses() {
		v.client.wake.start()
		v.checkLocked()
	}
	t.recheck = false
	t.permit = newPermit(t, now.Time)
	v.finishLocked(t, nil)
	v.scheduleLocked(t.nextDeadline())
	if early := t.earlyGrant; early.seq == t.seq {
		t.earlyGrant = grantNotice{}
		v.grantedLocked(early)
	}
}

// renewLocked: Redis confirmed t to a question sent at that time.
func (v *nameState) renewLocked(t *ticket, sent instant) {
	t.lease = window{sent: sent, ttl: t.params.ttl}
	if t.permit != nil {
		t.permit.renew(t.lease)
	}
	v.scheduleLocked(t.nextDeadline())
}

// releasedLocked: Redis has taken t out. Finding nothing to take out means that the permit was lost
// before, unless an earlier try may have taken it, or Redis has lost what it knew.
func (v *nameState) releasedLocked(t *ticket, r result, epoch int64) {
	var err error
	if r.state != stateHeld && t.permit != nil && !t.releaseMaybeApplied && t.epoch == epoch {
		err = lostFor(errMissing)
	}
	v.dropLocked(t, err)
}

// leaveLocked gives t up: at once if Redis cannot know of it, else as soon as Redis says so.
func (v *nameState) leaveLocked(t *ticket) {
	if t.phase == leaving || t.phase == gone {
		return
	}
	v.client.events.lost(t, t.lapse())
	t.known = t.phase != asking
	v.moveLocked(t, leaving)
	t.forgottenAt = time.Now().Add(t.params.ttl)
	v.scheduleLocked(t.forgottenAt)
	v.departLocked(t)
}

// departLocked has a leaving ticket released, if Redis can know of it.
func (v *nameState) departLocked(t *ticket) {
	switch {
	case t.busy:
	case t.known || t.maybeApplied:
		v.releaseLocked(t)
	default:
		v.dropLocked(t, nil) // nothing was sent, or Redis refused it
	}
}

// loseLocked tells the user of a permit that it is over: lost is how its context ends.
func (v *nameState) loseLocked(t *ticket, lost, why error) {
	t.permit.end(lost)
	v.client.events.lost(t, why)
}

// settleLocked ends the wait of whoever asked for t.
func (v *nameState) finishLocked(t *ticket, err error) {
	if t.isDone() {
		return
	}
	t.err = err
	close(t.done)
}

// dropLocked forgets t. err is what its release reports.
func (v *nameState) dropLocked(t *ticket, err error) {
	v.moveLocked(t, gone)
	delete(v.tickets, t.seq)
	t.releaseErr = err
	v.client.events.finished(t, err)
	close(t.released)
	if len(v.tickets) == 0 {
		v.scheduleLocked(time.Now().Add(retireAfter))
	}
}

// failedLocked takes an operation that got no answer, or a refusal. Every ticket goes on where it
// was after a while; only an acquire or a release that can never succeed ends here.
func (v *nameState) failedLocked(p *request, err error) {
	v.backoff = min(max(2*v.backoff, firstRetry), lastRetry)
	v.client.events.callFailed(v.name, p.key.script.verb, err)
	for verb, t := range p.all() {
		if t.phase == gone {
			continue
		}
		t.cause = err
		tookAlong := verb != p.key.script // which may have failed for a reason of the acquire's
		if !refused(err) || tookAlong {
			t.maybeApplied = true // and so it is released alone
			t.releaseMaybeApplied = t.releaseMaybeApplied || verb == releaseScript
		}
		if !transient(err) && !t.goesOnWithout(verb) && !tookAlong {
			v.finishLocked(t, advise(err))
			if isUnreplicated(err) {
				v.leaveLocked(t)
			} else {
				v.dropLocked(t, advise(err))
			}
		}
	}
	for _, t := range v.tickets {
		t.recheck = t.recheck || t.phase == waiting // the reply may have had its grant
	}
	v.scheduleLocked(time.Now().Add(v.backoff/2 + rand.N(v.backoff/2+1)))
}

// goesOnWithout reports whether the user of t need not hear of a refusal: a renewal can be tried again, and what a
// holder cannot renew or put back ends with its lease.
func (t *ticket) goesOnWithout(s *script) bool {
	return s == refreshScript || s == reduceScript || s == restoreScript && t.phase == holding
}

// hintLocked plans the next look: at once if work was left over, and soon after the nearest deadline
// if somebody here waits: whoever died then makes room. The jitter keeps many waiters apart. Of two
// hints the one from the later question counts, for what it tells is newer.
func (v *nameState) hintLocked(r reply, sent time.Time) {
	if r.more {
		v.lookAgainLocked()
	}
	if r.next < 0 || v.waiters == 0 || sent.Before(v.hinted) {
		return
	}
	pause := r.next + time.Millisecond + rand.N(min(v.client.ttl/20, 100*time.Millisecond))
	if v.spec.window > 0 {
		pause = v.spec.pause(r.next)
	}
	v.deadline, v.hinted = time.Now().Add(pause), sent
	v.scheduleLocked(v.deadline)
}

// pause is how long to wait for the turn of a rate that comes so soon. Many may follow closely, and are
// served by one look; a turn that is far off may come sooner, when others leave the line.
func (q limitSpec) pause(turn time.Duration) time.Duration {
	return min(max(turn, min(q.window/250, 5*time.Millisecond)), max(q.window, time.Second))
}

// look does what is due for the tickets of the name, and plans the next look. A view that has
// nothing left to look after retires.
func (v *nameState) tick(now instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = time.Time{}
	if len(v.tickets) == 0 {
		v.retired = true
		v.client.forget(v)
		return
	}
	v.client.announce(now.Time)
	over := !v.deadline.IsZero() && !now.Before(v.deadline)
	if over {
		v.deadline = time.Time{}
	}
	if !v.checkAt.IsZero() && !now.Before(v.checkAt) {
		v.checkAt = time.Time{}
		if v.client.unseen.Load() > 0 {
			v.verifySince = now.Time
		}
	}
	v.checkLocked()
	doubted := !v.verifySince.IsZero()
	due := over || doubted
	v.loseOverdueLocked(now)
	for _, t := range v.tickets {
		v.tendLocked(t, now)
		due = due || t.renewable() && t.lease.isDue(now)
	}
	if due && !v.refreshAllLocked(now, doubted) && over {
		v.lookAgainLocked()
	}
	for _, t := range v.tickets {
		v.scheduleLocked(t.nextDeadline())
	}
	v.scheduleLocked(v.deadline)
}

// refreshAllLocked renews every lease that is not quite new, so that they are due together from then on,
// and in doubt asks about all that is there. It reports whether there was any: a refresh reaps and
// promotes, too.
func (v *nameState) refreshAllLocked(now instant, doubted bool) bool {
	var old []*ticket
	for _, t := range v.tickets {
		if t.renewable() && !now.Before(t.lease.after(t.params.ttl/6, now.asleep)) || doubted && !t.busy && (t.phase == waiting || t.phase == holding) {
			old = append(old, t)
		}
	}
	v.refreshLocked(old...)
	return len(old) > 0
}

// loseOverdueLocked ends the permits whose leases are over, all of them before anything else is done about any: until
// the margin is over everybody has to know.
func (v *nameState) loseOverdueLocked(now instant) {
	for _, t := range v.tickets {
		if t.isOverdue(now) {
			v.loseLocked(t, ErrLost, t.lapse())
		}
	}
}

// tendLocked does for one ticket what time or an earlier failure asks for.
func (v *nameState) tendLocked(t *ticket, now instant) {
	silence := !t.unansweredSince.IsZero() && now.Sub(t.unansweredSince) >= t.params.ttl
	switch {
	case t.isOverdue(now):
		v.leaveLocked(t) // Redis may not know yet
	case t.phase == leaving && !now.Before(t.forgottenAt):
		v.dropLocked(t, unavailable(t.params.ttl, t.cause))
	case t.phase == leaving:
		v.departLocked(t)
	case silence && t.phase != holding:
		v.finishLocked(t, unavailable(t.params.ttl, t.cause))
		v.leaveLocked(t)
	case t.phase == asking:
		v.askLocked(t)
	case t.recheck || t.outdated(v.epoch):
		v.refreshLocked(t)
	default:
		v.reduceLocked(t)
	}
}

// planLocked has the keeper look at the time at the latest.
func (v *nameState) scheduleLocked(at time.Time) {
	if at.IsZero() || !v.next.IsZero() && !at.Before(v.next) {
		return
	}
	v.next = at
	v.client.scheduler.schedule(v, at)
}

// gap is called when wake messages may have been lost.
func (v *nameState) gap() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gapLocked()
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

// close gives up all tickets and takes no more. It returns them, for the caller to wait until they
// are gone.
func (v *nameState) close() []*ticket {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.retired = true
	var all []*ticket
	for _, t := range v.tickets {
		if t.phase == holding {
			t.permit.end(ErrReleased)
		}
		v.finishLocked(t, ErrClosed)
		v.leaveLocked(t)
		all = append(all, t)
	}
	return all
}

// abandon forgets the tickets that close could not get out.
func (v *nameState) abandon() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.tickets {
		v.dropLocked(t, unavailable(closeGrace, t.cause))
	}
}

// spend forgets a grant that lapses by itself. False: it is being given back, and counts for nothing.
func (v *nameState) spend(t *ticket) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t.phase != holding {
		return false
	}
	v.client.events.granted(t)
	v.dropLocked(t, nil)
	return true
}

// leave is leaveLocked for callers without the lock.
func (v *nameState) leave(t *ticket) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leaveLocked(t)
}

// giveUp is leave for who has not heard of a grant. It returns what is known of Redis if that has not answered what was
// asked about t last.
func (v *nameState) giveUp(t *ticket) (unanswered error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	since := t.unansweredSince
	if since.IsZero() && t.phase == asking && t.busy { // it is queued behind what was not answered
		since = t.asked
	}
	if !since.IsZero() && (t.phase == asking || t.phase == waiting) && (t.cause != nil || tooLong(t.asked, since)) {
		unanswered = unavailable(time.Since(since), cmp.Or(t.cause, v.pipeline.failure()))
	}
	v.leaveLocked(t)
	return unanswered
}

// tooLong reports whether silence since then is more than an answer that is on its way as usual.
func tooLong(asked, since time.Time) bool {
	return time.Since(since) >= min(minTimeout, time.Since(asked)/2)
}

// woken takes the grants of a wake message.
func (v *nameState) woken(epoch int64, grants []grant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, g := range grants {
		v.grantedLocked(grantNotice{g, epoch, GrantedByMessage})
	}
}

// unavailable is the error of whoever got no answer for so long.
func unavailable(silence time.Duration, cause error) error {
	if cause == nil {
		cause = errNoAnswer
	}
	return fmt.Errorf("%w: no answer from Redis for %v: %w", ErrUnavailable, silence.Round(time.Millisecond), cause)
}
