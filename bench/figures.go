package main

import (
	"slices"

	"github.com/fairsem/fairsem/internal/history"
)

// pairFigures are for callers who get what they ask for: how many acquired and released within the
// window, and how long both took together.
func pairFigures(r run) figures {
	var pairs []int64
	for _, o := range r.outcomes {
		pairs = append(pairs, o.Pairs...)
	}
	return merge(times(pairs), figures{"rate": float64(len(pairs)) / r.window.seconds()})
}

// waitFigures are for callers who have to wait for each other. Waits count from the call to its
// return, also the waits of those who were let in after the window.
func waitFigures(r run) figures {
	visits := r.visits()
	var waits []int64
	var granted, failed float64
	for _, v := range visits {
		waits = append(waits, v.wait())
		if v.granted() == 0 {
			failed++
		} else if v.granted() < r.window.End {
			granted++
		}
	}
	f := figures{
		"rate":      granted / r.window.seconds(),
		"most":      float64(history.MostAtOnce(grants(r.outcomes))),
		"overtakes": float64(overtakes(visits)),
		"failed":    failed,
	}
	if r.job.Contender == fair {
		f["by token"] = float64(overtakesByToken(visits))
	}
	return merge(times(waits), f)
}

// workFigures are waitFigures with how much of the limit was in use: by grants times the hold that
// was asked for, and by the holds as they really were.
func workFigures(r run) figures {
	f := waitFigures(r)
	var busy int64
	for _, v := range r.visits() {
		if v.granted() > 0 {
			busy += max(0, min(v.released(), r.window.End)-max(v.granted(), r.window.Start))
		}
	}
	f["utilisation"] = f["rate"] * r.job.Hold.Seconds() / float64(r.job.Limit)
	f["busy"] = inSeconds(busy) / r.window.seconds() / float64(r.job.Limit)
	return f
}

// handOffFigures are how long a unit takes from one process to the next.
func handOffFigures(r run) figures {
	took := handOffs(r.outcomes)
	return merge(times(took), figures{"samples": float64(len(took))})
}

// waitOnly are the waits of callers who do not wait for each other.
func waitOnly(r run) figures {
	var waits []int64
	for _, v := range r.visits() {
		waits = append(waits, v.wait())
	}
	return merge(times(waits), figures{"samples": float64(len(waits))})
}

// times are the quantiles of some nanoseconds; nothing if there are none.
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
