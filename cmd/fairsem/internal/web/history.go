package web

import (
	"time"

	"github.com/fairsem/fairsem"
)

// The plots go back that far, or for that many looks.
const (
	window    = 10 * time.Minute
	mostLooks = 600
)

// point is what a name looked like once.
type point struct {
	at                   time.Time
	used, limit, waiting int64
}

// history is what names looked like, of so many names at most. A name takes up to 600 points of 48 bytes, twice that
// while its slice grows: with 1000 names that is some 60 MB at worst, however long it runs.
type history struct {
	names  int
	series map[string][]point
}

// add takes a look, and returns all there is in a map of its own. The slices only ever grow at their end, where
// nobody has read yet, so that they can be read while more is added.
func (h *history) add(at time.Time, all []fairsem.Status) map[string][]point {
	next := make(map[string][]point, len(all))
	for _, s := range all {
		next[s.Name] = append(recent(h.series[s.Name], at, mostLooks-1), point{at, s.Used, s.Limit, s.Waiting})
	}
	// Who is out of use for a while has a past when it comes back, as long as there is room.
	for name, points := range h.series {
		if len(next) >= h.names {
			break
		}
		if _, ok := next[name]; !ok && at.Sub(points[len(points)-1].at) < window {
			next[name] = points
		}
	}
	h.series = next
	return next
}

// recent leaves out what is too old, or too much.
func recent(points []point, now time.Time, most int) []point {
	points = points[max(0, len(points)-most):]
	for len(points) > 0 && now.Sub(points[0].at) >= window {
		points = points[1:]
	}
	return points
}
