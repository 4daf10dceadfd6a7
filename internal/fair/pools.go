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

// place is what pools share the part of: a name, by one Client.
type place struct{ client, name string }

// pools are those that hold units, in the order in which they came.
var pools = struct {
	sync.Mutex
	at map[place][]*Pool
}{at: make(map[place][]*Pool)}

// PartOf returns how many units a pool of the process me may have that holds mine. Pools of one process share its part by what they
// hold.
func (c Census) PartOf(me string, p *Pool, mine int64) int64 {
	pools.Lock()
	defer pools.Unlock()
	p.joinLocked(place{me, c.Name})
	p.held = mine
	before, all := int64(0), int64(0)
	for _, one := range pools.at[p.at] {
		if one == p {
			before = all
		}
		all += one.held
	}
	ours := c.All[me]
	ours.Held = max(ours.Held, all) // a permit that was just granted
	c.All[me] = ours
	part := part(c.Limit, c.All, me)
	if ours.Held == 0 {
		return part
	}
	return part*(before+mine)/ours.Held - part*before/ours.Held // rounded so that all shares add up to the part
}

func (p *Pool) joinLocked(at place) {
	if p.at != at {
		p.leaveLocked()
		p.at = at
		pools.at[at] = append(pools.at[at], p)
	}
}

// Leave is for a pool that holds nothing.
func (p *Pool) Leave() {
	pools.Lock()
	defer pools.Unlock()
	p.leaveLocked()
}

func (p *Pool) leaveLocked() {
	rest := slices.DeleteFunc(pools.at[p.at], func(one *Pool) bool { return one == p })
	if pools.at[p.at] = rest; len(rest) == 0 {
		delete(pools.at, p.at)
	}
	p.at = place{}
}
