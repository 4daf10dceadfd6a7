package fairsem

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// nameState is the state of one semaphore in this process: its own tickets. The limit, the queue and the permits of other
// processes are only in Redis.
type nameState struct {
	client   *Client
	name     string
	about    protocol.CallPrefix
	pipeline *pipeline

	timer   timer      // guarded by scheduler.mu
	filling []*request // queued requests that have room for its tickets; guarded by pipeline.mu

	mu           sync.Mutex
	tickets      map[int64]*ticket
	spec         protocol.LimitSpec // of the call that Redis answered last; a call about tickets has theirs
	retired      bool               // removed from Client.states: a new ticket needs a new nameState
	next         time.Time          // when the next tick is due; zero: none is scheduled
	deadline     time.Time          // the nearest one of any process, while a ticket here waits; zero: unknown
	deadlineSent time.Time          // when the call was sent whose reply had the deadline
	waiters      int                // tickets in the phase waiting
	backoff      time.Duration      // before the next try, while calls fail
	epoch        int64              // of the name, from the latest reply; 0: none yet
	epochSent    time.Time          // when the call was sent whose reply had the epoch
	verifySince  time.Time          // since when the server may have changed; zero: no reason to verify
	checkAt      time.Time          // when to verify, if the server could go away unnoticed until then; zero: not scheduled
}

// retireAfter is how long a nameState without tickets stays, for the next ticket of its name.
const retireAfter = time.Second

// The backoff of a nameState is between these.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 250 * time.Millisecond
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
	v.submitLocked(t, batchKey{state: v, script: protocol.AcquireScript, spec: t.spec, params: t.params})
}

// refreshLocked queries tickets, and renews those that Redis has, in as few calls as possible. It skips tickets whose last
// operation has not ended.
func (v *nameState) refreshLocked(tickets ...*ticket) {
	calls := make(map[batchKey][]*ticket, 1)
	for _, t := range tickets {
		if t.busy {
			continue
		}
		t.busy, t.recheck = true, false
		j := batchKey{state: v, script: protocol.RefreshScript, spec: t.spec, lease: t.params.TTL}
		if t.phase == holding && t.noRefresh {
			j.lease = 0
		}
		calls[j] = append(calls[j], t)
	}
	for j, together := range calls {
		v.pipeline.add(j, together...)
	}
}

// releaseLocked sends the release of a leaving ticket. If an acquire of it may still be in flight, a tombstone makes sure
// that it comes too late.
func (v *nameState) releaseLocked(t *ticket) {
	j := batchKey{state: v, script: protocol.ReleaseScript, spec: t.spec}
	if t.maybeApplied {
		j.lease = t.params.TTL
	}
	j.overdue = t.permit != nil && errors.Is(t.permit.ended(), ErrLost)
	v.submitLocked(t, j)
}

// submitLocked queues an operation, unless the one before has not ended. When that ends, the next one is submitted.
func (v *nameState) submitLocked(t *ticket, j batchKey) {
	if t.busy {
		return
	}
	t.busy = true
	v.pipeline.add(j, t)
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
	v.pipeline.add(batchKey{state: v, script: protocol.RefreshScript, spec: v.spec})
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
	t.phase = to
}

// prepare is called when an operation is about to be sent. It returns the tickets that still want it, and whether all of
// them are holding.
func (v *nameState) prepare(s *protocol.Script, tickets []*ticket, now time.Time) (still []*ticket, hold bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	still, hold = tickets[:0], true
	for _, t := range tickets {
		if s != protocol.ReleaseScript && (t.phase == leaving || t.phase == removed) {
			t.busy = false
			if t.phase == leaving {
				v.releaseOrRemoveLocked(t)
			}
			continue
		}
		if t.unansweredSince.IsZero() {
			t.unansweredSince = now
		}
		if s == protocol.ReduceScript {
			t.parts.sent = t.parts.released
		}
		v.scheduleLocked(t.unansweredSince.Add(t.params.TTL))
		still = append(still, t)
		hold = hold && t.phase == holding
	}
	return still, hold
}

// answered handles the response to a request: a reply or an error. The request was sent at the time sent.
func (v *nameState) answered(p *request, r response, sent instant) {
	var rep protocol.Reply
	if r.err == nil {
		rep, r.err = protocol.DecodeReply(r.numbers, len(p.released)+len(p.tickets))
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
	v.client.declared.learn(v.name, p.key.spec, rep.Since)
	v.client.servers.meet(rep.Server)
	v.noteEpochLocked(rep.Epoch, sent.Time)
	i := 0
	for verb, t := range p.all() {
		t.unansweredSince, t.cause = time.Time{}, nil
		if t.phase == asking {
			t.quoted = quote{rep.Room, time.Duration(rep.Results[i].Number) * time.Millisecond}
		}
		v.learnLocked(verb, t, rep.Results[i], rep.Epoch, sent)
		v.reduceLocked(t)
		i++
	}
	for _, g := range rep.Grants {
		v.grantedLocked(grantNotice{g, rep.Epoch, GrantedByReply})
	}
	v.hintLocked(rep, sent.Time)
}

// learnLocked handles the result of one ticket's operation.
func (v *nameState) learnLocked(s *protocol.Script, t *ticket, r protocol.Result, epoch int64, sent instant) {
	stale := t.phase == waiting && r.State == protocol.Held && r.Number != 0 && r.Number != t.token && r.Number < t.epoch
	missed := (s == protocol.RefreshScript || s == protocol.ReduceScript) && t.missedBy(r.State, epoch)
	if !missed && s != protocol.ReduceScript && (r.State == protocol.Held || r.State == protocol.Waiting) {
		t.confirmed(epoch) // a reduce renews nothing: an old file's lease of t may soon be over
	}
	switch {
	case t.phase == removed: // the answer came too late
	case s == protocol.ReleaseScript:
		v.releasedLocked(t, r, epoch)
	case t.phase == leaving && (r.State == protocol.Held || r.State == protocol.Waiting):
		v.releaseLocked(t) // its caller gave it up while the operation was in flight
	case t.phase == leaving && t.maybeApplied:
		v.releaseLocked(t) // a copy of an earlier operation may still be in flight
	case t.phase == leaving:
		v.releasedLocked(t, r, epoch) // Redis no longer had it before its release was sent
	case t.phase == holding && t.permit.ended() != nil:
		v.leaveLocked(t) // its lease is over by the clock, and its holder was notified
	case missed:
		v.restoreLocked(t)
	case t.phase == holding && r.State == protocol.Early:
		v.recheckLocked(t) // expired permits were in its way, and some still are
	case t.phase == holding && r.State == protocol.Waiting && sent.After(t.permit.granted()):
		v.loseLocked(t, ErrLost, errForged)
		v.leaveLocked(t)
	case t.phase == holding && r.State == protocol.Evicted:
		v.loseLocked(t, errHolderEvicted, ErrEvicted)
		v.leaveOrRemoveLocked(t)
	case t.phase == holding && s == protocol.ReduceScript && r.State == protocol.Held:
		v.reducedLocked(t)
	case t.phase == holding && r.State == protocol.Held && t.noRefresh:
		v.recheckPendingLocked(t) // its lease does not change
	case t.phase == holding && r.State != protocol.Gone:
		v.renewLocked(t, sent) // even if it was still waiting then: a wake message overtook this answer
		v.recheckPendingLocked(t)
	case stale && (window{sent, t.params.TTL}).left(v.client.clock.now()) <= 0:
		v.recheckLocked(t) // the answer is so old that t may have been evicted since, and its tombstone may have expired
	case stale: // t waited after this grant, so the grant is from an old file, and its units may have been granted again
		v.restoreLocked(t)
	case r.State == protocol.Held:
		if s == protocol.RefreshScript && t.token == 0 {
			v.gapLocked() // this grant came without a message: more messages may be lost
		}
		v.renewLocked(t, sent)
		v.grantLocked(t, cmp.Or(r.Number, t.token), true)
	case r.State == protocol.Waiting:
		v.queuedLocked(t, r.Number, sent)
	case t.phase == holding:
		v.loseLocked(t, ErrLost, errMissing)
		v.leaveOrRemoveLocked(t)
	case r.State == protocol.Early:
		v.scheduleLocked(time.Now().Add(early(r.Number))) // then it is sent again
	default:
		v.finishLocked(t, refusals[r.State])
		v.leaveOrRemoveLocked(t)
	}
}

// leaveOrRemoveLocked ends a ticket that Redis does not have. A copy of an earlier operation may still be in flight.
func (v *nameState) leaveOrRemoveLocked(t *ticket) {
	if t.maybeApplied {
		v.leaveLocked(t)
	} else {
		v.removeLocked(t, nil)
	}
}

// refusals are the errors of tickets that neither hold nor wait. On errPositionLost, Acquire tries again.
var refusals = map[protocol.State]error{
	protocol.Gone:    errPositionLost,
	protocol.Refused: ErrNotAcquired,
	protocol.Full:    ErrQueueFull,
	protocol.TooBig:  ErrExceedsLimit,
	protocol.Evicted: ErrEvicted,
}

// queuedLocked records that t waits in the queue.
func (v *nameState) queuedLocked(t *ticket, position int64, sent instant) {
	early := t.earlyGrant
	t.earlyGrant = grantNotice{}
	v.moveLocked(t, waiting)
	v.client.events.waiting(t)
	t.position, t.token = position, 0
	v.renewLocked(t, sent)
	v.client.wake.start()
	v.checkLocked()
	if early.Seq == t.seq {
		v.grantedLocked(early)
	}
	v.recheckPendingLocked(t)
}

// recheckPendingLocked queries t if a notice arrived while the last query was in flight.
func (v *nameState) recheckPendingLocked(t *ticket) {
	if t.recheck {
		v.refreshLocked(t)
	}
}

// grantedLocked handles the notice of a grant, from a reply or from a wake message. It ignores a notice that does not
// name the ticket's position, which only Redis can have sent: forged and late messages come here too. A notice of another
// epoch is about a grant that was lost since: positions are restored unchanged.
func (v *nameState) grantedLocked(g grantNotice) {
	t := v.tickets[g.Seq]
	switch {
	case t == nil:
	case t.phase == asking || t.phase == waiting && g.Token == 0 && g.Position == t.token:
		v.earlyLocked(t, g) // the answer that is in flight may be older
	case t.phase == holding && g.Token == 0 && g.Position == t.token:
		v.recheckLocked(t) // it was evicted
	case t.phase != waiting || t.position != g.Position || g.Token != 0 && t.epoch != g.epoch:
	case g.Token == 0:
		v.recheckLocked(t) // removed from the queue, and Acquire tries again; or a nearer deadline, which the answer has
	default:
		t.by = g.by
		v.grantLocked(t, g.Token, false)
	}
}

// earlyLocked keeps a notice until the answer shows whether it is true. A forged message can come before the true one or
// after it: of two that differ the first is kept, and Redis is queried.
func (v *nameState) earlyLocked(t *ticket, g grantNotice) {
	if t.earlyGrant.Seq != t.seq {
		t.earlyGrant = g
	} else if t.earlyGrant.Grant != g.Grant || t.earlyGrant.epoch != g.epoch {
		t.recheck = true
	}
}

// early is how long to wait until a server may grant again. At 0 ms it is still removing expired entries, and is called
// again at once.
func early(ms int64) time.Duration {
	if ms == 0 {
		return time.Millisecond
	}
	return max(time.Duration(ms+1)*time.Millisecond, firstRetry)
}

// grantLocked hands the permit of t to its caller if enough of its lease is left. fresh means that an answer about t itself
// confirmed the grant and began the lease. A permit that is never renewed needs that to have its whole TTL, and one that
// replicas must acknowledge needs it for their acknowledgement.
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
	if early := t.earlyGrant; early.Seq == t.seq {
		t.earlyGrant = grantNotice{}
		v.grantedLocked(early)
	}
}

// renewLocked starts the lease of t anew: Redis confirmed t in reply to a call that was sent at that time.
func (v *nameState) renewLocked(t *ticket, sent instant) {
	t.lease = window{sent: sent, ttl: t.params.TTL}
	if t.permit != nil {
		t.permit.renew(t.lease)
	}
	v.scheduleLocked(t.nextDeadline())
}

// releasedLocked handles the answer to a release. If there was nothing to release, the permit was lost before, unless an
// earlier release may have been executed, or Redis has lost its state.
func (v *nameState) releasedLocked(t *ticket, r protocol.Result, epoch int64) {
	var err error
	if r.State != protocol.Held && t.permit != nil && !t.releaseMaybeApplied && t.epoch == epoch {
		err = lostFor(errMissing)
	}
	v.removeLocked(t, err)
}

// leaveLocked gives t up. It is removed at once if Redis cannot have it, and otherwise when Redis has confirmed its release.
func (v *nameState) leaveLocked(t *ticket) {
	if t.phase == leaving || t.phase == removed {
		return
	}
	v.client.events.lost(t, t.lapse())
	t.known = t.phase != asking
	v.moveLocked(t, leaving)
	t.forgottenAt = time.Now().Add(t.params.TTL)
	v.scheduleLocked(t.forgottenAt)
	v.releaseOrRemoveLocked(t)
}

// releaseOrRemoveLocked releases a leaving ticket if Redis can have it, and removes it otherwise.
func (v *nameState) releaseOrRemoveLocked(t *ticket) {
	switch {
	case t.busy:
	case t.known || t.maybeApplied:
		v.releaseLocked(t)
	default:
		v.removeLocked(t, nil) // nothing was sent, or Redis refused it
	}
}

// loseLocked ends the permit of t with the error lost, and reports why.
func (v *nameState) loseLocked(t *ticket, lost, why error) {
	t.permit.end(lost)
	v.client.events.lost(t, why)
}

// finishLocked ends the wait of the call that asked for t.
func (v *nameState) finishLocked(t *ticket, err error) {
	if t.isDone() {
		return
	}
	t.err = err
	close(t.done)
}

// removeLocked removes t. err is what its release reports.
func (v *nameState) removeLocked(t *ticket, err error) {
	v.moveLocked(t, removed)
	delete(v.tickets, t.seq)
	t.releaseErr = err
	v.client.events.finished(t, err)
	close(t.released)
	if len(v.tickets) == 0 {
		v.scheduleLocked(time.Now().Add(retireAfter))
	}
}

// failedLocked handles an operation that got no answer, or a refusal. After a backoff every ticket continues where it was;
// only an acquire, a release or the restore of a waiter that can never succeed ends here.
func (v *nameState) failedLocked(p *request, err error) {
	v.backoff = min(max(2*v.backoff, firstRetry), lastRetry)
	v.client.events.callFailed(v.name, p.key.script.Verb, err)
	for verb, t := range p.all() {
		if t.phase == removed {
			continue
		}
		t.cause = err
		carried := verb != p.key.script // which may have failed because of the acquire
		if !refused(err) || carried {
			t.maybeApplied = true // so it is released in a call of its own
			t.releaseMaybeApplied = t.releaseMaybeApplied || verb == protocol.ReleaseScript
		}
		if !transient(err) && !t.goesOnWithout(verb) && !carried {
			v.finishLocked(t, advise(err))
			if isUnreplicated(err) {
				v.leaveLocked(t)
			} else {
				v.removeLocked(t, advise(err))
			}
		}
	}
	for _, t := range v.tickets {
		t.recheck = t.recheck || t.phase == waiting // the lost reply may have had its grant
	}
	v.scheduleLocked(time.Now().Add(v.backoff/2 + rand.N(v.backoff/2+1)))
}

// goesOnWithout reports whether t continues although s was refused: a renewal is tried again, and a permit that cannot be
// renewed or restored ends with its lease.
func (t *ticket) goesOnWithout(s *protocol.Script) bool {
	return s == protocol.RefreshScript || s == protocol.ReduceScript || s == protocol.RestoreScript && t.phase == holding
}

// hintLocked schedules the next poll: at once if work is left, and soon after the nearest deadline if a ticket here waits,
// because an expired entry makes room. Jitter keeps many waiters apart. Of two replies, the one to the later call is newer
// and counts.
func (v *nameState) hintLocked(r protocol.Reply, sent time.Time) {
	if r.More {
		v.pollLocked()
	}
	if r.Next < 0 || v.waiters == 0 || sent.Before(v.deadlineSent) {
		return
	}
	delay := r.Next + time.Millisecond + rand.N(min(v.client.ttl/20, 100*time.Millisecond))
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
	verify := !v.verifySince.IsZero()
	due := over || verify
	v.loseOverdueLocked(now)
	for _, t := range v.tickets {
		v.advanceLocked(t, now)
		due = due || t.renewable() && t.lease.isDue(now)
	}
	if due && !v.refreshAllLocked(now, verify) && over {
		v.pollLocked()
	}
	for _, t := range v.tickets {
		v.scheduleLocked(t.nextDeadline())
	}
	v.scheduleLocked(v.deadline)
}

// refreshAllLocked renews every lease that is not quite new, so that they are all due together from then on. If verify is
// set it queries every holder and waiter. It reports whether there was any: a refresh also reaps and promotes.
func (v *nameState) refreshAllLocked(now instant, verify bool) bool {
	var old []*ticket
	for _, t := range v.tickets {
		if t.renewable() && !now.Before(t.lease.after(t.params.TTL/6, now.asleep)) || verify && !t.busy && (t.phase == waiting || t.phase == holding) {
			old = append(old, t)
		}
	}
	v.refreshLocked(old...)
	return len(old) > 0
}

// loseOverdueLocked ends the permits whose leases are over. It ends all of them before anything else is done for any: every
// holder must be notified before the margin is over.
func (v *nameState) loseOverdueLocked(now instant) {
	for _, t := range v.tickets {
		if t.isOverdue(now) {
			v.loseLocked(t, ErrLost, t.lapse())
		}
	}
}

// advanceLocked does what is due for one ticket, by the clock or after a failure.
func (v *nameState) advanceLocked(t *ticket, now instant) {
	silence := !t.unansweredSince.IsZero() && now.Sub(t.unansweredSince) >= t.params.TTL
	switch {
	case t.isOverdue(now):
		v.leaveLocked(t) // Redis may not know yet
	case t.phase == leaving && !now.Before(t.forgottenAt):
		v.removeLocked(t, unavailable(t.params.TTL, t.cause))
	case t.phase == leaving:
		v.releaseOrRemoveLocked(t)
	case silence && t.phase != holding:
		v.finishLocked(t, unavailable(t.params.TTL, t.cause))
		v.leaveLocked(t)
	case t.phase == asking:
		v.askLocked(t)
	case t.recheck || t.outdated(v.epoch):
		v.refreshLocked(t)
	default:
		v.reduceLocked(t)
	}
}

// scheduleLocked makes sure that a tick comes at that time or earlier.
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

// close gives up all tickets and accepts no more. It returns them so that the caller can wait for their removal.
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

// abandon removes the tickets whose release was not confirmed while Close waited.
func (v *nameState) abandon() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, t := range v.tickets {
		v.removeLocked(t, unavailable(closeGrace, t.cause))
	}
}

// removeRateGrant removes a grant of a rate limit, which is never released. It reports false if the ticket has been given
// up: the call then counts as not granted.
func (v *nameState) removeRateGrant(t *ticket) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t.phase != holding {
		return false
	}
	v.client.events.granted(t)
	v.removeLocked(t, nil)
	return true
}

// leave is leaveLocked for callers without the lock.
func (v *nameState) leave(t *ticket) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leaveLocked(t)
}

// giveUp is leave for a caller that has not received a grant. If Redis has not answered the last operation of t, it returns
// an error with the cause.
func (v *nameState) giveUp(t *ticket) (unanswered error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	since := t.unansweredSince
	if since.IsZero() && t.phase == asking && t.busy { // it is queued behind requests without an answer
		since = t.asked
	}
	if !since.IsZero() && (t.phase == asking || t.phase == waiting) && (t.cause != nil || tooLong(t.asked, since)) {
		unanswered = unavailable(time.Since(since), cmp.Or(t.cause, v.pipeline.failure()))
	}
	v.leaveLocked(t)
	return unanswered
}

// tooLong reports whether an answer that is due since then takes longer than usual.
func tooLong(asked, since time.Time) bool {
	return time.Since(since) >= min(minTimeout, time.Since(asked)/2)
}

// woken handles the grants of a wake message.
func (v *nameState) woken(epoch int64, grants []protocol.Grant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, g := range grants {
		v.grantedLocked(grantNotice{g, epoch, GrantedByMessage})
	}
}

// unavailable returns the error of a call that got no answer for so long.
func unavailable(silence time.Duration, cause error) error {
	if cause == nil {
		cause = errNoAnswer
	}
	return fmt.Errorf("%w: no answer from Redis for %v: %w", ErrUnavailable, silence.Round(time.Millisecond), cause)
}
