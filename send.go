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
	most := protocol.MaxIDs
	if slices.ContainsFunc(tickets, func(t *ticket) bool { return t.account().share > 0 }) {
		most = protocol.MaxIDsOfTenants
	}
	for first := true; first || len(tickets) > 0; first = false {
		r := v.fillingLocked(k, urgent)
		if r != nil && len(tickets) > 0 && r.room(tickets, most) == 0 {
			v.closeLocked(r)
			continue
		}
		begun := r == nil
		if begun {
			r = &request{state: v, key: k, urgent: urgent}
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

// fillingLocked returns a request that can carry an operation, nil if there is none. Urgent and other operations do not
// share a request: the urgent ones would be late, or the others would overtake.
func (v *nameState) fillingLocked(k requestKey, urgent bool) *request {
	for _, r := range v.filling {
		if r.urgent == urgent && (r.key == k || r.key.spec == k.spec && r.joins(k)) {
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
	if len(r.tickets) == 0 && len(r.released) == 0 && !r.bare {
		return pipeline.Command{}, 0, false
	}
	if len(r.tickets) == 0 && r.key.script == protocol.AcquireScript {
		r.key = requestKey{script: protocol.ReleaseScript, spec: r.key.spec} // of the acquire that it was to carry
	}
	timeout = pipeline.MaxTimeout
	for _, t := range r.all() {
		timeout = min(timeout, t.ttl/3)
	}
	return pipeline.Command{Call: r.callLocked(), Otherwise: r}, timeout, true
}

// callLocked returns the script call: a plain one if it may do.
func (r *request) callLocked() protocol.Call {
	v, k := r.state, r.key
	d := v.host.declared.declare(v.name, k.spec)
	r.plain = plainCall{r.plainScript(d), protocol.Known{Since: d.Since, Epoch: v.epoch}}
	switch r.plain.script {
	case protocol.PlainAcquireScript, protocol.PlainNumbersAcquireScript:
		return protocol.PlainAcquire(r.plain.script, v.about, r.plain.knew, k.params.TTL, r.tickets, r.released)
	case protocol.PlainReleaseScript, protocol.PlainNumbersReleaseScript, protocol.PlainTenantsReleaseScript:
		return protocol.PlainRelease(r.plain.script, v.about, r.released)
	case protocol.PlainTenantsAcquireScript:
		return protocol.PlainTenantsAcquire(v.about, r.plain.knew, k.params.TTL, r.tenantsLocked(r.tickets), r.tickets, r.released)
	case protocol.PlainTenantsScript:
		return protocol.PlainTenants(v.about, r.plain.knew, k.params, r.tenantsLocked(r.tickets), r.tickets, r.released)
	case protocol.PlainQueueScript:
		return protocol.PlainQueue(v.about, r.plain.knew, k.params, r.tickets, r.released)
	}
	return r.fullCallLocked(d)
}

// plainScript returns the plain script that may answer a request which declares d, nil if there is none. The ids must be new
// and weigh 1, or be holders; and the server must know the declaration.
func (r *request) plainScript(d protocol.Declaration) *protocol.Script {
	if d.Since == 0 || r.bare || r.key.spec.Window > 0 || !r.isUsual() {
		return nil
	}
	acquires, params := r.key.script == protocol.AcquireScript, r.key.params
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
		return r.plainScriptOfTenants(kind, acquires)
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

// plainScriptOfTenants is plainScript for a name that tenants share.
func (r *request) plainScriptOfTenants(kind protocol.Plain, acquires bool) *protocol.Script {
	s, params := &r.state.fastPath, r.key.params
	if kind == protocol.PlainWithTenants && r.isOfOneTenant() {
		if acquires {
			return protocol.PlainTenantsAcquireScript
		}
		return protocol.PlainTenantsReleaseScript
	}
	needNotWait := s.plain == protocol.PlainWithTenants
	if r.state.epoch != 0 && s.withQueue.wait == 0 && (!acquires || params.QueuesInAnyCase() || needNotWait) {
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
	return r.fullCallLocked(r.state.host.declared.declare(r.state.name, r.key.spec))
}

// fullCallLocked returns the call of the script that knows all cases.
func (r *request) fullCallLocked(d protocol.Declaration) protocol.Call {
	v, k := r.state, r.key
	d.Knows = v.knowsLocked()
	if k.script == protocol.AcquireScript || k.script == protocol.RestoreScript {
		d.Tenants = r.tenantsLocked(r.tickets)
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

// claimsLocked returns the former state of the tickets of a restore, and moves the holders among them to the front.
func (r *request) claimsLocked() (had protocol.Claims) {
	slices.SortStableFunc(r.tickets, func(a, b *ticket) int {
		return cmp.Compare(b.phase, a.phase) // waiting comes before holding
	})
	had.Epoch = r.state.epoch
	for _, t := range r.tickets {
		if t.phase == holding {
			had.Holders++
		}
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
	if r.plain.script == nil {
		return protocol.DecodeReply(raw, len(r.released)+len(r.tickets))
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
	if err == nil && v.host.cluster && v.watched.isDue(rep.Epoch, sent.Time) {
		v.host.hub.Watch(v.name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
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
		v.answeredLocked(r, rep, sent)
	}
	return v.waking.woken(v.waiters)
}
