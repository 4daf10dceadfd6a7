package protocol

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/testclient"
)

var isNumbered = regexp.MustCompile(`^[^:]*:\d+#`)

func numbering(p *AcquireParams) { p.Numbered = true }

// S13, one call at a time.
func TestScriptsOfNumbers(t *testing.T) {
	const meta = " | meta declared=%d layout=2 numbered=1 since=7 until=80s"
	of := func(limit int) string { return fmt.Sprintf(meta, limit) }
	restoring := func(limit int64, holders int, claims ...string) func(*lab, []*ticket) Call {
		return func(l *lab, ids []*ticket) Call {
			had := Claims{Holders: holders, Epoch: seededEpoch, Units: weightsOf(ids), Lists: claims}
			for i := range ids {
				had.Numbers = append(had.Numbers, int64(10+i))
			}
			return Restore(l.space.About("name"), known(limit), time.Minute, ids, had)
		}
	}
	checkAll(t, []contract{{
		name:  "the first has number 0",
		seed:  "meta declared=3 layout=2 since=7 until=80s",
		ids:   []string{"me:1#", "me:2#"},
		call:  acquiring(known(3), numbering),
		reply: "held #1 with 0, held #2 with 1",
		state: "owner me:1#=#1 me:2#=#2 | timeout me:1#=60s me:2#=60s | counter #2" + of(3) + " granted=2 | numbers 1:me:1#=0 1:me:2#=1",
	}, {
		name:  "the lowest free numbers, one for each unit",
		seed:  "owner you:1#=5 you:2#=6 | timeout you:1#=20s you:2#=20s | counter 6" + of(9) + " | numbers 1:you:1#=1 1:you:2#=4",
		ids:   []string{"me:1#*3", "me:2#"},
		call:  acquiring(known(9), numbering),
		reply: "held #1 with 0,2,3, held #2 with 5",
		state: "owner you:1#=5 you:2#=6 me:1#=#1 me:2#=#2 | timeout you:1#=20s you:2#=20s me:1#=60s me:2#=60s | counter #2 | weight extra=2 me:1#=3" +
			of(9) + " granted=2 | numbers 1:me:1#=0 1:you:1#=1 2:me:1#=2 3:me:1#=3 1:you:2#=4 1:me:2#=5",
	}, {
		name:  "the number that the same call releases, whoever else has none",
		seed:  "owner me:1#=5 you:2=6 you:3#=7 | timeout me:1#=20s you:2=20s you:3#=20s | counter 7" + of(3) + " | numbers 1:me:1#=0 1:you:3#=1",
		ids:   []string{"-me:1#", "me:2#"},
		call:  acquiring(known(3), numbering),
		reply: "held, held #1 with 0",
		state: "owner you:2=6 you:3#=7 me:2#=#1 | timeout you:2=20s you:3#=20s me:2#=60s | counter #1" + of(3) + " granted=1 | numbers 1:me:2#=0 1:you:3#=1",
	}, {
		name:  "an acquire sent again gets the same ones",
		seed:  "owner me:1#=5 | timeout me:1#=20s | counter 5 | weight extra=1 me:1#=2" + of(9) + " | numbers 1:me:1#=3 2:me:1#=7",
		ids:   []string{"me:1#*2"},
		call:  acquiring(known(9), numbering),
		reply: "held 5 with 3,7",
		state: "owner me:1#=5 | timeout me:1#=60s | counter 5 | weight extra=1 me:1#=2" + of(9) + " | numbers 1:me:1#=3 2:me:1#=7",
	}, {
		name:  "an acquire sent again that is granted its request by the same call gets them once",
		seed:  "owner you:1#=5 | queue me:1#=6 | timeout you:1#=-10s me:1#=20s | counter 6 | weight extra=1 you:1#=2 me:1#=2" + of(2) + " | numbers 1:you:1#=0 2:you:1#=1",
		ids:   []string{"me:1#*2"},
		call:  acquiring(known(2), numbering),
		reply: "held #1 with 0,1, me:1 gets #1 for 6 with 0,1",
		state: "owner me:1#=#1 | timeout me:1#=60s | counter #1 | weight extra=1 me:1#=2" + of(2) + " granted=1 lapsed=1 | numbers 1:me:1#=0 2:me:1#=1",
	}, {
		name:  "a refresh says them",
		seed:  "owner me:1#=5 me:2=6 | timeout me:1#=20s me:2=20s | counter 6" + of(9) + " | numbers 1:me:1#=3",
		ids:   []string{"me:1#", "me:2"},
		call:  refreshing(9),
		reply: "held 5 with 3, held 6",
		state: "owner me:1#=5 me:2=6 | timeout me:1#=60s me:2=60s | counter 6" + of(9) + " | numbers 1:me:1#=3",
	}, {
		name:  "a waiter gets them with the grant, of the caller or by message",
		seed:  "owner you:1#=5 | queue me:1#=6 you:2#:t=7 you:3=8 | timeout you:1#=20s me:1#=20s you:2#:t=20s you:3=20s | counter 8 | weight extra=2 you:1#=3 me:1#=1 you:2#:t=2" + of(4) + " | numbers 1:you:1#=0 2:you:1#=1 3:you:1#=2",
		ids:   []string{"you:1#"},
		call:  releasing(4, 0),
		reply: "held, me:1 gets #1 for 6 with 0",
		wake:  "you 2:7:#2:1.2,3:8:#3",
		state: "owner me:1#=#1 you:2#:t=#2 you:3=#3 | timeout me:1#=20s you:2#:t=20s you:3=20s | counter #3 | weight extra=1 me:1#=1 you:2#:t=2" + of(4) + " granted=3 | numbers 1:me:1#=0 1:you:2#:t=1 2:you:2#:t=2",
	}, {
		name:  "what has expired has none",
		seed:  "owner you:1#=5 me:1#=6 | timeout you:1#=-10s me:1#=20s | counter 6 | weight extra=1 you:1#=2" + of(3) + " | numbers 1:you:1#=0 1:me:1#=1 2:you:1#=2",
		ids:   []string{"me:1#"},
		call:  refreshing(3),
		reply: "held 6 with 1",
		state: "owner me:1#=6 | timeout me:1#=60s | counter 6" + of(3) + " lapsed=1 | numbers 1:me:1#=1",
	}, {
		name:  "a part of a permit keeps the lowest ones",
		seed:  "owner me:1#=5 | timeout me:1#=20s | counter 5 | weight extra=3 me:1#=4" + of(4) + " | numbers 1:me:1#=0 2:me:1#=1 3:me:1#=2 4:me:1#=3",
		ids:   []string{"me:1#*2"},
		call:  reducing(4),
		reply: "held 5",
		state: "owner me:1#=5 | timeout me:1#=20s | counter 5 | weight extra=1 me:1#=2" + of(4) + " | numbers 1:me:1#=0 2:me:1#=1",
	}, {
		name:  "none that a permit has whose limit has shrunk, and none from the limit on",
		seed:  "owner you:1#=5 | timeout you:1#=20s | counter 5 | meta declared=9 layout=2 numbered=1 pinned=2 since=7 until=80s | numbers 1:you:1#=8",
		ids:   []string{"me:1#", "me:2#"},
		call:  acquiring(known(9), func(p *AcquireParams) { p.Numbered, p.Wait = true, false }),
		reply: "held #1 with 0, refused",
		state: "owner you:1#=5 me:1#=#1 | timeout you:1#=20s me:1#=60s | counter #1 | meta declared=9 layout=2 numbered=1 pinned=2 since=7 until=80s granted=1 | numbers 1:me:1#=0 1:you:1#=8",
	}, {
		name:  "none from the limit on although some are stored that nobody has",
		seed:  "owner you:1#=5 | timeout you:1#=20s | counter 5" + of(3) + " | numbers 1:you:7#=0 1:you:1#=1 2:you:7#=2",
		ids:   []string{"me:1#", "me:2#"},
		call:  acquiring(known(3), numbering),
		reply: "held #1 with 0, held #2 with 2",
		state: "owner you:1#=5 me:1#=#1 me:2#=#2 | timeout you:1#=20s me:1#=60s me:2#=60s | counter #2" + of(3) +
			" granted=2 | numbers 1:me:1#=0 1:you:1#=1 1:me:2#=2",
	}, {
		name:  "nor one that the same call has given before it found that out",
		seed:  "owner you:1#=5 | timeout you:1#=20s | counter 5" + of(4) + " | numbers 1:you:7#=0 1:you:1#=1 1:you:8#=3",
		ids:   []string{"me:1#", "me:2#", "me:3#"},
		call:  acquiring(known(4), numbering),
		reply: "held #1 with 2, held #2 with 0, held #3 with 3",
		state: "owner you:1#=5 me:1#=#1 me:2#=#2 me:3#=#3 | timeout you:1#=20s me:1#=60s me:2#=60s me:3#=60s | counter #3" + of(4) +
			" granted=3 | numbers 1:me:2#=0 1:you:1#=1 1:me:1#=2 1:me:3#=3",
	}, {
		name:  "a restored permit has those that it had, and a waiter none",
		seed:  "counter 7" + of(9),
		ids:   []string{"me:1#*2", "me:2", "me:3#"},
		call:  restoring(9, 2, "3,5", "", ""),
		reply: "held 10, held 11, waiting 12, more, next 60s",
		state: "owner me:1#=10 me:2=11 | queue me:3#=12 | timeout me:1#=60s me:2=60s me:3#=60s | counter 12 | weight extra=1 me:1#=2" + of(9) + " | numbers 1:me:1#=3 2:me:1#=5",
	}, {
		name:  "a restored permit is gone if another has its number since",
		seed:  "owner you:1#=8 | timeout you:1#=20s | counter 8" + of(9) + " | numbers 1:you:1#=5",
		ids:   []string{"me:1#", "me:2#*2"},
		call:  restoring(9, 2, "4", "3,5"),
		reply: "held 10, gone",
		state: "owner you:1#=8 me:1#=10 | timeout you:1#=20s me:1#=60s | counter 11" + of(9) + " | numbers 1:me:1#=4 1:you:1#=5",
	}, {
		name:  "and takes it from an older one, which it replaced: in an old file, or while that was away",
		seed:  "owner you:1#=3 | timeout you:1#=20s | counter 8 | weight extra=1 you:1#=2" + of(9) + " | numbers 1:you:1#=5 2:you:1#=6",
		ids:   []string{"me:1#"},
		call:  restoring(9, 1, "5"),
		reply: "held 10",
		wake:  "you 1:3:0",
		state: "owner me:1#=10 | timeout me:1#=60s | counter 10" + of(9) + " | numbers 1:me:1#=5",
	}, {
		name:  "a number is not given to two of one call",
		seed:  "counter 8" + of(9),
		ids:   []string{"me:1#", "me:2#"},
		call:  restoring(9, 2, "5", "5"),
		reply: "held 10, gone",
		state: "owner me:1#=10 | timeout me:1#=60s | counter 11" + of(9) + " | numbers 1:me:1#=5",
	}, {
		name:  "an evicted permit gives its number to the next",
		seed:  "owner you:1#=5 | queue me:1#=6 | timeout you:1#=20s me:1#=20s | counter 6" + of(1) + " | numbers 1:you:1#=0",
		ids:   []string{"you:1#"},
		call:  func(l *lab, ids []*ticket) Call { return l.space.Evict("name", LimitSpec{Limit: 1}, ids[0].id) },
		reply: "held",
		wake:  "me 1:6:#1:0, you 1:5:0",
		state: "owner me:1#=#1 | timeout me:1#=20s you:1#=20s | counter #1" + of(1) + " granted=1 | numbers 1:me:1#=0",
	}, {
		name:  "a name whose meta was lost still has them",
		seed:  "owner you:1#=5 | timeout you:1#=20s | counter 5 | numbers 1:you:1#=0",
		ids:   []string{"me:1#"},
		call:  acquiring(declares(3, 7), numbering),
		reply: "held #1 with 1",
		state: "owner you:1#=5 me:1#=#1 | timeout you:1#=20s me:1#=60s | counter #1" + of(3) + " granted=1 | numbers 1:you:1#=0 1:me:1#=1",
	}})
}

// A missing right can stop a script at any write. Then every permit that is stored has its numbers, nobody else has them, and what else is
// stored goes away with the deadlines.
func TestScriptThatIsStoppedHalfWayGivesNoNumberTwice(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	const seed = "owner me:1#=5 you:1#=6 you:2#=7 | queue you:3#=8 me:2#=9 | timeout me:1#=20s you:1#=-10s you:2#=20s you:3#=20s me:2#=20s | counter 9" +
		" | weight extra=3 you:1#=2 me:1#=3 me:2#=2 | meta declared=6 layout=2 numbered=1 since=7 until=80s" +
		" | numbers 1:me:1#=0 1:you:1#=1 2:me:1#=2 3:me:1#=3 2:you:1#=4 1:you:2#=5"
	for name, build := range map[string]func(l *lab) Call{
		"an acquire": func(l *lab) Call {
			return acquiring(known(6), numbering)(l, tickets("-you:2#", "me:3#"))
		},
		"an acquire with room": func(l *lab) Call { return acquiring(declares(20, usedNow), numbering)(l, tickets("me:3#*3", "me:4#")) },
		"a release":            func(l *lab) Call { return releasing(6, time.Minute)(l, tickets("me:1#", "you:3#")) },
		"a reduce":             func(l *lab) Call { return reducing(6)(l, tickets("me:1#*1")) },
		"a restore": func(l *lab) Call {
			return Restore(l.space.About("name"), known(20), time.Minute, tickets("me:7#*2"), Claims{Holders: 1, Epoch: seededEpoch, Numbers: []int64{3}, Units: []int64{2}, Lists: []string{"7,9"}})
		},
		"an eviction": func(l *lab) Call { return l.space.Evict("name", LimitSpec{Limit: 6}, "me:1#") },
	} {
		whole := newLab(t, rdb)
		whole.seed(seed)
		writes := len(slices.DeleteFunc(whole.commands(build(whole)), func(c string) bool { return slices.Contains(reads, strings.Fields(c)[0]) }))
		require.Greater(t, writes, 4, name)
		for stop := range writes + 1 {
			l := newLab(t, rdb)
			l.seed(seed)
			l.runUpTo(stop, build(l))
			stored := l.checkNumbers(t, name, stop)
			s := l.snapshot()
			for unit := range stored {
				assert.Contains(t, members(s.timeout), unit, "%s: a number without a deadline after %d writes", name, stop)
			}
			for _, id := range members(s.timeout) {
				if !slices.Contains(members(s.owner), id) {
					require.NoError(t, rdb.ZAddXX(background, l.keys[2], redis.Z{Score: 1, Member: id}).Err())
				}
			}
			l.ask(refreshing(6)(l, tickets("me:9")), 1)
			s = l.snapshot()
			for id := range l.checkNumbers(t, name, stop) {
				assert.Contains(t, members(s.owner), id, "%s: a number that nobody has after %d writes", name, stop)
			}
		}
	}
}

// checkNumbers checks that each holder has as many numbers as units, and that no number is there twice. It returns the ids that
// have some.
func (l *lab) checkNumbers(t *testing.T, name string, stop int) map[string]int64 {
	t.Helper()
	s, has, twice := l.snapshot(), make(map[string]int64), make(map[float64]bool)
	for _, z := range s.numbers {
		_, id, _ := strings.Cut(z.Member.(string), ":")
		has[id]++
		assert.False(t, twice[z.Score], "%s: number %v twice after %d writes", name, z.Score, stop)
		twice[z.Score] = true
	}
	for _, id := range members(s.owner) {
		units := int64(1)
		if n, err := strconv.ParseInt(s.weight[id], 10, 64); err == nil {
			units = n
		}
		if isNumbered.MatchString(id) && has[id] < units && name != "a reduce" {
			t.Errorf("%s: %s has %d numbers for %d units after %d writes", name, id, has[id], units, stop)
		}
	}
	return has
}

// A page says the numbers of permits.
func TestPageHasTheNumbersOfPermits(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.ask(Acquire(l.space.About("name"), declares(2000, usedNow), AcquireParams{TTL: time.Minute, Numbered: true}, tickets("me:1#*2", "me:2#:t*1000")), 2)
		l.ask(Acquire(l.space.About("name"), declares(2000, usedNow), AcquireParams{TTL: time.Minute}, tickets("me:3")), 1)
		got := l.run(l.space.About("name").Page("owner", Bookmark{}, 10))
		require.NoError(t, got.err)
		page, err := DecodePage(got.list)
		require.NoError(t, err)
		require.Len(t, page.Entries, 3)
		assert.Equal(t, []int64{0, 1}, page.Entries[0].Numbers)
		assert.Len(t, page.Entries[1].Numbers, 1000)
		assert.Equal(t, int64(1001), page.Entries[1].Numbers[999])
		assert.Empty(t, page.Entries[2].Numbers)
	})
}

// numberWalk makes random calls on a name where some permits have numbers. It knows which numbers each has, and expects of each grant the
// lowest that are free.
type numberWalk struct {
	*rand.Rand
	t       *testing.T
	l       *lab
	limit   int64
	since   int64
	ids     []string
	weights map[string]int64
	numbers map[string][]int64 // by holder
	tokens  map[int64]float64  // the latest of each number
	lost    []string           // deleted from the server, and not restored
	simple  bool               // no tenants and few weights, so that the name can be plain
	plain   Plain              // of the last reply
	was     map[string]lostPermit
}

type lostPermit struct {
	token   int64
	numbers []int64
}

// The first attempt of the random calls is answered.
func TestPlainScriptsForNumbersAnswerWhatIsUsual(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	about := l.space.About("name")
	r := l.ask(Acquire(about, known(3), AcquireParams{TTL: time.Minute, Wait: true, Numbered: true}, tickets("me:1#")), 1)
	require.Equal(t, PlainWithNumbers, r.Plain)
	got := l.run(PlainAcquire(PlainNumbersAcquireScript, about, Known{known(0).Since, r.Epoch}, time.Minute, tickets("me:2#", "me:3#"), tickets("me:1#")))
	require.NoError(t, got.err)
	require.Len(t, got.numbers, 3, "a token and two numbers")
	assert.Equal(t, []int64{0, 1}, got.numbers[1:])
	got = l.run(PlainRelease(PlainNumbersReleaseScript, about, tickets("me:2#", "me:3#")))
	require.NoError(t, got.err)
	assert.Equal(t, []int64{1}, got.numbers)
	assert.Zero(t, l.rdb.Exists(background, l.keys[0], l.keys[2], l.keys[9]).Val(), "nothing is left of them")
}

// S13 and S14.
func TestRandomCallsGiveTheLowestFreeNumbersAndNoneTwice(t *testing.T) {
	t.Parallel()
	for n, steps := range []int{400, 400, 400, 400, 80, 80} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			rdb := testclient.Settled(t)
			if n > 3 {
				rdb = testclient.Mini(t)
			}
			w := &numberWalk{
				Rand: seeded(t, uint64(n)), t: t, l: newLab(t, rdb), limit: 1 + int64(5*n), since: 8,
				weights: make(map[string]int64), numbers: make(map[string][]int64), tokens: make(map[int64]float64), was: make(map[string]lostPermit),
			}
			w.simple = n%2 == 0
			w.l.seed("meta layout=2")
			walks(t, steps, steps/4, func(int) { w.step() })
		})
	}
}

func (w *numberWalk) declare() Declaration {
	d := declares(w.limit, w.since)
	if w.IntN(3) == 0 && !w.simple {
		d.Tenants = []TenantSpec{{Name: "a", Share: 2}, {Name: "b", Share: 1, Limit: w.Int64N(2) * 4}}[:1+w.IntN(2)]
	}
	return d
}

func (w *numberWalk) step() {
	about := w.l.space.About("name")
	if w.IntN(12) == 0 { // a limit that shrinks or grows
		w.since++
		w.limit = 1 + w.Int64N(30)
	}
	if w.IntN(6) == 0 {
		for _, id := range w.old(1) {
			require.NoError(w.t, w.l.rdb.ZAddXX(background, w.l.keys[2], redis.Z{Score: 1, Member: id}).Err())
		}
	}
	switch draw := w.IntN(12); {
	case draw < 6:
		w.acquire()
	case draw < 9:
		some := w.old(1 + w.IntN(4))
		if len(some) == 0 {
			return
		}
		w.callPlain(PlainRelease(PlainNumbersReleaseScript, about, w.tickets(some)), some, nil, Release(about, w.declare(), 0, false, w.tickets(some)))
	case draw == 9:
		some := w.old(2)
		var keeps []int64
		for range some {
			keeps = append(keeps, 1+w.Int64N(2))
		}
		before := w.l.snapshot()
		for i, id := range some {
			if _, holds := scores(before.owner)[id]; holds && w.weights[id] > keeps[i] && !w.hasExpired(before, id) {
				w.weights[id] = keeps[i]
				if len(w.numbers[id]) > 0 {
					w.numbers[id] = w.numbers[id][:keeps[i]]
				}
			}
		}
		w.call(Reduce(about, w.declare(), w.tickets(some), keeps), len(some))
	case draw == 10:
		for _, id := range w.old(1) {
			w.call(w.l.space.Evict("name", LimitSpec{Limit: w.limit}, id), 1)
		}
	default:
		w.lose()
		if w.IntN(2) == 0 {
			w.acquire()
		}
		w.restore()
	}
}

func (w *numberWalk) hasExpired(s snapshot, id string) bool { return scores(s.timeout)[id] <= 1 }

func (w *numberWalk) acquire() {
	params := AcquireParams{TTL: walkTTL, Wait: w.IntN(4) > 0, HeadStart: time.Duration(w.IntN(5)/4) * time.Hour, Numbered: w.IntN(3) > 0}
	var asked []string
	for range 1 + w.IntN(4) {
		id := fmt.Sprintf("client%d:%d", w.IntN(3), len(w.ids)+1)
		if w.IntN(2) == 0 {
			id = fmt.Sprintf("me:%d", len(w.ids)+1)
		}
		if params.Numbered {
			id += "#"
		}
		id += []string{"", "", ":a", ":b", ":2:3#"}[w.IntN(5)]
		w.ids, w.weights[id] = append(w.ids, id), 1+max(0, w.Int64N(5)-1)
		if w.simple && w.IntN(20) > 0 {
			w.weights[id] = 1
		}
		asked = append(asked, id)
	}
	released := w.old(w.IntN(3))
	released = slices.DeleteFunc(released, func(id string) bool { return slices.Contains(asked, id) })
	about := w.l.space.About("name")
	full := Acquire(about, w.declare(), params, w.tickets(asked), w.tickets(released)...)
	if !params.Numbered || slices.ContainsFunc(asked, func(id string) bool { return w.weights[id] > 1 }) {
		w.call(full, len(asked)+len(released))
		return
	}
	w.callPlain(PlainAcquire(PlainNumbersAcquireScript, about, w.known(), params.TTL, w.tickets(asked), w.tickets(released)), released, asked, full)
}

// lose deletes a permit, as another program could.
func (w *numberWalk) lose() {
	s := w.l.snapshot()
	for _, id := range w.old(2) {
		token, holds := scores(s.owner)[id]
		if !holds || w.hasExpired(s, id) {
			continue
		}
		w.was[id], w.lost = lostPermit{int64(token), w.numbers[id]}, append(w.lost, id)
		pipe := w.l.rdb.TxPipeline()
		pipe.ZRem(background, w.l.keys[0], id)
		pipe.ZRem(background, w.l.keys[2], id)
		pipe.HDel(background, w.l.keys[4], id)
		for unit := range w.weights[id] {
			pipe.ZRem(background, w.l.keys[9], fmt.Sprintf("%d:%s", unit+1, id))
		}
		if w.weights[id] > 1 {
			pipe.HIncrBy(background, w.l.keys[4], WeightExtra, 1-w.weights[id])
		}
		pipe.HDel(background, w.l.keys[8], "all") // so the units of tenants are counted again
		_, err := pipe.Exec(background)
		require.NoError(w.t, err)
		delete(w.numbers, id)
	}
}

// restore restores the deleted entries, as far as they fit and nobody has its numbers.
func (w *numberWalk) restore() {
	lost := w.lost
	w.lost = nil
	if len(lost) == 0 {
		return
	}
	had := Claims{Holders: len(lost), Epoch: seededEpoch}
	for _, id := range lost {
		was := w.was[id]
		had.Numbers, had.Units, had.Lists = append(had.Numbers, was.token), append(had.Units, w.weights[id]), append(had.Lists, NumberList(was.numbers))
	}
	w.call(Restore(w.l.space.About("name"), w.declare(), walkTTL, w.tickets(lost), had), len(lost))
}

func (w *numberWalk) tickets(ids []string) (all []*ticket) {
	for _, id := range ids {
		all = append(all, &ticket{id, w.weights[id]})
	}
	return all
}

// old draws ids among the latest.
func (w *numberWalk) old(n int) []string {
	latest := slices.Clone(w.ids[max(0, len(w.ids)-20):])
	w.Shuffle(len(latest), func(i, j int) { latest[i], latest[j] = latest[j], latest[i] })
	return latest[:min(len(latest), n)]
}

func (w *numberWalk) known() Known { return Known{w.since, seededEpoch} }

// callPlain makes a call of a plain script if that may do, and else the full one.
func (w *numberWalk) callPlain(plain Call, released, acquired []string, full Call) {
	w.t.Helper()
	n := len(released) + len(acquired)
	if w.plain != PlainWithNumbers {
		w.call(full, n)
		return
	}
	w.check(full, func() Reply {
		got := w.l.run(plain)
		require.NoError(w.t, got.err)
		if plain.Script.Declined(got.numbers) {
			return w.l.ask(full, n)
		}
		r, err := plain.Script.DecodePlain(got.numbers, w.known(), 0, len(released), len(acquired))
		require.NoError(w.t, err)
		return r
	})
}

func (w *numberWalk) call(c Call, n int) {
	w.t.Helper()
	w.check(c, func() Reply { return w.l.ask(c, n) })
}

// check makes a call, and compares the numbers after it with what is expected.
func (w *numberWalk) check(c Call, ask func() Reply) {
	w.t.Helper()
	before := w.l.snapshot()
	messages := w.l.listen()
	r := ask()
	w.plain = r.Plain
	published := messages()
	after := w.l.snapshot()
	after.mustExpire(w.t)
	now := scores(after.owner)
	for id := range w.numbers {
		if _, holds := now[id]; !holds {
			delete(w.numbers, id)
		}
	}
	taken := make(map[int64]string)
	for id, list := range w.numbers {
		for _, number := range list {
			taken[number] = id
		}
	}
	had := scores(before.owner)
	limit, err := strconv.ParseInt(after.meta[MetaDeclared], 10, 64)
	require.NoError(w.t, err)
	for _, z := range after.owner { // by token
		id := z.Member.(string)
		was, restored := w.was[id]
		switch _, held := had[id]; {
		case held || !isNumbered.MatchString(id):
			continue
		case c.Script == RestoreScript && restored && z.Score == float64(was.token):
			for _, number := range was.numbers {
				assert.Empty(w.t, taken[number], "%s is restored with number %d", id, number)
				taken[number] = id
			}
			w.numbers[id] = was.numbers
			continue
		}
		for number := int64(0); int64(len(w.numbers[id])) < w.weights[id]; number++ {
			if taken[number] == "" {
				taken[number], w.numbers[id] = id, append(w.numbers[id], number)
				assert.Less(w.t, number, limit, "%s has a number from the limit on", id)
				assert.Greater(w.t, z.Score, w.tokens[number], "number %d", number)
				w.tokens[number] = z.Score
			}
		}
		w.checkReported(id, int64(z.Score), r, published)
	}
	stored := make(map[string][]int64)
	for _, z := range after.numbers {
		_, id, _ := strings.Cut(z.Member.(string), ":")
		stored[id] = append(stored[id], int64(z.Score))
	}
	assert.Equal(w.t, w.numbers, stored, "%s", c.Script.Verb)
	assert.Equal(w.t, len(after.numbers) > 0, after.expiry[9] > 0, "whether the key expires")
}

// checkReported checks that the client of a permit learns its numbers with the token.
func (w *numberWalk) checkReported(id string, token int64, r Reply, published string) {
	w.t.Helper()
	want := w.numbers[id]
	for _, res := range r.Results {
		if res.State == Held && res.Number == token {
			assert.Equal(w.t, want, res.Numbers)
			return
		}
	}
	for _, g := range r.Grants {
		if g.Token == token {
			assert.Equal(w.t, want, g.Numbers)
			return
		}
	}
	assert.Contains(w.t, published, fmt.Sprintf(":%d:%s", token, strings.ReplaceAll(NumberList(want), ",", ".")))
}

// A number that no permit has, as a script that is stopped half-way leaves it, raised the others.
func TestPlainAcquireGivesNumbersBelowTheLimitBesideOneThatNoPermitHas(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	about, p := l.space.About("name"), AcquireParams{TTL: time.Minute, Wait: true}
	without, with := p, p
	with.Numbered = true
	l.ask(Acquire(about, known(2), with, tickets("me:1#")), 1)
	l.ask(Release(about, known(2), 0, false, tickets("me:1#")), 1)
	l.ask(Acquire(about, known(2), without, tickets("me:2")), 1)
	require.NoError(t, l.rdb.ZAdd(background, l.keys[9], redis.Z{Score: 0, Member: "1:me:77#"}).Err())
	asked, released := tickets("me:3#", "me:4#"), tickets("me:2")
	got := l.run(PlainAcquire(PlainNumbersAcquireScript, about, seededKnown, time.Minute, asked, released))
	require.NoError(t, got.err)
	require.True(t, PlainNumbersAcquireScript.Declined(got.numbers), "%v", got.numbers)
	r := l.ask(Acquire(about, known(2), with, asked, released...), 3)
	assert.ElementsMatch(t, []int64{0, 1}, slices.Concat(r.Results[1].Numbers, r.Results[2].Numbers))
}

// S13: once another program had deleted the numbers, a second holder was given one that the first still had.
func TestNoNumberIsGivenWhileHoldersHaveLostTheirs(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		about, p := l.space.About("name"), AcquireParams{TTL: time.Minute, Numbered: true}
		l.ask(Acquire(about, known(4), p, tickets("me:1#", "you:2#", "you:3")), 3)
		require.NoError(t, l.rdb.Del(background, l.keys[9]).Err())

		got := l.run(PlainAcquire(PlainNumbersAcquireScript, about, seededKnown, time.Minute, tickets("me:4#"), nil))
		require.NoError(t, got.err)
		assert.True(t, PlainNumbersAcquireScript.Declined(got.numbers), "%v", got.numbers)
		states := func(r Reply) (list []State) {
			for _, result := range r.Results {
				list = append(list, result.State)
			}
			return list
		}
		assert.Equal(t, []State{Early}, states(l.ask(Acquire(about, known(4), p, tickets("me:4#")), 1)))
		assert.Equal(t, []State{Gone}, states(l.ask(Refresh(about, known(4), time.Minute, true, tickets("me:1#")), 1)), "its permit is lost")
		assert.Equal(t, []State{Gone, Held}, states(l.ask(Refresh(about, known(4), time.Minute, true, tickets("you:2#", "you:3")), 2)), "one has no number")
		assert.Equal(t, []State{Early}, states(l.ask(Acquire(about, known(4), p, tickets("me:4#")), 1)), "the others may not know it yet")
		for _, id := range []string{"me:1#", "you:2#"} { // their leases end
			require.NoError(t, l.rdb.ZAddXX(background, l.keys[2], redis.Z{Score: 1, Member: id}).Err())
		}
		l.poll(4)
		r := l.ask(Acquire(about, known(4), p, tickets("me:4#")), 1)
		assert.Equal(t, Held, r.Results[0].State)
		assert.Equal(t, []int64{0}, r.Results[0].Numbers)
	})
}

// A replica took over whose clock is behind, so that tokens are ahead of it, and the epoch is not. It lacks that you:1# was released, and
// its number granted to me:2#.
func TestNumbersAreRestoredWhereTokensAreAheadOfTheClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-10 * time.Second, time.Second / 2, 10 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, testclient.Settled(t))
			token := l.now().Add(ahead).UnixMicro()
			l.seed(fmt.Sprintf("owner you:1#=%d | timeout you:1#=60s | counter %d | meta declared=4 layout=2 since=7 until=80s numbered=1 | numbers 1:you:1#=0", token, token))
			d, epoch := l.takenOver(4)
			had := Claims{Holders: 1, Epoch: epoch, Numbers: []int64{token + 1000}, Units: []int64{1}, Lists: []string{"0"}}
			r := l.ask(Restore(l.space.About("name"), d, time.Minute, tickets("me:2#"), had), 1)
			assert.Equal(t, Held, r.Results[0].State)
		})
	}
}
