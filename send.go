package fairsem

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
)

// submitLocked queues an operation, unless the one before has not ended. When that ends, the next one is submitted.
func (v *nameState) submitLocked(t *ticket, k requestKey) {
	if t.busy {
		return
	}
	t.busy = true
	v.queueLocked(k, t)
}

// queueLocked puts tickets into a request for their key. Without tickets the request only has the script reap and promote.
func (v *nameState) queueLocked(k requestKey, tickets ...*ticket) {
	urgent := k.renews() || slices.ContainsFunc(tickets, (*ticket).isUnanswered)
	// Behind a backlog of acquires every other operation is urgent.
	urgent = urgent || k.script != protocol.AcquireScript && v.pipeline.Crowded()
	most := v.mostLocked(k, tickets)
	for first := true; first || len(tickets) > 0; first = false {
		r := v.fillingLocked(k, urgent)
		if r != nil && len(tickets) > 0 && r.room(tickets, most) == 0 {
			v.closeLocked(r)
			continue
		}
		begun := r == nil
		if begun {
			r = &request{state: v, urgent: urgent}
			v.filling = append(v.filling, r)
		}
		n, before := r.room(tickets, most), r.IDs()
		r.add(k, tickets[:n])
		tickets = tickets[n:]
		if begun {
			v.pipeline.Queue(r, urgent)
		} else if !urgent {
			v.pipeline.Grown(r.IDs() - before)
		}
		if int(r.ids.Load()) >= most {
			v.closeLocked(r)
		}
	}
}

// mostLocked is how many tickets one request for k may carry, by their cost.
func (v *nameState) mostLocked(k requestKey, tickets []*ticket) int {
	if v.renewsManyLocked(k) {
		return min(protocol.MaxRenewals, int(v.pipeline.Most()))
	}
	return mostInFull(tickets)
}

// mostInFull is how many tickets a call of a full script may carry.
func mostInFull(tickets []*ticket) int {
	if slices.ContainsFunc(tickets, func(t *ticket) bool { return t.account().share > 0 }) {
		return protocol.MaxIDsOfTenants
	}
	return protocol.MaxIDs
}

// renewsManyLocked reports whether the plain script that renews many permits and waiters at once may do. Where no call waits, the full one is
// faster.
func (v *nameState) renewsManyLocked(k requestKey) bool {
	return k.script == protocol.RefreshScript && !k.inFull && v.waiters > 0 && k.lease > 0 && k.spec.Window == 0 && v.epoch != 0 && v.fastPath.renewsMany()
}

// fillingLocked returns a request that can carry an operation, nil if there is none. Urgent and other operations do not
// share a request: the urgent ones would be late, or the others would overtake.
func (v *nameState) fillingLocked(k requestKey, urgent bool) *request {
	for _, r := range v.filling {
		if r.urgent == urgent && r.takes(k) {
			return r
		}
	}
	return nil
}

// closeLocked lets no more tickets into a request.
func (v *nameState) closeLocked(r *request) {
	v.filling = slices.DeleteFunc(v.filling, func(other *request) bool { return other == r })
}

// Prepare returns the script call for the tickets that have not been given up meanwhile.
func (r *request) Prepare(now clock.Instant) (c pipeline.Command, timeout time.Duration, wanted bool) {
	v := r.state
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closeLocked(r)
	r.tickets = v.stillWantedLocked(r.key.script, r.tickets, now.Time)
	r.released = v.stillWantedLocked(protocol.ReleaseScript, r.released, now.Time)
	r.restoreInsteadLocked()
	if len(r.tickets) == 0 && len(r.released) == 0 && !r.bare {
		return pipeline.Command{}, 0, false
	}
	timeout = pipeline.MaxTimeout
	for _, t := range r.all() {
		timeout = min(timeout, t.ttl/3)
	}
	return pipeline.Command{Call: r.callLocked(), Otherwise: r}, timeout, true
}

// callLocked returns the script call: a plain one if it may do.
func (r *request) callLocked() protocol.Call {
	v, k := r.state, r.callKey()
	d := v.host.declared.declare(v.name, k.spec)
	r.plain = plainCall{script: r.plainScript(d), knew: protocol.Known{Since: d.Since, Epoch: v.epoch}}
	switch r.plain.script {
	case protocol.PlainAcquireScript, protocol.PlainNumbersAcquireScript:
		return protocol.PlainAcquire(r.plain.script, v.about, r.plain.knew, k.params.TTL, r.tickets, r.released)
	case protocol.PlainReleaseScript, protocol.PlainNumbersReleaseScript, protocol.PlainTenantsReleaseScript:
		return protocol.PlainRelease(r.plain.script, v.about, r.released)
	case protocol.PlainTenantsAcquireScript:
		return protocol.PlainTenantsAcquire(v.about, r.plain.knew, k.params.TTL, r.tenantsLocked(), r.tickets, r.released)
	case protocol.PlainTenantsScript:
		return protocol.PlainTenants(v.about, r.plain.knew, k.params, r.tenantsLocked(), r.tickets, r.released)
	case protocol.PlainQueueScript:
		return protocol.PlainQueue(v.about, r.plain.knew, k.params, r.tickets, r.released)
	case protocol.PlainRefreshScript:
		r.plain.holding = r.holdersFirst()
		return protocol.PlainRefresh(v.about, r.plain.knew, k.lease, r.plain.holding, r.tickets)
	}
	return r.fullCallLocked(d)
}

// plainScript returns the plain script that may answer a request which declares d, nil if there is none. The ids must be new
// and weigh 1, or be holders; and the server must know the declaration.
func (r *request) plainScript(d protocol.Declaration) *protocol.Script {
	if r.renewsMany() && d.Since != 0 {
		return protocol.PlainRefreshScript
	}
	k := r.callKey()
	if d.Since == 0 || r.bare || k.spec.Window > 0 || !r.isUsual() {
		return nil
	}
	acquires, params := k.script == protocol.AcquireScript, k.params
	kind := r.state.fastPath.kind()
	if acquires && (params.Numbered != (kind == protocol.PlainWithNumbers) || r.namesTenants() && kind != protocol.PlainWithTenants && kind != protocol.PlainWithTenantsInQueue) {
		return nil
	}
	switch kind {
	case protocol.PlainWithNumbers:
		if acquires {
			return protocol.PlainNumbersAcquireScript
		}
		return protocol.PlainNumbersReleaseScript
	case protocol.PlainWithTenants, protocol.PlainWithTenantsInQueue:
		return r.plainScriptOfTenants(kind, k)
	case protocol.PlainWithQueue:
		if r.state.epoch != 0 && (!acquires || params.Wait && params.MaxQueue == 0) {
			return protocol.PlainQueueScript
		}
	case protocol.PlainWithoutQueue:
		if acquires {
			return protocol.PlainAcquireScript
		}
		return protocol.PlainReleaseScript
	}
	return nil
}

// renewsMany reports whether a request renews more permits and waiters than a full script may, and has no doubt about any.
func (r *request) renewsMany() bool {
	return r.state.renewsManyLocked(r.key) && !r.bare && len(r.tickets) > mostInFull(r.tickets) &&
		!slices.ContainsFunc(r.tickets, func(t *ticket) bool {
			return t.phase != holding && t.phase != waiting || t.isOutdated(r.state.epoch)
		})
}

// plainScriptOfTenants is plainScript for a name that tenants share.
func (r *request) plainScriptOfTenants(kind protocol.Plain, k requestKey) *protocol.Script {
	s, acquires := &r.state.fastPath, k.script == protocol.AcquireScript
	if kind == protocol.PlainWithTenants && r.isOfOneTenant() {
		if acquires {
			return protocol.PlainTenantsAcquireScript
		}
		return protocol.PlainTenantsReleaseScript
	}
	needNotWait := s.plain == protocol.PlainWithTenants
	if r.state.epoch != 0 && s.withQueue.wait == 0 && (!acquires || k.params.QueuesInAnyCase() || needNotWait) {
		return protocol.PlainTenantsScript
	}
	return nil
}

// Full returns the script call after a plain one that was declined.
func (r *request) Full() protocol.Call {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	r.state.fastPath.missed(r.plain.script)
	r.plain.script = nil
	return r.fullCallLocked(r.state.host.declared.declare(r.state.name, r.callKey().spec))
}

// fullCallLocked returns the call of the script that knows all cases.
func (r *request) fullCallLocked(d protocol.Declaration) protocol.Call {
	v, k := r.state, r.callKey()
	if k.script == protocol.RefreshScript {
		r.splitLocked()
	}
	d.Knows = v.knowsLocked()
	if k.script == protocol.AcquireScript || k.script == protocol.RestoreScript {
		d.Tenants = r.tenantsLocked()
	}
	switch k.script {
	case protocol.AcquireScript:
		return protocol.Acquire(v.about, d, k.params, r.tickets, r.released...)
	case protocol.ReleaseScript:
		return protocol.Release(v.about, d, k.tombstone, k.overdue, r.released)
	case protocol.RestoreScript:
		return protocol.Restore(v.about, d, k.lease, r.tickets, r.claimsLocked())
	case protocol.ReduceScript:
		return protocol.Reduce(v.about, d, r.tickets, r.keepsLocked())
	default:
		hold := !slices.ContainsFunc(r.tickets, func(t *ticket) bool {
			return t.phase != holding || t.opts.Numbered && t.isOutdated(v.epoch)
		})
		return protocol.Refresh(v.about, d, k.lease, hold, r.tickets)
	}
}

// splitLocked queues again what a full script may not get at once.
func (r *request) splitLocked() {
	most := mostInFull(r.tickets)
	n := fitting(r.tickets, most, most)
	if n == len(r.tickets) {
		return
	}
	r.queueInFullLocked(r.tickets[n:])
	r.tickets = r.tickets[:n:n]
}

// holdersFirst moves the holders among the tickets to the front, and returns how many they are.
func (r *request) holdersFirst() (n int) {
	slices.SortStableFunc(r.tickets, func(a, b *ticket) int {
		return cmp.Compare(b.phase, a.phase) // waiting comes before holding
	})
	for n < len(r.tickets) && r.tickets[n].phase == holding {
		n++
	}
	return n
}

// claimsLocked returns the former state of the tickets of a restore, of which holders come first.
func (r *request) claimsLocked() (had protocol.Claims) {
	had.Epoch, had.Confirmed, had.Holders = r.state.epoch, r.key.confirmed, r.holdersFirst()
	for _, t := range r.tickets {
		had.Granted = max(had.Granted, min(t.grantedIn, had.Confirmed)) // it has not missed its own grant: a clock was put right
		had.Numbers = append(had.Numbers, t.number())
		had.Units = append(had.Units, t.keeps())
	}
	if slices.ContainsFunc(r.tickets, func(t *ticket) bool { return t.opts.Numbered }) {
		for _, t := range r.tickets {
			had.Lists = append(had.Lists, protocol.NumberList(t.keptNumbers()))
		}
	}
	return had
}

// keepsLocked returns how many units each ticket of a reduce should still have.
func (r *request) keepsLocked() (all []int64) {
	for _, t := range r.tickets {
		all = append(all, t.keeps())
	}
	return all
}

// decode returns the reply to the call that was answered.
func (r *request) decode(raw []int64) (protocol.Reply, error) {
	switch r.plain.script {
	case nil:
		return protocol.DecodeReply(raw, len(r.released)+len(r.tickets))
	case protocol.PlainRefreshScript:
		return protocol.DecodeRenewed(raw, r.plain.knew, r.plain.holding, len(r.tickets))
	}
	return r.plain.script.DecodePlain(raw, r.plain.knew, r.key.params.HeadStart, len(r.released), len(r.tickets))
}

// Done passes the answer to the tickets. It returns how many callers this wakes if the name has a queue, else 0.
func (r *request) Done(response pipeline.Response, sent clock.Instant) (woken int) {
	v := r.state
	var rep protocol.Reply
	err := response.Err
	if err == nil {
		rep, err = r.decode(response.Numbers)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil && v.host.keyspace.Cluster && v.watched.isDue(rep.Epoch, sent.Time) {
		v.mu.Unlock() // to find the server go-redis may have to query a node
		v.host.hub.Watch(v.name)
		v.mu.Lock()
	}
	v.waking = waking{queue: v.waiters > 0}
	for _, t := range r.all() {
		t.busy = false
	}
	if err != nil {
		if r.plain.script != nil {
			v.fastPath.missed(r.plain.script) // whatever the error, a full call may work
		}
		v.failedLocked(r, err)
	} else {
		if r.plain.script == protocol.PlainRefreshScript {
			r.completeLocked(&rep)
		}
		v.answeredLocked(r, rep, sent)
	}
	return v.waking.woken(v.waiters)
}

// completeLocked adds to the reply of a plain renewal the positions that it does not repeat. What was not renewed, because it is not what this
// process took it for, is queried in full; the reply is about the others.
func (r *request) completeLocked(rep *protocol.Reply) {
	var missed []*ticket
	n := 0
	for i, t := range r.tickets {
		result := rep.Results[i]
		switch result.State {
		case protocol.Gone:
			missed, t.busy = append(missed, t), true
			continue
		case protocol.Waiting:
			result.Number = t.position
		}
		r.tickets[n], rep.Results[n] = t, result
		n++
	}
	r.tickets, rep.Results = r.tickets[:n], rep.Results[:n]
	if len(missed) > 0 {
		r.queueInFullLocked(missed)
	}
}

// queueInFullLocked queues tickets of a refresh again, to be sent to the full script.
func (r *request) queueInFullLocked(tickets []*ticket) {
	k := r.key
	k.inFull = true
	r.state.queueLocked(k, tickets...)
}
