// Package fair says which part of a limit a process may have while others wait, and when to check. It is for pools that keep
// connections, and with them their permits.
package fair

import (
	"maps"
	"slices"
)

// Process is what one process has of a limit, and what it wants, in units.
type Process struct{ Held, Waiting int64 }

// demand is how much a process may want soon. A pool waits for one connection at a time, so what it has tells how much more it may
// use.
func (p Process) demand() int64 {
	if p.Waiting == 0 {
		return p.Held
	}
	return 2*p.Held + p.Waiting
}

// part returns how many of limit units the process me may have: no process with less goes without what it wants for it. What is
// left over after equal parts goes, one each, to processes that have it already, so that nothing moves when all have their parts.
func part(limit int64, all map[string]Process, me string) int64 {
	level, left := waterLevel(limit, all)
	mine := all[me]
	switch {
	case left < 0:
		return limit // there is enough for all
	case mine.demand() <= level || level == 0:
		return level
	}
	above := slices.Sorted(maps.Keys(all))
	above = slices.DeleteFunc(above, func(id string) bool { return all[id].Held <= level })
	rank := int64(slices.Index(above, me))
	if rank < 0 {
		rank = int64(len(above))
	}
	if rank < left {
		return level + 1
	}
	return level
}

// waterLevel returns the largest number of units for each process, or its demand if that is less, that a limit allows, and what
// is left over then; -1: the limit covers all demands.
func waterLevel(limit int64, all map[string]Process) (level, left int64) {
	demands := make([]int64, 0, len(all))
	for _, p := range all {
		demands = append(demands, p.demand())
	}
	slices.Sort(demands)
	left = limit
	for i, d := range demands {
		more := int64(len(demands) - i)
		if (d-level)*more > left {
			return level + left/more, left % more
		}
		left -= (d - level) * more
		level = d
	}
	return level, -1
}
