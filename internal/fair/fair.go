// Package fair says which part of a limit a process may have while others wait, when to check, and how much is in use. It is for pools
// that keep connections, and with them their permits.
package fair

import (
	"maps"
	"slices"
)

// Process is the part of a limit that one process has, and the part that it wants, in units.
type Process struct{ Held, Waiting int64 }

// demand is how much a process may want soon. A pool waits for one connection at a time, so its connections show how much more it may
// use.
func (p Process) demand() int64 {
	if p.Waiting == 0 {
		return p.Held
	}
	return 2*p.Held + p.Waiting
}

// parts returns how many of limit units each process may have: no process with less goes without units that it wants for it. The
// remainder after equal parts goes, one each, to processes that have it already, so that nothing moves when all have their parts.
func parts(limit int64, all map[string]Process) map[string]int64 {
	level, left := waterLevel(limit, all)
	found := make(map[string]int64, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		switch {
		case left < 0:
			found[id] = limit // there is enough for all
		case all[id].Held > level && left > 0 && level > 0:
			left--
			found[id] = level + 1
		default:
			found[id] = level
		}
	}
	for id, p := range all {
		if left > 0 && level > 0 && p.Held <= level && p.demand() > level {
			found[id] = level + 1
		}
	}
	return found
}

// waterLevel returns the largest number of units for each process, or its demand if that is less, that a limit allows, and the
// remainder; -1: the limit covers all demands.
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
