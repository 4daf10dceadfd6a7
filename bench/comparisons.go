package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// unlimited is a limit that is never reached.
const unlimited = 1 << 30

var (
	locks      = []string{redislocks, redsyncs, rueidislocks}
	semaphores = []string{asynqs, nodes}
)

// entries returns an entry for each contender, without changes.
func entries(contenders ...string) []entry {
	var all []entry
	for _, c := range contenders {
		all = append(all, entry{label: c, contender: c})
	}
	return all
}

// withChange adds a change of the job to all entries.
func withChange(change func(*job), all []entry) []entry {
	for i := range all {
		all[i].change = change
	}
	return all
}

// sharedNames makes the goroutines share names. Semaphores with a high limit are uncontended all the same. Locks are
// uncontended only if each goroutine has its own name, which is the default.
func sharedNames(names int) func(*job) { return func(j *job) { j.Names = names } }

// uncontendedEntries returns all contenders. The semaphores share the given number of names.
func uncontendedEntries(names int) []entry {
	all := append(entries(pings), withChange(sharedNames(names), entries(fair))...)
	all = append(all, entries(locks...)...)
	return append(all, withChange(sharedNames(names), entries(semaphores...))...)
}

const ownCoreLabel = ", a core each"

// onTwoCores returns contenders that run on another core than Redis.
func onTwoCores(contenders ...string) []entry {
	all := withChange(sharedNames(1), entries(contenders...))
	for i := range all {
		all[i].label += ownCoreLabel
		all[i].ownCore = true
	}
	return all
}

// fairAlone is the label of fairsem with a name for each goroutine.
const fairAlone = "fairsem, a name each"

func comparisons() []comparison {
	return []comparison{oneGoroutine(), goroutines256(), goroutines1024(), contendedSemaphores(), contendedLocks(), contendedWork(), handOff()}
}

var pairColumns = []string{"rate", "p50", "p99", "cpu"}

func oneGoroutine() comparison {
	return comparison{
		name: "alone", title: "1 goroutine, uncontended acquire + release",
		entries: slices.Concat(entries(floors), uncontendedEntries(1), onTwoCores(floors, pings, fair, redislocks)), processes: 1, cores: oneCore, share: 0.5,
		job:  job{Goroutines: 1, Limit: unlimited},
		read: pairFigures, columns: append(slices.Clip(pairColumns), cpuOfPings),
		relate: func(s *section) { s.relateCPU(pings) },
		notes: []string{"If Redis and the process share a core, nothing is left to chance, and every microsecond of work counts. If they have a core each, they wake each other up.",
			"The floor is two scripts that keep no queue: see peer_floor.go. It shows what is possible, and promises neither an order nor that a lost lease is found."},
		targets: func(s *section) []target {
			return []target{
				atMost(1.4, "p50 at most 1.4 x two PINGs (aim: 1.25)", s.ratio("p50", fair, pings), ratio),
				atMost(1.2, "p50 at most 1.2 x redislock (aim: 1.10)", s.ratio("p50", fair, redislocks), ratio),
				atMost(1.4, "the same with a core for Redis: 1.4 x two PINGs", s.ratio("p50", fair+ownCoreLabel, pings+ownCoreLabel), ratio),
				atMost(1.2, "and 1.2 x redislock", s.ratio("p50", fair+ownCoreLabel, redislocks+ownCoreLabel), ratio),
			}
		},
	}
}

// cpuOfPings is Redis's CPU for each call as a multiple of that of two PINGs.
const cpuOfPings = "cpu of pings"

// relateCPU adds cpuOfPings to each round, with the PINGs that have the same cores.
func (s *section) relateCPU(pings string) {
	for _, x := range s.Series {
		base := pings
		if strings.HasSuffix(x.Label, ownCoreLabel) {
			base += ownCoreLabel
		}
		for round, times := range s.ratio("cpu", x.Label, base) {
			if !math.IsNaN(times) && !math.IsInf(times, 0) { // Redis counts its CPU in steps, of which a short run may see none
				x.Rounds[round][cpuOfPings] = times
			}
		}
	}
}

func goroutines256() comparison {
	return comparison{
		name: "256", title: "256 goroutines, uncontended, one process",
		entries: append(uncontendedEntries(1), entry{label: fairAlone, contender: fair}), processes: 1, share: 0.5,
		job:  job{Goroutines: 256, Limit: unlimited},
		read: pairFigures, columns: pairColumns,
		targets: func(s *section) []target {
			return []target{
				atLeast(5, "at least 5 x redislock's pairs/s", s.ratio("rate", fair, redislocks), ratio),
				atMost(0.2, "Redis CPU per pair at most 1/5 of redislock's", s.ratio("cpu", fair, redislocks), ratio),
			}
		},
	}
}

func goroutines1024() comparison {
	return comparison{
		name: "1024", title: "1024 goroutines on 100 names, one process",
		entries: uncontendedEntries(100), processes: 1, share: 0.5,
		job:  job{Goroutines: 1024, Limit: unlimited},
		read: pairFigures, columns: pairColumns,
		notes: []string{"The locks have a name for each goroutine, because on 100 names they would be contended."},
		targets: func(s *section) []target {
			return []target{
				atLeast(4, "at least 4 x redislock's pairs/s", s.ratio("rate", fair, redislocks), ratio),
			}
		},
	}
}

// contended returns a comparison with 4 processes of 16 goroutines each that all acquire the same name.
func contended(name, title string, limit int64, hold time.Duration, contenders []string) comparison {
	return comparison{
		name: name, title: title, entries: entries(contenders...), processes: 4, share: 1,
		job:  job{Goroutines: 16, Names: 1, Limit: limit, Hold: hold, Journal: true},
		read: waitFigures, columns: []string{"rate", "p50", "p99", "longest", "cpu", "most", "overtakes", "by token", "failed"},
		notes: []string{
			"Times are waits, from the call of Acquire to its return. They are quantiles of calls, not of callers: " +
				"if one caller gets the unit thousands of times while the others wait, few calls are long, and only the longest shows it.",
		},
	}
}

func contendedSemaphores() comparison {
	r := contended("limit 4", "contended, limit 4, 4 processes x 16 goroutines, hold 0, semaphores",
		4, 0, append([]string{fair}, semaphores...))
	r.targets = func(s *section) []target { return againstBest(s, 2, "semaphore", semaphores) }
	return r
}

func contendedLocks() comparison {
	r := contended("limit 1", "contended, limit 1, 4 processes x 16 goroutines, hold 0, locks",
		1, 0, append([]string{fair}, locks...))
	r.targets = func(s *section) []target { return againstBest(s, 1, "lock", locks) }
	return r
}

// againstBest returns targets that compare fairsem with the peer that has the most grants.
func againstBest(s *section, times float64, kind string, peers []string) []target {
	best := s.best("rate", peers...)
	return []target{
		atLeast(times, fmt.Sprintf("at least %.1f x the grants/s of the best %s (%s)", times, kind, best), s.ratio("rate", fair, best), ratio),
		atMost(0.2, "p99 wait at most 1/5 of that peer's", s.ratio("p99", fair, best), ratio),
		none("0 overtakes", s.contender(fair), "overtakes"),
	}
}

func contendedWork() comparison {
	r := contended("work", "contended, limit 4, hold 5 ms, 4 processes x 16 goroutines", 4, 5*time.Millisecond, append([]string{fair}, semaphores...))
	r.read = workFigures
	r.columns = []string{"utilisation", "busy", "rate", "p50", "p99", "longest", "cpu", "most", "overtakes", "by token", "failed"}
	r.notes = append(r.notes, `"limit used" is grants/s x 5 ms / 4; "with real holds" uses the actual length of the holds, because timers fire late.`)
	r.targets = func(s *section) []target {
		best := s.best("utilisation", semaphores...)
		beside := fmt.Sprintf("uses at least 97 %% of the limit (best peer, %s: %s)", best, percent(median(s.of(best, "utilisation"))))
		return []target{
			atLeast(0.97, beside, s.of(fair, "utilisation"), percent),
			none("0 overtakes", s.contender(fair), "overtakes"),
		}
	}
	return r
}

// Labels of the floor of the hand-off.
const (
	pingPaced = "PING, same pauses"
	pingBusy  = "PING, no pauses"
)

func handOff() comparison {
	all := []entry{
		{label: pingPaced, contender: pings, read: waitOnly},
		{label: pingBusy, contender: pings, read: waitOnly, change: func(j *job) { j.Hold, j.Pause = 0, 0 }},
	}
	return comparison{
		name: "handoff", title: "hand-off: release in process A to return of Acquire in process B",
		entries: append(all, entries(append([]string{fair}, append(locks, semaphores...)...)...)...), processes: 2, share: 0.5,
		job:  job{Goroutines: 1, Names: 1, Limit: 1, Hold: 2 * time.Millisecond, Pause: time.Millisecond, Journal: true},
		read: handOffFigures, columns: []string{"p50", "p99", "longest", "samples", "cpu"},
		notes: []string{"Two processes with a goroutine each hold for 2 ms and pause for 1 ms. A hand-off counts if the other process was already waiting."},
		targets: func(s *section) []target {
			return []target{
				atMost(2.5, "p50 at most 2.5 x PING", s.ratio("p50", fair, pingPaced), ratio),
				atMost(0.010, "p99 at most 10 ms", s.of(fair, "p99"), seconds),
			}
		},
	}
}
