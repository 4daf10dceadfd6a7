package fairsempgx

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
		all   map[string]process
		want  map[string]int64
	}{
		{"alone", 20, map[string]process{"a": {20, 9}}, map[string]int64{"a": 20}},
		{"nobody wants more than there is", 20, map[string]process{"a": {4, 0}, "b": {2, 1}}, map[string]int64{"a": 20, "b": 20}},
		{"two with all, six without", 20, map[string]process{
			"a": {10, 0}, "b": {10, 0}, "c": {0, 9}, "d": {0, 9}, "e": {0, 9}, "f": {0, 9}, "g": {0, 9}, "h": {0, 9},
		}, map[string]int64{"a": 3, "b": 3, "c": 3, "h": 3}},
		{"a small demand costs what it is", 20, map[string]process{"a": {10, 5}, "b": {10, 5}, "c": {0, 1}}, map[string]int64{"a": 10, "b": 9, "c": 9}},
		{"all have their parts", 5, map[string]process{"a": {3, 1}, "b": {2, 1}}, map[string]int64{"a": 3, "b": 2}},
		{"what is left over stays where it is", 4, map[string]process{"a": {1, 1}, "b": {1, 1}, "c": {2, 1}}, map[string]int64{"a": 1, "b": 1, "c": 2}},
		{"more processes than units take turns", 2, map[string]process{"a": {1, 0}, "b": {1, 0}, "c": {0, 1}}, map[string]int64{"a": 0, "b": 0, "c": 0}},
		{"a paused name", 0, map[string]process{"a": {1, 0}, "b": {0, 1}}, map[string]int64{"a": 0, "b": 0}},
	} {
		for me, want := range one.want {
			assert.Equal(t, want, part(one.limit, one.all, me), fmt.Sprint(one.why, ", ", me))
		}
	}
}

// Where each process closes what is beyond its part, nothing more is to be moved, and the limit is used up.
func TestPartsOfAllProcessesFillTheLimitAndNothingMovesThen(t *testing.T) {
	t.Parallel()
	for limit := int64(1); limit < 40; limit++ {
		for n := int64(1); n <= min(limit, 12); n++ {
			all := make(map[string]process)
			for i := range n {
				held := limit / n
				if i < limit%n {
					held++
				}
				all[fmt.Sprint(i)] = process{held, 5}
			}
			for id, p := range all {
				assert.GreaterOrEqual(t, part(limit, all, id), p.held, "limit %d, %d processes", limit, n)
			}
		}
	}
}
