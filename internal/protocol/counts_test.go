package protocol

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The counts in meta: grants, and holders whose lease expired.

// counts returns the two numbers as Status reports them.
func (l *lab) counts() [2]int64 {
	l.t.Helper()
	s := l.status(3)
	return [2]int64{s.Granted, s.Expired}
}

func TestGrantsAreCountedOnceHoweverTheyAreMadeAndSent(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta declared=3 layout=2 since=7 until=80s")
		acquires, releases := acquiring(known(3), nil), releasing(3, 0)
		for _, step := range []struct {
			what string
			call func(*lab, []*ticket) Call
			ids  []string
			want int64
		}{
			{"a grant by the fast path", acquires, []string{"me:1"}, 1},
			{"sent again", acquires, []string{"me:1"}, 1},
			{"a batch that repeats one id", acquires, []string{"me:1", "me:2", "me:3"}, 3},
			{"waiters", acquires, []string{"me:4*2", "me:5"}, 3},
			{"sent again", acquires, []string{"me:4*2", "me:5"}, 3},
			{"a refusal", acquiring(known(3), noWait), []string{"me:6"}, 3},
			{"a release of one of two units that a waiter needs", releases, []string{"me:1"}, 3},
			{"a release that grants a waiter", releases, []string{"me:2"}, 4},
			{"an acquire sent again after its grant", acquires, []string{"me:4*2"}, 4},
			{"a reduce that grants a waiter", reducing(3), []string{"me:4"}, 5},
			{"a batch with weights", acquires, []string{"-me:3", "-me:4", "-me:5", "me:7*2", "me:8"}, 7},
			{"sent again", acquires, []string{"-me:3", "-me:4", "-me:5", "me:7*2", "me:8"}, 7},
			{"an exchange", acquires, []string{"-me:7", "me:9"}, 8},
			{"a renewal", refreshing(3), []string{"me:8", "me:9"}, 8},
			{"a restore", restoring(3, 1, 10), []string{"me:10", "me:11"}, 8},
			{"the grant of a restored waiter", releases, []string{"me:8"}, 9},
		} {
			l.ask(step.call(l, tickets(step.ids...)), len(step.ids))
			assert.Equal(t, [2]int64{step.want, 0}, l.counts(), "%s: %v", step.what, step.ids)
		}
	})
}

func TestStatusCountsExpiredHoldersAndGrantsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("owner you:1=5 | queue you:2=6 | timeout you:1=-9s you:2=20s | meta declared=1 layout=2 since=7 until=80s granted=4 lapsed=2")
		before := l.snapshot().String()
		for range 2 {
			assert.Equal(t, [2]int64{4, 3}, l.counts())
		}
		assert.Equal(t, before, l.snapshot().String())
	})
}

func TestOnlyHoldersWhoseLeaseExpiredAreCounted(t *testing.T) {
	const plain = " | meta declared=3 layout=2 since=7 until=80s granted=9"
	const rate = " | meta declared=3/60000 layout=2 since=7 until=80s granted=9"
	expired := func(l *lab, ids []*ticket) Call {
		return Release(l.space.About("name"), threeAMinute, 0, true, ids)
	}
	cases := map[string]struct {
		seed string
		call func(*lab, []*ticket) Call // nil: only the status call
		ids  []string
		want int64
	}{
		"holders":                      {seed: "owner me:1=5 you:1=6 you:2=7 | timeout me:1=-9s you:1=-9s you:2=20s" + plain, want: 2},
		"holders of weights":           {seed: "owner me:1=5 you:1=6 | timeout me:1=-9s you:1=-9s | weight me:1=2 extra=1" + plain, want: 2},
		"a holder that is renewed":     {seed: "owner me:1=5 | timeout me:1=-9s" + plain, call: refreshing(3), ids: []string{"me:1"}, want: 1},
		"a holder that acquires again": {seed: "owner me:1=5 | timeout me:1=-9s" + strings.Replace(plain, "80s", "30s", 1), call: acquiring(known(3), nil), ids: []string{"me:1"}, want: 1},
		"a holder before a waiter":     {seed: "owner me:1=5 | queue you:1=6 | timeout me:1=-9s you:1=20s" + strings.Replace(plain, "=3", "=1", 1), call: refreshing(1), ids: []string{"me:1"}, want: 1},
		"a release flagged as expired by its process": {
			seed: "owner me:1=5 you:1=6 | timeout me:1=20s you:1=20s" + plain,
			call: releasingOverdue(3, 0), ids: []string{"me:1", "me:2"}, want: 1,
		},
		"a grant of a rate released with that flag":             {seed: "owner me:1=5 | timeout me:1=20s" + rate, call: expired, ids: []string{"me:1"}},
		"such a release of a holder that has expired here, too": {seed: "owner me:1=5 | timeout me:1=-9s" + plain, call: releasingOverdue(3, 0), ids: []string{"me:1"}, want: 1},
		"waiters":                               {seed: "owner you:1=4 | queue me:1=5 me:2=6 | timeout me:1=-9s me:2=-9s you:1=20s | weight me:2=2" + plain},
		"waiters beside a holder with a weight": {seed: "owner you:1=4 | queue me:1=5 | timeout me:1=-9s you:1=20s | weight you:1=2 extra=1" + plain},
		"tombstones":                            {seed: "timeout me:1=-9s" + plain},
		"a holder that is evicted":              {seed: "owner me:1=5 | timeout me:1=20s" + plain, call: evicting("me:1"), ids: []string{"me:1"}},
		"a holder that is released":             {seed: "owner me:1=5 | timeout me:1=20s" + plain, call: releasing(3, 0), ids: []string{"me:1"}},
		"grants of a rate":                      {seed: "owner me:1=5 you:1=6 | timeout me:1=-9s you:1=-9s" + rate},
		"a holder that a call removes in a grace period": {
			seed: "owner me:1=5 | timeout me:1=-9s" + plain + " quiet=60s",
			call: refreshing(3), ids: []string{"me:2"},
		},
		"a holder that is restored": {seed: "owner me:1=5 | timeout me:1=-9s" + plain, call: restoring(3, 1, 5), ids: []string{"me:1"}},
	}
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, rdb)
				l.seed(c.seed)
				if c.call != nil {
					l.ask(c.call(l, tickets(c.ids...)), len(c.ids))
				}
				for range 2 { // the first call may be the one that detects them
					assert.Equal(t, c.want, l.counts()[1])
				}
				l.snapshot().mustExpire(t)
			})
		}
	})
}

// During a grace period holders that expired while the server was down may still be restored when their clients reconnect.
func TestNoHolderExpiresDuringTheGracePeriod(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("owner me:1=5 | timeout me:1=-9s | meta declared=3 layout=2 since=7 until=80s")
		require.NoError(t, l.rdb.HSet(background, l.keys[5], "quiet", l.now().Add(time.Minute).UnixMilli()).Err())
		s := l.status(3)
		assert.Equal(t, [2]int64{0, 0}, [2]int64{s.Holders, s.Expired})
	})
}

func TestNameExistsFromItsFirstUseUntilItsKeysExpire(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		assert.False(t, l.status(3).Exists, "the name was never used")
		l.ask(acquiring(declares(3, usedNow), nil)(l, tickets("me:1")), 1)
		assert.True(t, l.status(3).Exists, "the name is in use")
		require.NoError(t, rdb.Del(background, l.keys[5]).Err())
		assert.True(t, l.status(3).Exists, "a permit is held, although meta was lost")
		assert.True(t, l.status(3).Exists, "the previous call has written meta again")
		l.ask(releasing(3, 0)(l, tickets("me:1")), 1)
		assert.True(t, l.status(3).Exists, "the name was in use a moment ago")
		require.NoError(t, rdb.Del(background, l.keys[:]...).Err()) // as when they expire
		assert.Equal(t, Status{Limit: 3, Declared: 3}, l.status(3))
		l.run(l.space.Resize("name", LimitSpec{Limit: 3}, PinAt(2), l.now().UnixMicro()))
		assert.Equal(t, Status{Limit: 2, Declared: 3, Pinned: true, Exists: true}, l.status(3))
	})
}

// Counts must not keep a name in Redis forever. A pinned name stays. A name that lost its meta, which holds the counts, gets a new
// one that expires.
func TestCountsDoNotKeepANameForever(t *testing.T) {
	expired := strings.Replace(fullState, "you:1=20s", "you:1=-10s", 1)
	roomy := strings.Replace(fullState, "declared=3", "declared=9", 1) // the next call grants to the waiters
	cutMeta := func(seed string) string { return strings.Split(seed, " | meta")[0] }
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for name, seed := range map[string]string{
			"full": fullState, "full, without meta": cutMeta(fullState), "full, pinned": fullState + " pinned=3",
			"expired": expired, "expired, without meta": cutMeta(expired), "expired, pinned": expired + " pinned=3",
			"room": roomy, "room, pinned": roomy + " pinned=9",
		} {
			for i, s := range Scripts {
				t.Run(s.Verb+" "+name, func(t *testing.T) {
					l := newLab(t, rdb)
					l.seed(seed)
					require.NoError(t, l.run(l.everyCall()[i]).err)
					l.snapshot().mustExpire(t)
					l.status(9)
					l.snapshot().mustExpire(t)
				})
			}
		}
	})
}
