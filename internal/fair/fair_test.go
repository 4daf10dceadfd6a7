package fair

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPartIsThatOfMaxMinFairness(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		why   string
		limit int64
		all   map[string]Process
		want  map[string]int64
	}{
		{"alone", 20, map[string]Process{"a": {20, 9}}, map[string]int64{"a": 20}},
		{"nobody wants more than there is", 20, map[string]Process{"a": {4, 0}, "b": {2, 1}}, map[string]int64{"a": 20, "b": 20}},
		{"two with all, six without", 20, map[string]Process{
			"a": {10, 0}, "b": {10, 0}, "c": {0, 9}, "d": {0, 9}, "e": {0, 9}, "f": {0, 9}, "g": {0, 9}, "h": {0, 9},
		}, map[string]int64{"a": 3, "b": 3, "c": 3, "h": 3}},
		{"a small demand costs what it is", 20, map[string]Process{"a": {10, 5}, "b": {10, 5}, "c": {0, 1}}, map[string]int64{"a": 10, "b": 9, "c": 9}},
		{"all have their parts", 5, map[string]Process{"a": {3, 1}, "b": {2, 1}}, map[string]int64{"a": 3, "b": 2}},
		{"what is left over stays where it is", 4, map[string]Process{"a": {1, 1}, "b": {1, 1}, "c": {2, 1}}, map[string]int64{"a": 1, "b": 1, "c": 2}},
		{"more processes than units take turns", 2, map[string]Process{"a": {1, 0}, "b": {1, 0}, "c": {0, 1}}, map[string]int64{"a": 0, "b": 0, "c": 0}},
		{"a paused name", 0, map[string]Process{"a": {1, 0}, "b": {0, 1}}, map[string]int64{"a": 0, "b": 0}},
	} {
		for me, want := range one.want {
			assert.Equal(t, want, parts(one.limit, one.all)[me], fmt.Sprint(one.why, ", ", me))
		}
	}
}

// Where each process closes the connections beyond its part, nothing more is to be moved, and the limit is used up.
func TestPartsOfAllProcessesFillTheLimitAndNothingMovesThen(t *testing.T) {
	t.Parallel()
	for limit := int64(1); limit < 40; limit++ {
		for n := int64(1); n <= min(limit, 12); n++ {
			all := make(map[string]Process)
			for i := range n {
				held := limit / n
				if i < limit%n {
					held++
				}
				all[fmt.Sprint(i)] = Process{held, 5}
			}
			part := parts(limit, all)
			for id, p := range all {
				assert.GreaterOrEqual(t, part[id], p.Held, "limit %d, %d processes", limit, n)
			}
		}
	}
}

func TestPoolsOfOneProcessShareItsPart(t *testing.T) {
	t.Parallel()
	now := func() Census {
		return Census{Name: t.Name(), Client: "a", Limit: 8, All: map[string]Process{"a": {6, 0}, "b": {2, 3}}}
	}
	var first, second Pool
	assert.Equal(t, int64(4), first.PartOf(now(), 6), "one pool")
	assert.Equal(t, int64(2), first.PartOf(now(), 3), "and other permits")
	assert.Equal(t, int64(2), second.PartOf(now(), 3), "two pools")
	assert.Equal(t, int64(2), first.PartOf(now(), 3), "two pools")
	assert.Equal(t, int64(2), second.PartOf(now(), 3), "two pools")
	first.Leave()
	second.Leave()
	pools.Lock() // the pools of other tests are there, too
	assert.NotContains(t, pools.at, place{"a", t.Name(), ""})
	pools.Unlock()
}

func TestPoolThatHasNothingGetsItsPartOfWhatAnotherOfItsProcessHas(t *testing.T) {
	t.Parallel()
	var idle, hungry Pool
	defer idle.Leave()
	defer hungry.Leave()
	take := func(held, waiting int64) Census {
		return Census{Name: t.Name(), Client: "a", Limit: 8, All: map[string]Process{"a": {held, waiting}}}
	}
	now := take(8, 1)
	assert.True(t, now.OthersWait())
	assert.Equal(t, int64(7), idle.PartOf(now, 8), "a call waits that is not its own")

	hungry.Begin()
	now.Calls = 1
	assert.False(t, now.OthersWait(), "its own call")
	now = take(8, 1)
	idle.PartOf(now, 7)
	now.Calls = 1
	assert.Equal(t, int64(5), hungry.PartOf(now, 1), "one that has 1 and wants more may want 3")
	now.Calls = 0
	assert.Equal(t, int64(5), idle.PartOf(now, 7))
	hungry.End()
	assert.Zero(t, hungry.Waiting())
}

func TestCallOfAnotherProcessIsOneOfOthers(t *testing.T) {
	t.Parallel()
	now := Census{Client: "a", Calls: 1, All: map[string]Process{"a": {6, 1}, "b": {2, 0}}}
	assert.False(t, now.OthersWait())
	now.All["b"] = Process{2, 3}
	assert.True(t, now.OthersWait())
}

// Each would keep a unit of which the process has too many, if its share were rounded up. With fewer units than pools, connections go
// round.
func TestSharesOfPoolsAddUpToThePartOfTheirProcess(t *testing.T) {
	t.Parallel()
	for n := int64(1); n < 12; n++ {
		for limit := range 3 * n {
			now := Census{Name: fmt.Sprint(t.Name(), n, limit), Client: "a", Limit: limit, All: map[string]Process{"b": {0, 1}}}
			all, mine, sum := make([]Pool, n), int64(0), int64(0)
			for i := range all {
				all[i].PartOf(now, int64(1+i%3))
				mine += int64(1 + i%3)
			}
			for i := range all {
				sum += min(all[i].PartOf(now, int64(1+i%3)), int64(1+i%3))
			}
			if part := parts(limit, now.All)["a"]; part < n {
				assert.Zero(t, sum, "%d pools, limit %d", n, limit)
			} else {
				assert.Equal(t, min(part, mine), sum, "%d pools, limit %d", n, limit)
			}
			for i := range all {
				all[i].Leave()
			}
		}
	}
}
