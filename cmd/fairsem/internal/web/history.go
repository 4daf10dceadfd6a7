package web

import (
	"time"

	"github.com/fairsem/fairsem"
)

// The plots have that much time, or that many polls.
const (
	window     = 10 * time.Minute
	mostPoints = 600
)

// point is the status of a name at one moment.
type point struct {
	at                   time.Time
	used, limit, waiting int64
}

// history is the past of so many names at most. A name takes up to 600 points of 48 bytes, twice that while its slice
// grows: 1000 names take some 60 MB at worst, however long it runs.
type history struct {
	names  int
	series map[string][]point
}

// add adds a poll, and returns everything in a map of its own. The slices only grow at their end, beyond the part that
// readers have, so they can be read meanwhile.
func (h *history) add(at time.Time, all []fairsem.Status) map[string][]point {
	next := make(map[string][]point, len(all))
	for _, s := range all {
		next[s.Name] = append(recent(h.series[s.Name], at, mostPoints-1), point{at, s.Used, s.Limit, s.Waiting})
	}
	// A name that is unused for a while keeps its past, as long as there is room.
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

// recent leaves out the points that are too old or too many.
func recent(points []point, now time.Time, most int) []point {
	points = points[max(0, len(points)-most):]
	for len(points) > 0 && now.Sub(points[0].at) >= window {
		points = points[1:]
	}
	return points
}
