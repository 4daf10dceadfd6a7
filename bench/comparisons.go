package main

import (
	"fmt"
	"time"
)

// unlimited is a limit that nobody meets.
const unlimited = 1 << 30

var (
	locks      = []string{redislocks, redsyncs, rueidislocks}
	semaphores = []string{asynqs, nodes}
)

// entries are contenders that all do the same.
func entries(contenders ...string) []entry {
	var all []entry
	for _, c := range contenders {
		all = append(all, entry{label: c, contender: c})
	}
	return all
}

// changed are entries with another job.
func changed(change func(*job), all []entry) []entry {
	for i := range all {
		all[i].change = change
	}
	return all
}

// shared has the goroutines share so many names, as semaphores do that nobody has to wait for; locks
// are uncontended only with a name each, which is the default.
func shared(names int) func(*job) { return func(j *job) { j.Names = names } }

// unhindered are all contenders, the semaphores on so many names.
func unhindered(names int) []entry {
	all := append(entries(pings), changed(shared(names), entries(fair))...)
	all = append(all, entries(locks...)...)
	return append(all, changed(shared(names), entries(semaphores...))...)
}

const apartLabel = ", a core each"

// onTwoCores are contenders in a process that Redis leaves a core to.
func onTwoCores(contenders ...string) []entry {
	all := changed(shared(1), entries(contenders...))
	for i := range all {
		all[i].label += apartLabel
		all[i].apart = true
	}
	return all
}

// fairAlone is fairsem with a name for each goroutine.
const fairAlone = "fairsem, a name each"

func races() []race {
	return []race{alone(), crowd(), names(), contendedSemaphores(), contendedLocks(), realWork(), handOff()}
}

var pairColumns = []string{"rate", "p50", "p99", "cpu"}

func alone() race {
	return race{
		name: "alone", title: "1 goroutine, uncontended acquire + release",
		entries: append(unhindered(1), onTwoCores(pings, fair, redislocks)...), processes: 1, cores: together, share: 0.5,
		job:  job{Goroutines: 1, Limit: unlimited},
		read: pairFigures, columns: pairColumns,
		notes: []string{"Redis and the process share a core, which leaves nothing to chance, and every microsecond of work counts; or have one each, and wake each other up."},
		targets: func(s *section) []target {
			return []target{
				atMost(1.4, "p50 at most 1.4 x two PINGs (aim: 1.25)", s.ratio("p50", fair, pings), ratio),
				atMost(1.2, "p50 at most 1.2 x redislock (aim: 1.10)", s.ratio("p50", fair, redislocks), ratio),
				atMost(1.4, "the same with a core for Redis: 1.4 x two PINGs", s.ratio("p50", fair+apartLabel, pings+apartLabel), ratio),
				atMost(1.2, "and 1.2 x redislock", s.ratio("p50", fair+apartLabel, redislocks+apartLabel), ratio),
			}
		},
	}
}

func crowd() race {
	return race{
		name: "256", title: "256 goroutines, uncontended, one process",
		entries: append(unhindered(1), entry{label: fairAlone, contender: fair}), processes: 1, share: 0.5,
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

func names() race {
	return race{
		name: "1024", title: "1024 goroutines on 100 names, one process",
		entries: unhindered(100), processes: 1, share: 0.5,
		job:  job{Goroutines: 1024, Limit: unlimited},
		read: pairFigures, columns: pairColumns,
		notes: []string{"The locks have a name for each goroutine: on 100 names they would not be uncontended."},
		targets: func(s *section) []target {
			return []target{
				atLeast(4, "at least 4 x redislock's pairs/s", s.ratio("rate", fair, redislocks), ratio),
			}
		},
	}
}

// contended is 4 processes with 16 goroutines each that all want the same name.
func contended(name, title string, limit int64, hold time.Duration, contenders []string) race {
	return race{
		name: name, title: title, entries: entries(contenders...), processes: 4, share: 1,
		job:  job{Goroutines: 16, Names: 1, Limit: limit, Hold: hold, Journal: true},
		read: waitFigures, columns: []string{"rate", "p50", "p99", "longest", "cpu", "most", "overtakes", "by token", "failed"},
		notes: []string{
			"Times are waits: from the call of Acquire to its return. They are quantiles of calls, not of callers: " +
				"where one caller gets the unit thousands of times while the others wait, few calls are long ones, and only the longest shows it.",
		},
	}
}

func contendedSemaphores() race {
	r := contended("limit 4", "contended, limit 4, 4 processes x 16 goroutines, hold 0, semaphores",
		4, 0, append([]string{fair}, semaphores...))
	r.targets = func(s *section) []target { return besides(s, 2, "semaphore", semaphores) }
	return r
}

func contendedLocks() race {
	r := contended("limit 1", "contended, limit 1, 4 processes x 16 goroutines, hold 0, locks",
		1, 0, append([]string{fair}, locks...))
	r.targets = func(s *section) []target { return besides(s, 1, "lock", locks) }
	return r
}

// besides compares fairsem with the peer that has the most grants.
func besides(s *section, times float64, kind string, peers []string) []target {
	best := s.best("rate", peers...)
	return []target{
		atLeast(times, fmt.Sprintf("at least %.1f x the grants/s of the best %s (%s)", times, kind, best), s.ratio("rate", fair, best), ratio),
		atMost(0.2, "p99 wait at most 1/5 of that peer's", s.ratio("p99", fair, best), ratio),
		none("0 overtakes", s.of(fair, "overtakes")),
	}
}

func realWork() race {
	r := contended("work", "contended, limit 4, hold 5 ms, 4 processes x 16 goroutines", 4, 5*time.Millisecond, append([]string{fair}, semaphores...))
	r.read = workFigures
	r.columns = []string{"utilisation", "busy", "rate", "p50", "p99", "longest", "cpu", "most", "overtakes", "by token", "failed"}
	r.notes = append(r.notes, `"limit used" is grants/s x 5 ms / 4; "with real holds" has the holds as long as they really were: timers come late.`)
	r.targets = func(s *section) []target {
		best := s.best("utilisation", semaphores...)
		beside := fmt.Sprintf("uses at least 97 %% of the limit (best peer, %s: %s)", best, percent(median(s.of(best, "utilisation"))))
		return []target{
			atLeast(0.97, beside, s.of(fair, "utilisation"), percent),
			none("0 overtakes", s.of(fair, "overtakes")),
		}
	}
	return r
}

// Labels of the hand-off's floor.
const (
	pingPaced = "PING, as seldom as that"
	pingBusy  = "PING, one after the other"
)

func handOff() race {
	all := []entry{
		{label: pingPaced, contender: pings, read: waitOnly},
		{label: pingBusy, contender: pings, read: waitOnly, change: func(j *job) { j.Hold, j.Pause = 0, 0 }},
	}
	return race{
		name: "handoff", title: "hand-off: release in process A to return of Acquire in process B",
		entries: append(all, entries(append([]string{fair}, append(locks, semaphores...)...)...)...), processes: 2, share: 0.5,
		job:  job{Goroutines: 1, Names: 1, Limit: 1, Hold: 2 * time.Millisecond, Pause: time.Millisecond, Journal: true},
		read: handOffFigures, columns: []string{"p50", "p99", "longest", "samples", "cpu"},
		notes: []string{"Two processes with a goroutine each hold for 2 ms and pause for 1 ms; a hand-off counts if the other waited already."},
		targets: func(s *section) []target {
			return []target{
				atMost(2.5, "p50 at most 2.5 x PING", s.ratio("p50", fair, pingPaced), ratio),
				atMost(0.010, "p99 at most 10 ms", s.of(fair, "p99"), seconds),
			}
		},
	}
}
