package main

import (
	"slices"

	"github.com/fairsem/fairsem/internal/history"
)

// pairFigures is for workloads without contention. It returns how many pairs of acquire and release ended within the window,
// and how long a pair took.
func pairFigures(r run) figures {
	var pairs []int64
	for _, o := range r.outcomes {
		pairs = append(pairs, o.Pairs...)
	}
	return merge(times(pairs), figures{"rate": float64(len(pairs)) / r.window.seconds()})
}

// waitFigures is for workloads with contention. A wait lasts from the call to its return. Waits of calls that were granted
// after the window count, too.
func waitFigures(r run) figures {
	records := r.records()
	var waits []int64
	var granted, failed float64
	for _, v := range records {
		waits = append(waits, v.waited())
		if v.granted() == 0 {
			failed++
		} else if v.granted() < r.window.End {
			granted++
		}
	}
	f := figures{
		"rate":      granted / r.window.seconds(),
		"most":      float64(history.MostAtOnce(grants(r.outcomes))),
		"overtakes": float64(overtakes(records)),
		"failed":    failed,
	}
	if r.job.Contender == fair {
		f["by token"] = float64(overtakesByToken(records))
	}
	return merge(times(waits), f)
}

// workFigures returns waitFigures and how much of the limit was in use: by the number of grants times the requested hold, and
// by the actual holds.
func workFigures(r run) figures {
	f := waitFigures(r)
	var busy int64
	for _, v := range r.records() {
		if v.granted() > 0 {
			busy += max(0, min(v.released(), r.window.End)-max(v.granted(), r.window.Start))
		}
	}
	f["utilisation"] = f["rate"] * r.job.Hold.Seconds() / float64(r.job.Limit)
	f["busy"] = inSeconds(busy) / r.window.seconds() / float64(r.job.Limit)
	return f
}

// handOffFigures returns how long a unit takes from one process to the next.
func handOffFigures(r run) figures {
	took := handOffTimes(r.outcomes)
	return merge(times(took), figures{"samples": float64(len(took))})
}

// waitOnly returns the waits of callers that do not wait for each other.
func waitOnly(r run) figures {
	var waits []int64
	for _, v := range r.records() {
		waits = append(waits, v.waited())
	}
	return merge(times(waits), figures{"samples": float64(len(waits))})
}

// times returns the quantiles of durations in nanoseconds, or nothing if there are none.
func times(ns []int64) figures {
	if len(ns) == 0 {
		return figures{}
	}
	slices.Sort(ns)
	return figures{
		"p50":     inSeconds(quantile(ns, 0.5)),
		"p99":     inSeconds(quantile(ns, 0.99)),
		"longest": inSeconds(ns[len(ns)-1]),
	}
}

// merge adds the figures of b to a.
func merge(a, b figures) figures {
	for key, value := range b {
		a[key] = value
	}
	return a
}
