package fairsem

import (
	"slices"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Restoring state that Redis lost. A server that is restarted without persistence, or a replica that takes over before it
// had everything, lacks the latest grants. Their holders are still alive: each process restores what it has, with the old
// tokens and positions, before the server grants anything new. Three things make that safe and soon enough:
//
//   - Every script that can grant something compares the identity of the server. A change starts a new epoch, with a
//     grace period.
//   - Every reply carries the epoch. When it differs from that of its tickets, or another server has answered, a client restores
//     its permits at once, of which those that are stored are only renewed, and queries what waits.
//   - When a connection breaks, every name is verified. Every client that has tickets keeps connections open only to see
//     them break: the subscription, and in a cluster one to each primary. While one of these is not established, the
//     client queries several times in each grace period instead. Where a server is replaced and lives on, as in a planned
//     failover, nothing breaks: the first answer of the new one has the client subscribe there, and verify every name.
//
// Within one epoch nothing is restored: an id that is missing there has expired or was removed. The script sees to that, because a client may
// learn of another server before it learns of the epoch.

// knowsLocked returns what calls about the name say that this client knows.
func (v *nameState) knowsLocked() string {
	if v.epoch != 0 {
		return protocol.UsedBefore
	}
	return v.host.servers.known()
}

// verify is called when the server of the name may have changed: it queries all its tickets.
func (v *nameState) verify() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.verifySince = time.Now()
	if v.backoff == 0 {
		v.scheduleLocked(v.verifySince)
	} else {
		v.scheduleLocked(v.verifySince.Add(lastRetry)) // at the latest: the next try may be scheduled already
	}
}

// checkLocked schedules queries of all tickets for as long as a server could go away unnoticed: often enough to restore
// them within the grace period, also while calls fail. One that is too short for that has no more queries than there are retries.
func (v *nameState) checkLocked() {
	if !v.checkAt.IsZero() || !v.host.hub.Blind() {
		return
	}
	every := v.host.grace / 3
	if every < firstRetry {
		every = max(firstRetry, v.backoff)
	}
	v.checkAt = time.Now().Add(every)
	v.scheduleLocked(v.checkAt)
}

// noteEpochLocked records the epoch from the reply to a call that was sent at that time.
func (v *nameState) noteEpochLocked(epoch int64, sent time.Time) {
	if epoch == 0 || sent.Before(v.epochSent) {
		return // the reply has none, or is older than the one that is known
	}
	v.epochSent = sent
	if !sent.Before(v.verifySince) {
		v.verifySince = time.Time{}
	} else {
		v.scheduleLocked(time.Now())
	}
	if v.epoch != epoch && v.epoch != 0 {
		v.scheduleLocked(time.Now())
	}
	v.epoch = epoch
}

// restoreLocked restores t.
func (v *nameState) restoreLocked(t *ticket) { v.submitLocked(t, v.restoreKey(t)) }

// restoreKey is the key of the restore of t. A permit that is never renewed gets the rest of its lease.
func (v *nameState) restoreKey(t *ticket) requestKey {
	lease := t.ttl
	if t.opts.NoRefresh && t.phase == holding {
		lease = t.rest(v.host.clock.Now())
	}
	return requestKey{script: protocol.RestoreScript, spec: t.spec, lease: lease, confirmed: t.epoch}
}

// restoreInsteadLocked turns a query of permits that the server may have lost into a restore, which answers like a query for what is stored all
// the same. With thousands of names, or of permits, the grace period would end before both were sent. A waiter is queried: its grant may be
// stored, which a restore would undo, or the message about it be under way.
func (r *request) restoreInsteadLocked() {
	v := r.state
	if r.key.script != protocol.RefreshScript || v.queriesFirst {
		return
	}
	changed := !v.host.keyspace.Cluster && v.host.servers.changed(v.server)
	isLost := func(t *ticket) bool {
		return t.phase == holding && (t.isOutdated(v.epoch) || changed && t.isStored() && t.epoch != 0)
	}
	if !slices.ContainsFunc(r.tickets, isLost) {
		return
	}
	calls := make(map[requestKey][]*ticket, 1)
	for _, t := range r.tickets {
		if isLost(t) {
			k := v.restoreKey(t)
			calls[k] = append(calls[k], t)
		}
	}
	r.tickets = slices.DeleteFunc(r.tickets, isLost)
	inPlace := len(r.tickets) == 0 && !r.bare // among the requests of many names
	for k, together := range calls {
		if inPlace {
			most := mostInFull(together)
			n := fitting(together, most, most)
			r.key, r.tickets, together, inPlace = k, together[:n:n], together[n:], false
		}
		if len(together) > 0 {
			v.queueLocked(k, together...)
		}
	}
}
