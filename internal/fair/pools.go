package fair

import (
	"slices"
	"sync"
)

// Pool is one of the pools of a process that hold units of a limit. The zero Pool is ready to use; it must not be copied.
type Pool struct {
	at   place
	held int64
}

// place is what pools share the part of: a name, by one Client, on the account of one tenant.
type place struct{ client, name, tenant string }

// group are the pools of one place, in the order in which they came, and what they have seen of other processes.
type group struct {
	pools []*Pool
	seen  record
}

// pools are those that hold units.
var pools = struct {
	sync.Mutex
	at map[place]*group
}{at: make(map[place]*group)}

// PartOf returns how many units a pool of the process me may have that holds mine. Pools of one process share its part by what they
// hold.
func (c Census) PartOf(me string, p *Pool, mine int64) int64 {
	pools.Lock()
	defer pools.Unlock()
	p.joinLocked(place{me, c.Name, c.Tenant})
	p.held = mine
	group := pools.at[p.at]
	before, all := int64(0), int64(0)
	for _, one := range group.pools {
		if one == p {
			before = all
		}
		all += one.held
	}
	ours := c.All[me]
	ours.Held = max(ours.Held, all) // a permit that was just granted
	c.All[me] = ours
	part := group.seen.partOf(me, c)
	if ours.Held == 0 {
		return part
	}
	return part*(before+mine)/ours.Held - part*before/ours.Held // rounded so that all shares add up to the part
}

func (p *Pool) joinLocked(at place) {
	if p.at != at {
		p.leaveLocked()
		p.at = at
		if pools.at[at] == nil {
			pools.at[at] = new(group)
		}
		pools.at[at].pools = append(pools.at[at].pools, p)
	}
}

// Leave is for a pool that holds nothing.
func (p *Pool) Leave() {
	pools.Lock()
	defer pools.Unlock()
	p.leaveLocked()
}

func (p *Pool) leaveLocked() {
	if group := pools.at[p.at]; group != nil {
		group.pools = slices.DeleteFunc(group.pools, func(one *Pool) bool { return one == p })
		if len(group.pools) == 0 {
			delete(pools.at, p.at)
		}
	}
	p.at = place{}
}
