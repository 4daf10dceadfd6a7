package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/testclient"
)

// storeLayout stores a name as layout 1 had it, with a number of the layout that may be another: two holders, a waiter,
// and an entry that has expired.
func (l *lab) storeLayout(layout int) {
	l.t.Helper()
	const client = "7c9e6679-7425-40de-944b-e07fc1f90ae7:"
	now := l.now()
	number, lease, until := now.UnixMicro(), float64(now.Add(time.Hour).UnixMilli()), now.Add(2*time.Hour)
	pipe := l.rdb.TxPipeline()
	pipe.ZAdd(background, l.keys[0], redis.Z{Score: float64(number), Member: client + "1"}, redis.Z{Score: float64(number + 1), Member: client + "2"})
	pipe.ZAdd(background, l.keys[1], redis.Z{Score: float64(number + 2), Member: client + "3"})
	for _, seq := range []string{"1", "2", "3"} {
		pipe.ZAdd(background, l.keys[2], redis.Z{Score: lease, Member: client + seq})
	}
	pipe.ZAdd(background, l.keys[2], redis.Z{Score: float64(now.Add(-time.Minute).UnixMilli()), Member: client + "4"})
	pipe.Set(background, l.keys[3], number+2, 0)
	pipe.HSet(background, l.keys[4], client+"1", 2, "extra", 1)
	pipe.HSet(background, l.keys[5], "layout", layout, "declared", 3, "since", number, "until", until.UnixMilli(),
		"epoch", number, "quiet", 0, "server", l.identity(), "granted", 2)
	pipe.ZAdd(background, l.keys[6], redis.Z{Member: "a lane"})
	pipe.ZAdd(background, l.keys[7], redis.Z{Member: "a turn"})
	pipe.HSet(background, l.keys[8], "all", "something")
	pipe.ZAdd(background, l.keys[9], redis.Z{Member: "a number"})
	for _, key := range l.keys {
		pipe.PExpireAt(background, key, until)
	}
	_, err := pipe.Exec(background)
	require.NoError(l.t, err)
}

// otherLayouts are some that this version does not know, with what the error says of the version that wrote them.
var otherLayouts = map[int]string{0: "an older", 1: "an older", Layout + 1: "a newer", 1000: "a newer"}

// The meaning of another layout is unknown, so the scripts do not even read its numbers.
func TestEveryScriptRefusesKeysOfAnotherLayoutAndChangesNothing(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for layout, version := range otherLayouts {
		want := fmt.Sprintf("FAIRSEMLAYOUT %s version of fairsem wrote these keys: they have layout %d, this version knows layout %d", version, layout, Layout)
		for _, gone := range [][]string{nil, {Owner, Queue, Timeout, Counter, Weight, Lanes, Turns, Tenants, NumbersKey}} {
			l := newLab(t, rdb)
			l.storeLayout(layout)
			for _, kind := range gone {
				require.NoError(t, rdb.Del(background, l.space.Key("name", kind)).Err())
			}
			before := l.dump()
			for i, kind := range Kinds {
				require.Equal(t, slices.Contains(gone, kind), before[i] == "", kind)
			}
			for _, c := range l.everyCall() {
				assert.EqualError(t, l.run(c).err, want, c.Script.Verb)
				assert.Equal(t, before, l.dump(), c.Script.Verb)
			}
		}
	}
}

// A later layout may store something else in a key.
func TestKeysOfAnotherLayoutMayHaveOtherTypes(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.storeLayout(Layout + 1)
	for _, key := range l.keys[:5] {
		require.NoError(t, l.rdb.Del(background, key).Err())
		require.NoError(t, l.rdb.XAdd(background, &redis.XAddArgs{Stream: key, Values: []string{"a", "b"}}).Err())
	}
	before := l.dump()
	for _, c := range l.everyCall() {
		assert.ErrorContains(t, l.run(c).err, "FAIRSEMLAYOUT a newer", c.Script.Verb)
		assert.Equal(t, before, l.dump(), c.Script.Verb)
	}
}

func TestEveryScriptRefusesAnotherLayoutOnMiniredisToo(t *testing.T) {
	t.Parallel()
	for layout, version := range otherLayouts {
		l := newLab(t, testclient.Mini(t))
		l.seed(strings.Replace(fullState, "layout=2", fmt.Sprint("layout=", layout), 1))
		before := l.snapshot()
		for _, c := range l.everyCall() {
			assert.ErrorContains(t, l.run(c).err, "FAIRSEMLAYOUT "+version, c.Script.Verb)
		}
		after := l.snapshot()
		for i, left := range after.expiry {
			assert.LessOrEqual(t, left, before.expiry[i])
		}
		after.now, after.expiry = before.now, before.expiry // which have come nearer
		assert.Equal(t, before, after)
	}
}

// Meta may be lost, and any program may have written to it.
func TestWithoutAPlausibleLayoutTheKeysAreOfThisOne(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for _, stored := range []string{"", "two", "-1", "1.5", "1e300", "nan"} {
		l := newLab(t, rdb)
		l.storeLayout(Layout)
		require.NoError(t, rdb.HSet(background, l.keys[5], "layout", stored).Err())
		for _, c := range l.everyCall() {
			assert.NoError(t, l.run(c).err, "%s with layout %q", c.Script.Verb, stored)
		}
		require.NoError(t, rdb.HDel(background, l.keys[5], "layout").Err())
		for _, c := range l.everyCall() {
			assert.NoError(t, l.run(c).err, "%s without a layout", c.Script.Verb)
		}
	}
}
