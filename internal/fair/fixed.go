package fair

import (
	"maps"
	"time"
)

// record is a process's observations of others that hold more than their parts.
type record struct {
	at   time.Time // of the last check
	over map[string]excess
}

// excess is the number of units that a process held, and since when that was more than its part and none of it was released.
type excess struct {
	held  int64
	since time.Time
}

// partOf returns the part of the process me.
//
// Not all that is beyond a part can be closed: MinConns are kept, a transaction goes on for an hour, a permit was acquired without a pool.
// If such units counted as available, processes that could make room would not, and one that has nothing would get nothing. So
// the units that a process has held beyond its part for two pauses, without a release, are off the limit, and the others share the rest.
// Processes that can close have begun to do so within one pause: each checks that often while others wait. It is not for ever: with its
// first release a process counts as one that makes room.
func (r *record) partOf(me string, c Census) int64 {
	timeout := 2 * c.Pause()
	if c.At.Sub(r.at) > 2*timeout { // meanwhile no process had to make room; a check may be late
		r.over = nil
	}
	limit, all, over := c.Limit, maps.Clone(c.All), make(map[string]excess)
	for {
		part, before := parts(limit, all), len(all)
		for id, p := range all {
			if id == me || p.Held <= part[id] {
				continue
			}
			was, known := r.over[id]
			if !known || p.Held < was.held {
				was.since = c.At
			}
			over[id] = excess{p.Held, was.since}
			if c.At.Sub(was.since) >= timeout {
				limit = max(0, limit-p.Held)
				delete(all, id)
			}
		}
		if len(all) == before { // else others may have more than their parts now
			r.at, r.over = c.At, over
			return part[me]
		}
	}
}
