package fair

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// Pool is one of the pools of a process that hold units of a limit. The zero Pool is ready to use; it must not be copied.
type Pool struct {
	at           place
	held         int64
	begun, ended atomic.Int64 // calls that wait for a unit
}

// Begin counts a call that waits for a unit of the pool, until End.
func (p *Pool) Begin() { p.begun.Add(1) }

// End is called when a call has its unit, or gives up.
func (p *Pool) End() { p.ended.Add(1) }

// Waiting is how many calls wait for units of the pool.
func (p *Pool) Waiting() int64 { return p.begun.Load() - p.ended.Load() }

// place identifies the pools that share a part: those of a name, by one Client, on the account of one tenant.
type place struct{ client, name, tenant string }

// group are the pools of one place, in the order in which they came, and their observations of other processes.
type group struct {
	pools []*Pool
	seen  record
}

// pools are the pools that hold units.
var pools = struct {
	sync.Mutex
	at map[place]*group
}{at: make(map[place]*group)}

// PartOf returns how many units p may have, which holds mine. Pools of one process share its part as processes share the limit, and so do
// the process's own units and wants beside them: permits that were acquired without a pool, and the calls of a pool that has none.
func (p *Pool) PartOf(now Census, mine int64) int64 {
	pools.Lock()
	defer pools.Unlock()
	p.joinLocked(place{now.Client, now.Name, now.Tenant})
	p.held = mine
	group := pools.at[p.at]
	all := int64(0)
	for _, one := range group.pools {
		all += one.held
	}
	ours := now.All[now.Client]
	ours.Held = max(ours.Held, all) // a permit that was just granted
	now.All[now.Client] = ours
	part := group.seen.partOf(now.Client, now)
	return parts(part, group.divide(ours, p, now.Calls))[strconv.Itoa(slices.Index(group.pools, p))]
}

// divide returns the units that each pool of a process has and wants, by its place in the group, and those of the process beside them.
// Of p it is known better how many calls wait.
func (g *group) divide(process Process, p *Pool, calls int64) map[string]Process {
	all := make(map[string]Process)
	for i, one := range g.pools {
		waiting := one.Waiting()
		if one == p {
			waiting = calls
		}
		pool := Process{one.held, min(waiting, process.Waiting)}
		process = Process{process.Held - pool.Held, process.Waiting - pool.Waiting}
		all[strconv.Itoa(i)] = pool
	}
	if process != (Process{}) {
		all["beside"] = process
	}
	return all
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
