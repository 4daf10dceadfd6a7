package fairsem

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// requestKey is the part that operations must have in common to share one list of a request.
type requestKey struct {
	script    *protocol.Script
	spec      protocol.LimitSpec     // declared by the call
	params    protocol.AcquireParams // of an acquire
	lease     time.Duration          // of a refresh or a restore
	confirmed int64                  // of a restore: the epoch in which Redis had its tickets last
	tombstone time.Duration          // of a release
	overdue   bool                   // of a release: the leases have ended
	inFull    bool                   // of a refresh: a plain script had no answer
}

// canBeCarried reports whether k is of releases that an acquire can make, too.
func (k requestKey) canBeCarried() bool {
	return k.script == protocol.ReleaseScript && k.tombstone == 0 && !k.overdue
}

// carries reports whether a call for k can make the releases of other, too.
func (k requestKey) carries(other requestKey) bool {
	return k.script == protocol.AcquireScript && other.canBeCarried() && other.spec == k.spec
}

// renews reports whether k concerns leases that end unless it is executed in time.
func (k requestKey) renews() bool {
	return k.script == protocol.RefreshScript || k.script == protocol.RestoreScript
}

// request is one script call about tickets of one name, in two lists: those that it releases, and those of any other script. It has
// both only if an acquire carries releases, which it then makes first.
// It is guarded by nameState.mu.
type request struct {
	state      *nameState
	releaseKey requestKey // of released
	released   []*ticket
	key        requestKey // of tickets, or of a bare request
	tickets    []*ticket
	urgent     bool
	bare       bool         // it is wanted without tickets: to reap and promote
	ids        atomic.Int32 // what all tickets that it has ever had cost
	plain      plainCall    // of the form in which it was sent
}

// plainCall is the assumption of a request that was sent to a plain script.
type plainCall struct {
	script  *protocol.Script // nil: it was sent to the full one
	knew    protocol.Known
	holding int // of a refresh: how many of the tickets hold
}

// callKey is the key of the script call: that of the tickets, unless there are only releases.
func (r *request) callKey() requestKey {
	if len(r.tickets) == 0 && len(r.released) > 0 {
		return r.releaseKey
	}
	return r.key
}

// takes reports whether tickets with the key k may be added.
func (r *request) takes(k requestKey) bool {
	if k.script == protocol.ReleaseScript {
		return r.releaseKey == k || r.key.carries(k)
	}
	return r.key == k || r.key.script == nil && k.carries(r.releaseKey)
}

// add adds tickets with their key to the list of such.
func (r *request) add(k requestKey, tickets []*ticket) {
	r.bare = r.bare || len(tickets) == 0
	for _, t := range tickets {
		r.ids.Add(int32(t.cost()))
	}
	if k.script == protocol.ReleaseScript {
		r.releaseKey, r.released = k, append(r.released, tickets...)
		return
	}
	r.key, r.tickets = k, append(r.tickets, tickets...)
}

// room is how many of some tickets r can still carry if it carries most: at least one if it has none.
func (r *request) room(tickets []*ticket, most int) int {
	return fitting(tickets, most-int(r.ids.Load()), most)
}

// fitting is how many of some tickets cost no more than is free of most: at least one if all is.
func fitting(tickets []*ticket, free, most int) (n int) {
	for n < len(tickets) && (free >= tickets[n].cost() || free == most) {
		free -= tickets[n].cost()
		n++
	}
	return n
}

// IDs is what all tickets that r has ever had cost, in ids.
func (r *request) IDs() int { return int(r.ids.Load()) }

// all yields the tickets in the order of the script's results, each with its verb.
func (r *request) all() iter.Seq2[*protocol.Script, *ticket] {
	return func(yield func(*protocol.Script, *ticket) bool) {
		for _, t := range r.released {
			if !yield(protocol.ReleaseScript, t) {
				return
			}
		}
		for _, t := range r.tickets {
			if !yield(r.key.script, t) {
				return
			}
		}
	}
}

// isUsual reports whether a request acquires new ids that weigh 1, and releases holders.
func (r *request) isUsual() bool {
	k := r.callKey()
	switch {
	case k.script != protocol.AcquireScript && !k.canBeCarried():
		return false
	case slices.ContainsFunc(r.tickets, func(t *ticket) bool {
		return t.Units() != 1 || t.maybeApplied
	}):
		return false
	}
	return !slices.ContainsFunc(r.released, func(t *ticket) bool { return !t.hold.begun })
}

// namesTenants reports whether a request declares anything of tenants.
func (r *request) namesTenants() bool {
	return slices.ContainsFunc(r.tickets, func(t *ticket) bool { return t.account().share > 0 })
}

// isOfOneTenant reports whether all tickets of a request are of one tenant, or of none.
func (r *request) isOfOneTenant() bool {
	var first *ticket
	for _, t := range r.all() {
		if first == nil {
			first = t
		}
		if t.opts.Tenant != first.opts.Tenant {
			return false
		}
	}
	return true
}

// tenantsLocked returns the declarations of the tickets of a request for their tenants: for each tenant, the newest.
func (r *request) tenantsLocked() (all []protocol.TenantSpec) {
	at := make(map[string]int)
	for _, t := range r.tickets {
		a := t.account()
		if a.share == 0 {
			continue
		}
		spec := protocol.TenantSpec{
			Name: a.tenant, Share: a.share, Limit: a.limit,
			After: r.state.host.declared.declareTenant(r.state.name, r.key.spec, a, t.asked),
		}
		if i, found := at[spec.Name]; found {
			if spec.After > all[i].After {
				all[i] = spec
			}
			continue
		}
		at[spec.Name] = len(all)
		all = append(all, spec)
	}
	return all
}
