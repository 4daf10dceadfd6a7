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

func resizing(pin Pin) func(*lab, []*ticket) Call { return resizingLate(pin, 0) }

// resizingLate is a resize that was in flight for the given time.
func resizingLate(pin Pin, late time.Duration) func(*lab, []*ticket) Call {
	return func(l *lab, _ []*ticket) Call {
		return l.space.Resize("name", LimitSpec{Limit: 3}, pin, l.now().Add(-late).UnixMicro())
	}
}

func evicting(id string) func(*lab, []*ticket) Call {
	return func(l *lab, _ []*ticket) Call {
		return l.space.Evict("name", LimitSpec{Limit: 3}, id)
	}
}

// The outcome of a resize is where other calls return the state of an id.
func TestResizeScript(t *testing.T) {
	const line = "owner me:1=5 | queue you:1=6 me:2=7 you:2=8 | timeout me:1=20s me:2=20s you:1=20s you:2=20s | counter 8"
	const meta = " | meta declared=1 layout=2 since=7 until=80s"
	change := []string{"itself"}
	checkAll(t, []contract{{
		name:  "sets a limit on an unused name",
		ids:   change,
		call:  resizing(PinAt(4)),
		reply: "held",
		state: "meta layout=2 pinned=4 pinned_at=#1",
	}, {
		name:  "grants waiters that fit now, and notifies them",
		seed:  line + meta,
		ids:   change,
		call:  resizing(PinAt(3)),
		reply: "held",
		wake:  "me 2:7:#3, you 1:6:#2",
		state: "owner me:1=5 you:1=#2 me:2=#3 | queue you:2=8 | timeout me:1=20s me:2=20s you:1=20s you:2=20s | counter #3 | meta declared=1 layout=2 pinned=3 pinned_at=#1 since=7 until=80s granted=2",
	}, {
		name:  "grants nothing under a limit of 0",
		seed:  "queue you:1=6 | timeout you:1=20s | counter 8" + meta,
		ids:   change,
		call:  resizing(PinAt(0)),
		reply: "held",
		state: "queue you:1=6 | timeout you:1=20s | counter 8 | meta declared=1 layout=2 pinned=0 pinned_at=#1 since=7 until=80s",
	}, {
		name:  "removes waiters that can never fit, even while no unit is free",
		seed:  "owner me:1=5 me:2=6 | queue you:1=7 you:2=8 | timeout me:1=20s me:2=20s you:1=20s you:2=20s | counter 8 | weight you:1=3" + meta,
		ids:   change,
		call:  resizing(PinAt(2)),
		reply: "held",
		wake:  "you 1:7:0",
		state: "owner me:1=5 me:2=6 | queue you:2=8 | timeout me:1=20s me:2=20s you:2=20s | counter 8 | meta declared=1 layout=2 pinned=2 pinned_at=#1 since=7 until=80s",
	}, {
		name:  "resets the limit, and grants waiters that fit the declared one",
		seed:  "queue you:1=6 you:2=7 | timeout you:1=20s you:2=20s | counter 8 | meta declared=1 layout=2 pinned=0 pinned_at=5 since=7 until=80s",
		ids:   change,
		call:  resizing(Unpin),
		reply: "held",
		wake:  "you 1:6:#2",
		state: "owner you:1=#2 | queue you:2=7 | timeout you:1=20s you:2=20s | counter #2 | meta declared=1 layout=2 pinned_at=#1 since=7 until=80s granted=1",
	}, {
		name:  "lets an unused name expire again",
		seed:  "meta layout=2 pinned=0",
		ids:   change,
		call:  resizing(Unpin),
		reply: "held",
		state: "meta layout=2 pinned_at=#1 until=20s",
	}, {
		name:  "resets nothing where no limit is set, and stores the time of the request for a while",
		ids:   change,
		call:  resizing(Unpin),
		reply: "held",
		state: "meta layout=2 pinned_at=#1 until=20s",
	}})
}

func TestLateResizeDoesNotReplaceALaterOne(t *testing.T) {
	const later, same = "meta layout=2 pinned=4 pinned_at=4000000000000000", "meta layout=2 pinned=4 pinned_at=#1"
	const meta = " | meta declared=1 layout=2 pinned=1 pinned_at=5 since=7 until=80s"
	change := []string{"itself"}
	checkAll(t, []contract{{
		name:  "a limit set by a later request stays",
		seed:  later,
		ids:   change,
		call:  resizing(PinAt(0)),
		reply: "held",
		state: same,
	}, {
		name: "and so does one set by a request of the same time, of which this may be a copy",
		seed: later,
		ids:  change,
		call: func(l *lab, _ []*ticket) Call {
			return l.space.Resize("name", LimitSpec{Limit: 3}, PinAt(0), 4_000_000_000_000_000)
		},
		reply: "held",
		state: same,
	}, {
		name:  "a late reset does not reset it",
		seed:  later,
		ids:   change,
		call:  resizing(Unpin),
		reply: "held",
		state: same,
	}, {
		name:  "a limit that was reset since stays reset",
		seed:  "meta layout=2 pinned_at=4000000000000000 until=20s",
		ids:   change,
		call:  resizing(PinAt(3)),
		reply: "held",
		state: "meta layout=2 pinned_at=#1 until=20s",
	}, {
		name:  "a limit set by a later request stays, even if the late one is a minute old",
		seed:  later,
		ids:   change,
		call:  resizingLate(PinAt(0), time.Minute),
		reply: "held",
		state: same,
	}, {
		name:  "a request that was in flight for some seconds takes effect",
		ids:   change,
		call:  resizingLate(PinAt(3), 8*time.Second),
		reply: "held",
		state: "meta layout=2 pinned=3 pinned_at=#1",
	}, {
		name:  "a request is refused if it may have been replaced and the record of that is gone",
		ids:   change,
		call:  resizingLate(PinAt(3), 10*time.Second),
		reply: "gone",
	}, {
		name:  "a late reset is refused likewise",
		seed:  "queue you:1=6 | timeout you:1=20s | counter 8" + strings.Replace(meta, "pinned=1", "pinned=0", 1),
		ids:   change,
		call:  resizingLate(Unpin, 10*time.Second),
		reply: "gone",
	}})
}

// The time returned for a change of the limit is later than all earlier ones, even if the clock is not.
func TestStatusReturnsATimeForTheNextChangeOfTheLimit(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		asked := func(l *lab) int64 {
			r := l.run(l.space.Status("name", LimitSpec{Limit: 3}, 0, 0))
			require.NoError(t, r.err)
			found, err := DecodeStock(r.numbers)
			require.NoError(t, err)
			return found.Asks
		}
		l := newLab(t, rdb)
		began := l.now().UnixMicro()
		assert.LessOrEqual(t, began, asked(l))
		assert.LessOrEqual(t, asked(l), l.now().UnixMicro())
		ahead := began + time.Hour.Microseconds()
		l.seed(fmt.Sprint("meta layout=2 pinned=4 pinned_at=", ahead))
		assert.Equal(t, ahead+1, asked(l))
	})
}

func TestEvictScript(t *testing.T) {
	const seed = "owner me:1=5 you:1=6 | queue you:2=7 you:3=8 | timeout me:1=20s you:1=40s you:2=40s you:3=40s | counter 8 | weight extra=1 me:1=2"
	const meta = " | meta declared=3 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "removes a holder, notifies it, and grants waiters that fit now",
		seed:  seed + meta,
		ids:   []string{"me:1"},
		call:  evicting("me:1"),
		reply: "held",
		wake:  "me 1:5:0, you 2:7:#1,3:8:#2",
		state: "owner you:1=6 you:2=#1 you:3=#2 | timeout me:1=20s you:1=40s you:2=40s you:3=40s | counter #2" + meta + " granted=2",
	}, {
		name:  "removes a waiter, and leaves its deadline as a tombstone",
		seed:  seed + meta,
		ids:   []string{"you:2"},
		call:  evicting("you:2"),
		reply: "waiting",
		wake:  "you 2:7:0",
		state: "owner me:1=5 you:1=6 | queue you:3=8 | timeout me:1=20s you:1=40s you:2=40s you:3=40s | counter 8 | weight extra=1 me:1=2" + meta,
	}, {
		name:  "removes the last holder, and leaves a tombstone that expires",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  evicting("me:1"),
		reply: "held",
		wake:  "me 1:5:0",
		state: "timeout me:1=20s | counter 8" + meta,
	}, {
		name:  "removes no id twice",
		seed:  "timeout me:1=20s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  evicting("me:1"),
		reply: "evicted",
	}, {
		name:  "removes nothing from an unused name",
		ids:   []string{"me:1"},
		call:  evicting("me:1"),
		reply: "gone",
	}})
}

// A rate limit of 3 units in 60 s, from a client that declared it at 7.
var threeAMinute = Declaration{Spec: LimitSpec{3, time.Minute}, Since: 7}

func acquiringRate(wait bool) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		return Acquire(l.space.About("name"), threeAMinute, AcquireParams{TTL: 10 * time.Second, Wait: wait}, ids)
	}
}

// acquiringBounded is an acquire of ids that wait for their turn of a rate for so long at most.
func acquiringBounded(patience ...time.Duration) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		params := AcquireParams{TTL: 10 * time.Second, Wait: true, Bounded: true, MaxQueue: 3}
		return Acquire(l.space.About("name"), threeAMinute, params, bear(ids, patience...))
	}
}

// A call whose turn comes too late must not be in the way of others meanwhile.
func TestCallOfARateQueuesOnlyIfItsTurnComesInTime(t *testing.T) {
	const meta = " | meta declared=3/60000 layout=2 since=7 until=80s"
	const full = "owner you:1=5 you:2=6 you:3=7 | timeout you:1=20s you:2=30s you:3=40s | counter 8"
	checkAll(t, []contract{{
		name:  "one that may wait for as long",
		seed:  full + meta,
		ids:   []string{"me:1"},
		call:  acquiringBounded(21 * time.Second),
		reply: "waiting #1, next 20s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue me:1=#1 | timeout me:1=10s you:1=20s you:2=30s you:3=40s | counter #1" + meta,
	}, {
		name:  "one that may not",
		seed:  full + meta,
		ids:   []string{"me:1"},
		call:  acquiringBounded(19 * time.Second),
		reply: "refused 20s",
	}, {
		name:  "those of one call come after each other",
		seed:  full + meta,
		ids:   []string{"me:1", "me:2", "me:3"},
		call:  acquiringBounded(35*time.Second, 29*time.Second, 35*time.Second),
		reply: "waiting #1, refused 30s, waiting #2, next 20s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue me:1=#1 me:3=#2 | timeout me:1=10s me:3=10s you:1=20s you:2=30s you:3=40s | counter #2" + meta,
	}, {
		name:  "by what they weigh",
		seed:  full + meta,
		ids:   []string{"me:1*2", "me:2", "me:3*2"},
		call:  acquiringBounded(35*time.Second, 45*time.Second, 79*time.Second),
		reply: "waiting #1, waiting #2, refused 90s, next 30s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue me:1=#1 me:2=#2 | timeout me:1=10s me:2=10s you:1=20s you:2=30s you:3=40s | counter #2 | weight me:1=2" + meta,
	}, {
		name:  "and where the stored weights differ",
		seed:  "owner you:1=5 you:2=6 | queue you:4=8 | timeout you:1=20s you:2=30s you:4=70s | counter 8 | weight extra=1 you:1=2" + meta,
		ids:   []string{"me:1", "me:2"},
		call:  acquiringBounded(25*time.Second, 25*time.Second),
		reply: "waiting #1, refused 30s, next 20s",
		state: "owner you:1=5 you:2=6 | queue you:4=8 me:1=#1 | timeout me:1=10s you:1=20s you:2=30s you:4=70s | counter #1 | weight extra=1 you:1=2" + meta,
	}, {
		name:  "each takes from what one grant frees",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 8 | weight extra=2 you:1=3" + meta,
		ids:   []string{"me:1", "me:2", "me:3", "me:4"},
		call:  acquiringBounded(25*time.Second, 25*time.Second, 25*time.Second, 75*time.Second),
		reply: "waiting #1, waiting #2, waiting #3, refused 80s, next 20s",
		state: "owner you:1=5 | queue me:1=#1 me:2=#2 me:3=#3 | timeout me:1=10s me:2=10s me:3=10s you:1=20s | counter #3 | weight extra=2 you:1=3" + meta,
	}, {
		name:  "and from what those before it free again",
		ids:   []string{"me:1*2", "me:2*2", "me:3*2"},
		call:  acquiringBounded(0, 75*time.Second, 110*time.Second),
		reply: "held #1, waiting #2, refused 120s, next 60s, room 1",
		state: "owner me:1=#1 | queue me:2=#2 | timeout me:2=10s me:1=60s | counter #2 | weight extra=1 me:1=2 me:2=2" + meta + " granted=1",
	}, {
		name:  "an earlier waiter of the caller still learns its own turn",
		seed:  "owner you:1=5 you:2=6 | queue me:7=7 you:4=8 | timeout you:1=20s you:2=30s me:7=70s you:4=70s | counter 8 | weight extra=1 you:2=2 you:4=2" + meta,
		ids:   []string{"me:8"},
		call:  acquiringBounded(5 * time.Second),
		reply: "refused 80s, next 20s",
	}, {
		name:  "its turn is more than that the queue is full",
		seed:  "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 you:5=9 you:6=10 | timeout you:1=20s you:2=30s you:3=40s you:4=70s you:5=70s you:6=70s | counter 10" + meta,
		ids:   []string{"me:1", "me:2"},
		call:  acquiringBounded(70*time.Second, 90*time.Second),
		reply: "refused 80s, full",
	}, {
		name:  "in the grace period its turn is not known",
		seed:  full + " | meta declared=3/60000 layout=2 quiet=10s since=7 until=80s",
		ids:   []string{"me:1"},
		call:  acquiringBounded(25 * time.Second),
		reply: "early 10s",
		state: full + meta,
	}, {
		name:  "one that fits",
		seed:  "owner you:1=5 you:2=6 | timeout you:1=20s you:2=30s | counter 8" + meta,
		ids:   []string{"me:1", "me:2"},
		call:  acquiringBounded(0, 0),
		reply: "held #1, refused 20s",
		state: "owner you:1=5 you:2=6 me:1=#1 | timeout you:1=20s you:2=30s me:1=60s | counter #1" + meta + " granted=1",
	}})
}

// Without that they would find out with their next renewal, a third of a TTL later.
func TestWaitersOfARateAreToldThatTheirTurnMayComeEarlier(t *testing.T) {
	const meta = " | meta declared=3/60000 layout=2 since=7 until=80s"
	const holders = "owner you:1=5 you:2=6 you:3=7"
	const deadlines = " | timeout you:1=20s you:2=30s you:3=40s"
	releases := func(l *lab, ids []*ticket) Call { return Release(l.space.About("name"), threeAMinute, 0, false, ids) }
	refreshes := func(l *lab, ids []*ticket) Call { return Refresh(l.space.About("name"), threeAMinute, 0, false, ids) }
	checkAll(t, []contract{{
		name:  "a call ahead leaves",
		seed:  holders + " | queue me:4=8 you:5=9 you:6=10 them:7=11" + deadlines + " me:4=70s you:5=70s you:6=70s them:7=70s | counter 11" + meta,
		ids:   []string{"me:4"},
		call:  releases,
		reply: "waiting",
		wake:  "them 7:11:0, you 5:9:0",
		state: holders + " | queue you:5=9 you:6=10 them:7=11" + deadlines + " them:7=70s you:5=70s you:6=70s | counter 11" + meta,
	}, {
		name:  "each by its own turn",
		seed:  holders + " | queue me:4=8 you:5=9 them:6=10 | timeout you:1=20s you:2=40s you:3=40s me:4=70s you:5=70s them:6=70s | counter 10" + meta,
		ids:   []string{"me:4"},
		call:  releases,
		reply: "waiting",
		wake:  "you 5:9:0",
		state: holders + " | queue you:5=9 them:6=10 | timeout you:1=20s you:2=40s you:3=40s them:6=70s you:5=70s | counter 10" + meta,
	}, {
		name:  "one ahead has died",
		seed:  holders + " | queue them:4=8 you:5=9" + deadlines + " them:4=-1s you:5=70s | counter 9" + meta,
		call:  refreshes,
		wake:  "you 5:9:0",
		state: holders + " | queue you:5=9" + deadlines + " you:5=70s | counter 9" + meta,
	}, {
		name:  "not one whose turn comes hardly earlier",
		seed:  holders + " | queue me:4=8 you:5=9 | timeout you:1=20s you:2=20s you:3=40s me:4=70s you:5=70s | counter 9" + meta,
		ids:   []string{"me:4"},
		call:  releases,
		reply: "waiting",
		state: holders + " | queue you:5=9 | timeout you:1=20s you:2=20s you:3=40s you:5=70s | counter 9" + meta,
	}, {
		name:  "nor one before it",
		seed:  holders + " | queue you:5=8 me:4=9" + deadlines + " me:4=70s you:5=70s | counter 9" + meta,
		ids:   []string{"me:4"},
		call:  releases,
		reply: "waiting",
		state: holders + " | queue you:5=8" + deadlines + " you:5=70s | counter 9" + meta,
	}, {
		name:  "the caller learns it from the reply",
		seed:  holders + " | queue me:4=8 me:5=9" + deadlines + " me:4=70s me:5=70s | counter 9" + meta,
		ids:   []string{"me:4"},
		call:  releases,
		reply: "waiting, next 20s",
		state: holders + " | queue me:5=9" + deadlines + " me:5=70s | counter 9" + meta,
	}, {
		name:  "a newer declaration",
		seed:  "owner you:1=5 you:2=6 | queue you:4=8 | timeout you:1=20s you:2=30s you:4=70s | counter 8 | weight you:4=3 | meta declared=2/60000 layout=2 since=6 until=80s",
		call:  refreshes,
		reply: "room 1",
		wake:  "you 4:8:0",
		state: "owner you:1=5 you:2=6 | queue you:4=8 | timeout you:1=20s you:2=30s you:4=70s | counter 8 | weight you:4=3" + meta,
	}, {
		name:  "a grant is given back",
		seed:  "owner me:1=5 you:2=6 you:3=7 | queue you:4=8 | timeout me:1=20s you:2=30s you:3=40s you:4=70s | counter 8 | weight you:4=2" + meta,
		ids:   []string{"me:1"},
		call:  releases,
		reply: "held, room 1",
		wake:  "you 4:8:0",
		state: "owner you:2=6 you:3=7 | queue you:4=8 | timeout you:2=30s you:3=40s you:4=70s | counter 8 | weight you:4=2" + meta,
	}, {
		name: "a grant is revoked",
		seed: "owner them:1=5 you:2=6 you:3=7 | queue you:4=8 | timeout them:1=20s you:2=30s you:3=40s you:4=70s | counter 8 | weight you:4=2" + meta,
		ids:  []string{"them:1"},
		call: func(l *lab, ids []*ticket) Call {
			return l.space.Evict("name", LimitSpec{Limit: 3, Window: time.Minute}, ids[0].id)
		},
		reply: "held, room 1",
		wake:  "them 1:5:0, you 4:8:0",
		state: "owner you:2=6 you:3=7 | queue you:4=8 | timeout them:1=20s you:2=30s you:3=40s you:4=70s | counter 8 | weight you:4=2" + meta,
	}})
}

func TestScriptsOfARate(t *testing.T) {
	const meta = " | meta declared=3/60000 layout=2 since=7 until=80s"
	const full = "owner you:1=5 you:2=6 you:3=7 | timeout you:1=20s you:2=30s you:3=40s | counter 8"
	checkAll(t, []contract{{
		name:  "a grant expires one window later, whatever the lease",
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "held #1, room 2",
		state: "owner me:1=#1 | timeout me:1=60s | counter #1" + meta + " granted=1",
	}, {
		name:  "an acquire sent again is the same grant, and it expires no later",
		seed:  "owner me:1=5 | timeout me:1=20s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "held 5, room 2",
	}, {
		name: "a renewal does not extend a grant",
		seed: "owner me:1=5 | timeout me:1=20s | counter 8" + meta,
		ids:  []string{"me:1"},
		call: func(l *lab, ids []*ticket) Call {
			return Refresh(l.space.About("name"), threeAMinute, time.Minute, false, ids)
		},
		reply: "held 5, room 2",
	}, {
		name:  "expired grants make room",
		seed:  "owner you:1=5 you:2=6 you:3=7 | timeout you:1=-10s you:2=30s you:3=40s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "held #1",
		state: "owner you:2=6 you:3=7 me:1=#1 | timeout you:2=30s you:3=40s me:1=60s | counter #1" + meta + " granted=1",
	}, {
		name:  "nothing is granted in the grace period, also if there is room",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 8" + meta + " quiet=30s",
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "early 30s, room 2",
		state: "owner you:1=5 | timeout you:1=20s | counter 8" + meta,
	}, {
		name:  "a waiter keeps a lease, and learns when its turn comes",
		seed:  full + meta,
		ids:   []string{"me:1", "me:2"},
		call:  acquiringRate(true),
		reply: "waiting #1, waiting #2, next 20s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue me:1=#1 me:2=#2 | timeout me:1=10s me:2=10s you:1=20s you:2=30s you:3=40s | counter #2" + meta,
	}, {
		name:  "the second waiter learns when the second grant expires",
		seed:  "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 | timeout you:1=20s you:2=30s you:3=40s you:4=70s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(true),
		reply: "waiting #1, next 30s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 me:1=#1 | timeout me:1=10s you:1=20s you:2=30s you:3=40s you:4=70s | counter #1" + meta,
	}, {
		name:  "a queue longer than the limit takes further whole windows",
		seed:  "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 you:5=9 you:6=10 | timeout you:1=20s you:2=30s you:3=40s you:4=70s you:5=70s you:6=70s | counter 10" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(true),
		reply: "waiting #1, next 70s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 you:5=9 you:6=10 me:1=#1 | timeout me:1=10s you:1=20s you:2=30s you:3=40s you:4=70s you:5=70s you:6=70s | counter #1" + meta,
	}, {
		name:  "V3: but the call asks again when the lease of one ahead may have ended",
		seed:  "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 you:5=9 | timeout you:1=20s you:2=30s you:3=40s you:4=70s you:5=30s | counter 10" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(true),
		reply: "waiting #1, next 30s",
		state: "owner you:1=5 you:2=6 you:3=7 | queue you:4=8 you:5=9 me:1=#1 | timeout me:1=10s you:1=20s you:2=30s you:5=30s you:3=40s you:4=70s | counter #1" + meta,
	}, {
		name:  "weights count",
		seed:  "owner you:1=5 you:2=6 | timeout you:1=20s you:2=40s | counter 8 | weight extra=1 you:2=2" + meta,
		ids:   []string{"me:1*2"},
		call:  acquiringRate(true),
		reply: "waiting #1, next 40s",
		state: "owner you:1=5 you:2=6 | queue me:1=#1 | timeout me:1=10s you:1=20s you:2=40s | counter #1 | weight extra=1 me:1=2 you:2=2" + meta,
	}, {
		name: "a grant from the queue lasts for one window, too",
		seed: "owner you:1=5 you:2=6 | queue you:3=7 | timeout you:3=10s you:1=20s you:2=30s | counter 8" + meta,
		call: func(l *lab, _ []*ticket) Call {
			return Refresh[*ticket](l.space.About("name"), threeAMinute, 20*time.Second, false, nil)
		},
		wake:  "you 3:7:#1",
		state: "owner you:1=5 you:2=6 you:3=#1 | timeout you:1=20s you:2=30s you:3=60s | counter #1" + meta + " granted=1",
	}})
}

// The times that waiters of a rate limit received were computed for the previous limit.
func TestResizeOfARateMakesWaitersPollAgain(t *testing.T) {
	const before = "owner you:1=1 | queue you:2=5 me:3=6 you:4=7 | timeout you:1=20s you:2=70s me:3=70s you:4=70s | counter 8 | meta declared=3/60000 layout=2 pinned=1 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "the first waiter of each process, after those that are granted",
		seed:  before,
		ids:   []string{"itself"},
		call:  resizing(PinAt(2)),
		reply: "held",
		wake:  "me 3:6:0, you 2:5:#2,4:7:0",
		state: "owner you:1=1 you:2=#2 | queue me:3=6 you:4=7 | timeout you:1=20s you:2=60s me:3=70s you:4=70s | counter #2 | meta declared=3/60000 layout=2 pinned=2 pinned_at=#1 since=7 until=80s granted=1",
	}, {
		name:  "no waiter of a semaphore, which gets a message when its turn comes",
		seed:  "owner you:1=1 | queue me:3=6 | timeout you:1=20s me:3=70s | counter 8 | meta declared=3 layout=2 pinned=2 since=7 until=80s",
		ids:   []string{"itself"},
		call:  resizing(PinAt(1)),
		reply: "held",
		state: "owner you:1=1 | queue me:3=6 | timeout you:1=20s me:3=70s | counter 8 | meta declared=3 layout=2 pinned=1 pinned_at=#1 since=7 until=80s",
	}})
}

// asRate is a refresh by "me" of a rate limit of 3 units in 60 s, with a lease of 10 s.
func asRate(knows bool) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		return Refresh(l.space.About("name"), threeAMinute, 10*time.Second, knows, ids)
	}
}

// Neither a renewal nor a copy nor a loss of state may make a grant expire before or after the end of its window.
func TestGrantOfARateExpiresAWindowAfterItWasMadeWhateverHappens(t *testing.T) {
	const meta = " | meta declared=3/60000 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "renewed by a client that knows its token",
		seed:  "owner me:1=5 | timeout me:1=50s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  asRate(true),
		reply: "held 5, room 2",
	}, {
		name:  "granted by a copy of its own acquire",
		seed:  "owner you:1=1 you:2=2 you:3=3 | timeout you:1=-1s you:2=20s you:3=30s me:1=8s | queue me:1=7 | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(true),
		reply: "held #1, me:1 gets #1 for 7",
		state: "owner you:2=2 you:3=3 me:1=#1 | timeout you:2=20s you:3=30s me:1=60s | counter #1" + meta + " granted=1",
	}, {
		name: "restored",
		seed: "counter 8" + meta,
		ids:  []string{"me:1"},
		call: func(l *lab, ids []*ticket) Call {
			return Restore(l.space.About("name"), threeAMinute, 10*time.Second, ids, Claims{Holders: 1, Epoch: seededEpoch, Numbers: []int64{5}, Units: []int64{1}})
		},
		reply: "held 5, room 2",
		state: "owner me:1=5 | timeout me:1=60s | counter 8" + meta,
	}, {
		name: "restored although it is stored",
		seed: "owner me:1=5 | timeout me:1=50s | counter 8" + meta,
		ids:  []string{"me:1"},
		call: func(l *lab, ids []*ticket) Call {
			return Restore(l.space.About("name"), threeAMinute, 10*time.Second, ids, Claims{Holders: 1, Epoch: seededEpoch, Numbers: []int64{5}, Units: []int64{1}})
		},
		reply: "held 5, room 2",
	}})
}

// WAIT waits for the last write of its connection. Where the first copy came by another one, there was none.
func TestACopyOfAGrantOfARateIsAWriteThatReplicasCanConfirm(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("owner me:1=5 | timeout me:1=50s | counter 8 | meta declared=3/60000 layout=2 since=7 until=80s")
	writes := slices.DeleteFunc(l.commands(acquiringRate(true)(l, tickets("me:1"))), func(command string) bool {
		name, _, _ := strings.Cut(command, " ")
		return slices.Contains(reads, name)
	})
	assert.Equal(t, []string{"PEXPIREAT " + l.keys[2]}, writes)
}

// A deadline is a whole number of ms, and a token is not: a ms earlier, a window could have one grant too many.
func TestGrantOfARateExpiresOnceMoreThanAWindowHasPassed(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta declared=3/60000 layout=2 since=7 until=80s")
		checkGrants := func(want ...string) {
			t.Helper()
			s := l.snapshot()
			require.Equal(t, want, members(s.owner))
			for _, grant := range s.owner {
				deadline := l.rdb.ZScore(background, l.keys[2], grant.Member.(string)).Val()
				assert.Greater(t, 1000*deadline, grant.Score+float64(time.Minute.Microseconds()), grant.Member)
			}
		}
		l.ask(acquiringRate(false)(l, tickets("me:1")), 1) // by the fast path
		l.ask(acquiringRate(true)(l, tickets("me:2*2", "me:3")), 2)
		checkGrants("me:1", "me:2")
		require.NoError(t, l.rdb.ZAddXX(background, l.keys[2], redis.Z{Score: 1, Member: "me:1"}).Err())
		l.ask(asRate(false)(l, nil), 0)
		checkGrants("me:2", "me:3")
	})
}

func TestForecastOfARate(t *testing.T) {
	const meta = " | meta declared=3/60000 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "if a new limit is below what is granted, the surplus has to expire first",
		seed:  "owner you:1=1 you:2=2 you:3=3 you:4=4 you:5=5 you:6=6 | timeout you:1=10s you:2=20s you:3=30s you:4=40s you:5=50s you:6=60s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "refused 40s",
	}, {
		name:  "grants of the same call count",
		seed:  "owner you:1=1 | timeout you:1=20s | counter 8 | weight extra=1 you:1=2" + meta,
		ids:   []string{"me:1", "me:2*2"},
		call:  acquiringRate(false),
		reply: "held #1, refused 20s",
		state: "owner you:1=1 me:1=#1 | timeout you:1=20s me:1=60s | counter #1 | weight extra=1 you:1=2" + meta + " granted=1",
	}, {
		name:  "even where all of them have to expire",
		seed:  "owner you:1=1 | timeout you:1=20s | counter 8 | weight extra=1 you:1=2" + meta,
		ids:   []string{"me:1", "me:2*3"},
		call:  acquiringRate(false),
		reply: "held #1, refused 60s",
		state: "owner you:1=1 me:1=#1 | timeout you:1=20s me:1=60s | counter #1 | weight extra=1 you:1=2" + meta + " granted=1",
	}, {
		name:  "grants in the middle of the same call count, too",
		seed:  "owner you:1=1 you:2=2 | timeout you:1=20s you:2=30s | counter 8" + meta,
		ids:   []string{"me:1*2", "me:2", "me:3*2"},
		call:  acquiringRate(false),
		reply: "refused 20s, held #1, refused 30s",
		state: "owner you:1=1 you:2=2 me:2=#1 | timeout you:1=20s you:2=30s me:2=60s | counter #1" + meta + " granted=1",
	}, {
		name:  "a waiter that can never fit leaves the queue when its turn comes, and uses nothing",
		seed:  "owner you:1=1 you:2=2 you:3=3 | queue you:4=6 you:5=7 | timeout you:1=10s you:2=20s you:3=30s you:4=70s you:5=70s | counter 8 | weight you:4=4" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "refused 20s",
	}, {
		name:  "the next grant to expire is not the oldest where another window was declared",
		seed:  "owner you:1=1 you:2=2 you:3=3 | timeout you:2=10s you:3=20s you:1=70s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "refused 10s",
	}, {
		name:  "nor where weights differ",
		seed:  "owner you:1=1 you:2=2 | timeout you:2=10s you:1=70s | counter 8 | weight extra=1 you:1=2" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "refused 10s",
	}, {
		name:  "in the grace period a call learns when it ends, whenever there is room",
		seed:  "owner you:1=1 you:2=2 you:3=3 | timeout you:1=20s you:2=30s you:3=40s | counter 8 | meta declared=3/60000 layout=2 quiet=10s since=7 until=80s",
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "early 10s",
		state: "owner you:1=1 you:2=2 you:3=3 | timeout you:1=20s you:2=30s you:3=40s | counter 8" + meta,
	}, {
		name:  "a first waiter of the caller behind those of others",
		seed:  "owner you:1=1 you:2=2 you:3=3 | queue you:4=6 me:8=7 you:5=8 | timeout you:1=20s you:2=30s you:3=40s you:4=70s me:8=70s you:5=70s | counter 8" + meta,
		ids:   []string{"me:9"},
		call:  acquiringRate(true),
		reply: "waiting #1, next 30s",
		state: "owner you:1=1 you:2=2 you:3=3 | queue you:4=6 me:8=7 you:5=8 me:9=#1 | timeout me:9=10s you:1=20s you:2=30s you:3=40s me:8=70s you:4=70s you:5=70s | counter #1" + meta,
	}, {
		name:  "no turn for a call that does not wait, although another call of its process waits",
		seed:  "owner you:1=1 you:2=2 you:3=3 | queue me:4=6 | timeout you:1=20s you:2=30s you:3=40s me:4=70s | counter 8" + meta,
		ids:   []string{"me:5"},
		call:  acquiringRate(false),
		reply: "refused 30s",
	}, {
		name:  "no turn for a process without a waiter",
		seed:  "owner you:1=1 you:2=2 you:3=3 | queue you:4=6 | timeout you:1=20s you:2=30s you:3=40s you:4=70s | counter 8" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "refused 30s",
	}, {
		name:  "a heavy waiter ahead is granted first, from expiring grants, those to the queue included",
		seed:  "owner you:1=1 you:2=2 | queue you:4=6 you:5=7 | timeout you:1=10s you:2=20s you:4=70s you:5=70s | counter 8 | weight extra=1 you:2=2 you:4=3" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "refused 80s",
	}, {
		name:  "a grant whose deadline another program has deleted may last for a window",
		seed:  "owner you:1=1 you:2=2 | timeout you:2=20s | counter 8 | weight extra=1 you:1=2" + meta,
		ids:   []string{"me:1*2"},
		call:  acquiringRate(false),
		reply: "refused 60s",
	}, {
		name:  "in a pause there is no forecast",
		seed:  "owner you:1=1 | timeout you:1=20s | counter 8 | meta declared=3/60000 layout=2 pinned=0 since=7 until=80s",
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "refused 10s",
	}})
}

// With a rate limit, too, expired entries may stay while there is room, because they use none.
func TestFastAcquireOfARateKeepsExpiredEntriesWhileThereIsRoom(t *testing.T) {
	const meta = " | meta declared=3/60000 layout=2 since=7 until=80s"
	checkAll(t, []contract{{
		name:  "kept where there is room beside them",
		seed:  "owner you:1=5 you:2=6 | timeout you:1=-10s you:2=20s | counter 6" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "held #1, room 1",
		state: "owner you:1=5 you:2=6 me:1=#1 | timeout you:1=-10s you:2=20s me:1=60s | counter #1" + meta + " granted=1",
	}, {
		name:  "removed where there is none",
		seed:  "owner you:1=5 you:2=6 you:3=7 | timeout you:1=-10s you:2=20s you:3=20s | counter 7" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "held #1",
		state: "owner you:2=6 you:3=7 me:1=#1 | timeout you:2=20s you:3=20s me:1=60s | counter #1" + meta + " granted=1",
	}, {
		name:  "removed where their number is unknown",
		seed:  "owner you:2=6 | timeout you:1=-10s you:2=20s | counter 7" + meta,
		ids:   []string{"me:1"},
		call:  acquiringRate(false),
		reply: "held #1, room 1",
		state: "owner you:2=6 me:1=#1 | timeout you:2=20s me:1=60s | counter #1" + meta + " granted=1",
	}})
}

func TestFastAcquireOfARateRemovesExpiredEntriesWhenTheyAreMany(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for expired, remaining := range map[int]int64{MaxIDs - 1: MaxIDs, MaxIDs: 1} {
			l := newLab(t, rdb)
			l.seed("counter 8 | meta declared=1000/60000 layout=2 since=7 until=80s")
			l.many("owner", "you", expired, 1, 1)
			l.many("timeout", "you", expired, 1, 1)
			d := Declaration{Spec: LimitSpec{1000, time.Minute}, Since: 7}
			r := l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Second}, tickets("me:1")), 1)
			assert.Equal(t, int64(999), r.Room, "%d have expired", expired)
			assert.Equal(t, remaining, rdb.ZCard(t.Context(), l.keys[0]).Val(), "%d have expired", expired)
		}
	})
}

func TestFastPathDoesNotChangeAnAcquireOfARate(t *testing.T) {
	const meta = " | meta declared=3/60000 layout=2 since=7 until=80s"
	const held = "owner you:1=5 | timeout you:1=20s | counter 6"
	exchanging := func(l *lab, ids []*ticket) Call {
		return Acquire(l.space.About("name"), threeAMinute, AcquireParams{TTL: 10 * time.Second}, ids[1:], ids[0])
	}
	checkFastPath(t, withoutFastPath(t, AcquireScript), map[string]contract{
		"of one":                       {seed: held + meta, call: acquiringRate(false), ids: []string{"me:1"}},
		"of one that would wait":       {seed: held + meta, call: acquiringRate(true), ids: []string{"me:1"}},
		"of several that just fit":     {seed: held + meta, call: acquiringRate(false), ids: []string{"me:1", "me:2"}},
		"of one too many":              {seed: held + meta, call: acquiringRate(false), ids: []string{"me:1", "me:2", "me:3"}},
		"of an unused name":            {call: acquiringRate(false), ids: []string{"me:1"}},
		"of one that holds":            {seed: held + meta, call: acquiringRate(false), ids: []string{"you:1", "me:1"}},
		"of one that weighs more":      {seed: held + meta, call: acquiringRate(false), ids: []string{"me:1*2"}},
		"beside one that does":         {seed: held + " | weight extra=1 you:1=2" + meta, call: acquiringRate(false), ids: []string{"me:1"}},
		"beside a tombstone":           {seed: held + " | timeout you:2=20s" + meta, call: acquiringRate(false), ids: []string{"me:1"}},
		"of a name with a queue":       {seed: "owner you:1=5 | queue you:2=6 | timeout you:1=20s you:2=20s | counter 6 | weight you:2=3" + meta, call: acquiringRate(false), ids: []string{"me:1"}},
		"while paused":                 {seed: held + strings.Replace(meta, "since", "pinned=0 since", 1), call: acquiringRate(false), ids: []string{"me:1"}},
		"that releases one":            {seed: held + meta, call: exchanging, ids: []string{"you:1", "me:1"}},
		"that releases an expired one": {seed: strings.Replace(held, "20s", "-10s", 1) + meta, call: exchanging, ids: []string{"you:1", "me:1"}},
	})
}

func TestCallThatDeclaresNothingGrantsNothingWhereNoLimitIsKnown(t *testing.T) {
	const seed = "owner me:1=5 | queue you:1=6 | timeout me:1=20s you:1=20s | counter 8"
	checkAll(t, []contract{{
		name:  "an eviction by a handle with a limit of its own",
		seed:  seed,
		ids:   []string{"me:2"},
		call:  evicting("me:2"),
		reply: "gone",
		wake:  "you 1:6:0", // there is a new epoch
		state: seed + " | meta until=40s",
	}})
}
