package fair

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// With a TTL of 9 s a pause is 3 s, and an excess that has not moved for 6 s is left out.
func TestWhatAProcessDoesNotReleaseForTwoPausesIsLeftOut(t *testing.T) {
	t.Parallel()
	type check struct {
		after time.Duration // the first
		all   map[string]Process
		want  int64 // the part of a
	}
	kept := map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 0}}
	for why, checks := range map[string][]check{
		"one that keeps what it has": {{0, kept, 2}, {3, kept, 2}, {6, kept, 1}, {9, kept, 1}},
		"one that also waits": {
			{0, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 1}}, 2},
			{3, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 1}}, 2},
			{6, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 1}}, 1},
		},
		"nothing moves when all have their parts of the rest": {
			{0, kept, 2}, {3, kept, 2}, {6, kept, 1},
			{7, map[string]Process{"a": {1, 1}, "b": {1, 1}, "c": {4, 0}}, 1},
			{9, map[string]Process{"a": {1, 1}, "b": {1, 1}, "c": {4, 0}}, 1},
		},
		"one that releases": {
			{0, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {5, 0}}, 2},
			{3, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {5, 0}}, 2},
			{6, kept, 2}, {9, kept, 2}, {12, kept, 1},
		},
		"one that has its part": {
			{0, map[string]Process{"a": {3, 1}, "b": {0, 1}, "c": {3, 0}}, 3},
			{3, map[string]Process{"a": {3, 1}, "b": {0, 1}, "c": {2, 0}}, 3},
			{6, map[string]Process{"a": {3, 1}, "b": {0, 1}, "c": {2, 0}}, 3},
			{9, map[string]Process{"a": {3, 1}, "b": {0, 1}, "c": {2, 0}}, 3},
		},
		"nobody waited meanwhile": {{0, kept, 2}, {3, kept, 2}, {60, kept, 2}, {63, kept, 2}, {66, kept, 1}},
		"checks in a hurry":       {{0, kept, 2}, {1, kept, 2}, {2, kept, 2}, {3, kept, 2}, {4, kept, 2}, {5, kept, 2}, {6, kept, 1}},
		"one has more than its part of the rest, and keeps that, too": {
			{0, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 0}, "d": {2, 0}}, 2},
			{3, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 0}, "d": {2, 0}}, 2},
			{6, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 0}, "d": {2, 0}}, 2},
			{9, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 0}, "d": {2, 0}}, 2},
			{12, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {4, 0}, "d": {2, 0}}, 1},
		},
		"more than there is": {
			{0, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {9, 0}}, 2},
			{3, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {9, 0}}, 2},
			{6, map[string]Process{"a": {2, 1}, "b": {0, 1}, "c": {9, 0}}, 0},
		},
	} {
		var r record
		for _, one := range checks {
			limit := int64(6)
			if len(one.all) == 4 {
				limit = 8
			}
			now := Census{At: time.Unix(0, 0).Add(one.after * time.Second), Limit: limit, TTL: 9 * time.Second, All: one.all}
			assert.Equal(t, one.want, r.partOf("a", now), "%s, after %d s", why, one.after)
		}
	}
}

// simulated is a process that keeps some units even while others wait, and has calls that want some more.
type simulated struct {
	Process
	keeps, wants int64
	seen         record
}

// round has each process check and close, and then grants free units to the waiters, in turns. It reports whether a unit moved.
func round(limit int64, at time.Time, all map[string]*simulated) (moved bool) {
	census := func() Census {
		now := Census{At: at, Limit: limit, TTL: 9 * time.Second, All: make(map[string]Process)}
		for id, p := range all {
			if p.Waiting = 0; p.wants > p.Held {
				p.Waiting = 1
			}
			now.All[id] = p.Process
		}
		return now
	}
	now, most, free := census(), make(map[string]int64), limit
	ids := slices.Sorted(maps.Keys(all))
	for _, id := range ids {
		p := all[id]
		most[id] = limit
		now.Client, now.Calls = id, p.Waiting
		if now.OthersWait() {
			most[id] = max(p.keeps, p.seen.partOf(id, now), 1)
		}
		if p.Held > most[id] {
			p.Held, moved = most[id], true
		}
		free -= p.Held
	}
	for granted := true; granted; {
		granted = false
		for _, id := range ids {
			if p := all[id]; free > 0 && p.Held < min(p.wants, most[id]) {
				p.Held, free, granted, moved = p.Held+1, free-1, true, true
			}
		}
	}
	return moved
}

func TestNobodyStarvesBesideProcessesThatKeepWhatTheyHaveAndThenNothingMoves(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := 4 + random.Int64N(20)
		all, rest := make(map[string]*simulated), limit
		for i := range 2 + random.Int64N(5) {
			keeps := random.Int64N(max(1, rest-5))
			wants := random.Int64N(limit + 1)
			rest -= max(1, keeps)
			all[fmt.Sprint(i)] = &simulated{Process: Process{Held: keeps}, keeps: keeps, wants: max(1, keeps, wants)}
		}
		if int64(len(all)) > limit {
			continue
		}
		moved := true
		for i := range 60 {
			moved = round(limit, time.Unix(0, 0).Add(time.Duration(i)*3*time.Second), all)
		}
		if !assert.False(t, moved, "seed %d: units still move", seed) {
			return
		}
		for one, p := range all {
			for other, q := range all {
				if q.Waiting == 1 && p.Held > p.keeps && p.Held > 1 {
					assert.LessOrEqual(t, p.Held, q.Held+1, "seed %d: limit %d, %s has %+v, %s waits: %+v", seed, limit, one, p, other, q)
				}
			}
		}
	}
}
