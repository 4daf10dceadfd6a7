package protocol

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

// The scripts where state may have been lost.

// restoring is a restore by "me": the first of the ids are holders, with the numbers 1, 2, ... from first on.
func restoring(limit int64, holders int, first int64) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		had := Claims{Holders: holders, Epoch: seededEpoch, Units: weightsOf(ids)}
		for i := range ids {
			had.Numbers = append(had.Numbers, first+int64(i))
		}
		return Restore(l.space.About("name"), known(limit), time.Minute, ids, had)
	}
}

func TestRestoreAddsMissingHoldersAndWaiters(t *testing.T) {
	const (
		meta = " | meta declared=4 layout=1 since=7 until=80s"
		full = " | meta declared=1 layout=1 since=7 until=80s"
	)
	checkAll(t, []contract{{
		name:  "holders with their tokens and waiters with their places, in a line that others have begun",
		seed:  "queue you:1=12 | timeout you:1=20s | counter 12" + meta,
		ids:   []string{"me:1", "me:2*3", "me:3*2", "me:4"},
		call:  restoring(4, 2, 10),
		reply: "held 10, held 11, waiting 12, waiting 13, more, next 60s",
		state: "owner me:1=10 me:2=11 | queue me:3=12 you:1=12 me:4=13 | timeout you:1=20s me:1=60s me:2=60s me:3=60s me:4=60s | counter 13 | weight extra=2 me:2=3 me:3=2" + meta,
	}, {
		name:  "but no holder that fits no more",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 5" + meta,
		ids:   []string{"me:1*3", "me:2*2", "me:3"},
		call:  restoring(4, 3, 10),
		reply: "held 10, gone, gone",
		state: "owner you:1=5 me:1=10 | timeout you:1=20s me:1=60s | counter 12 | weight extra=2 me:1=3" + meta,
	}, {
		name:  "and nobody who was given up",
		seed:  "timeout me:1=20s me:2=20s | counter 5" + meta,
		ids:   []string{"me:1", "me:2"},
		call:  restoring(4, 1, 10),
		reply: "evicted, evicted",
		state: "timeout me:1=20s me:2=20s | counter 11" + meta,
	}, {
		name:  "nor twice: who is there keeps its number, and is renewed",
		seed:  "owner me:1=5 | queue me:2=6 | timeout me:1=20s me:2=20s | counter 6" + full,
		ids:   []string{"me:1", "me:2"},
		call:  restoring(1, 1, 10),
		reply: "held 5, waiting 6, more, next 60s",
		state: "owner me:1=5 | queue me:2=6 | timeout me:1=60s me:2=60s | counter 11" + full,
	}, {
		name:  "and nobody by a late copy with more units than it has given back since, or with fewer than Redis knows of",
		seed:  "owner me:1=10 me:2=11 | queue me:3=12 | timeout me:1=20s me:2=20s me:3=20s | counter 12 | weight extra=3 me:1=2 me:2=3 me:3=2" + full,
		ids:   []string{"me:1*3", "me:2*2", "me:3*3"},
		call:  restoring(1, 2, 10),
		reply: "held 10, held 11, waiting 12, more, next 60s",
		state: "owner me:1=10 me:2=11 | queue me:3=12 | timeout me:1=60s me:2=60s me:3=60s | counter 12 | weight extra=3 me:1=2 me:2=3 me:3=2" + full,
	}, {
		name:  "out of the line that an old file has, if it holds since",
		seed:  "owner you:1=5 | queue me:1=6 you:2=7 | timeout you:1=20s me:1=20s you:2=20s | counter 7 | weight me:1=3" + meta,
		ids:   []string{"me:1*3"},
		call:  restoring(4, 1, 8),
		reply: "held 8, more, next 60s",
		state: "owner you:1=5 me:1=8 | queue you:2=7 | timeout you:1=20s you:2=20s me:1=60s | counter 8 | weight extra=2 me:1=3" + meta,
	}, {
		name:  "back into the line whom an old file has among the holders, if it never heard of that",
		seed:  "owner me:1=3 you:1=5 | timeout me:1=20s you:1=20s | counter 7 | weight extra=1 me:1=2" + meta,
		ids:   []string{"me:1*2", "you:1"},
		call:  restoring(4, 0, 8),
		reply: "waiting 8, held 5, more, next 60s",
		state: "owner you:1=5 | queue me:1=8 | timeout me:1=60s you:1=60s | counter 9 | weight me:1=2" + meta,
	}, {
		name: "but not by a late copy from another epoch",
		seed: "owner me:1=3 | timeout me:1=20s | counter 7" + meta,
		ids:  []string{"me:1"},
		call: func(l *lab, ids []*ticket) Call {
			return Restore(l.space.About("name"), known(4), time.Minute, ids, Claims{0, seededEpoch - 1, []int64{8}, []int64{1}})
		},
		reply: "held 3",
		state: "owner me:1=3 | timeout me:1=60s | counter 8" + meta,
	}, {
		name:  "nor who lapsed meanwhile",
		seed:  "owner me:1=5 | timeout me:1=-10s | counter 6" + meta,
		ids:   []string{"me:1"},
		call:  restoring(1, 1, 10),
		reply: "held 10",
		state: "owner me:1=10 | timeout me:1=60s | counter 10" + meta,
	}})
}

// Guards against an old file in which the lease ends before the holder queries: the holder would restore itself.
func TestEvictionInTheGracePeriodLastsUntilItEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("owner me:1=5 | timeout me:1=20s | counter 6 | meta declared=1 layout=1 since=7 until=80s")
		quiet := l.now().Add(time.Minute).UnixMilli()
		require.NoError(t, l.rdb.HSet(background, l.keys[5], "quiet", quiet).Err())
		l.ask(evicting("me:1")(l, nil), 1)
		score, err := l.rdb.ZScore(background, l.keys[2], "me:1").Result()
		require.NoError(t, err)
		assert.Equal(t, float64(quiet), score)
	})
}

// epochOf returns the epoch in meta, and for how long from now nothing new is granted.
func (l *lab) epochOf() (epoch int64, quiet time.Duration) {
	l.t.Helper()
	meta := l.rdb.HGetAll(background, l.keys[5]).Val()
	epoch, _ = strconv.ParseInt(meta["epoch"], 10, 64)
	until, _ := strconv.ParseInt(meta["quiet"], 10, 64)
	return epoch, time.UnixMilli(until).Sub(l.now())
}

// someServer is the identity of a server that does not exist.
const someServer = "00000000000f"

const (
	settled = "!"
	recent  = "?"
)

// declaring is a declaration by a client that knows these servers.
func declaring(knows string) Declaration {
	return Declaration{Spec: LimitSpec{Limit: 1}, Since: usedNow, Knows: knows}
}

func (l *lab) acquires(d Declaration) Result {
	l.t.Helper()
	return l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute}, tickets("me:1")), 1).Results[0]
}

// promoted returns a server that took over from another.
func promoted(t *testing.T) *redis.Client {
	t.Helper()
	first, second := redistest.NewServer(t), redistest.NewServer(t)
	host, port, err := net.SplitHostPort(first.Addr())
	require.NoError(t, err)
	require.NoError(t, second.Client().ReplicaOf(t.Context(), host, port).Err())
	require.Eventually(t, func() bool {
		return second.Client().InfoMap(t.Context(), "replication").Item("Replication", "master_link_status") == "up"
	}, time.Minute, 5*time.Millisecond)
	require.NoError(t, second.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
	require.NoError(t, second.AwaitAge(2))
	return second.Client()
}

func TestNewNameIsGrantedAtOnceUnlessItMayHaveBeenLost(t *testing.T) {
	t.Parallel()
	old, successor := redistest.SettledClient(t), promoted(t)
	for name, c := range map[string]struct {
		rdb   *redis.Client
		knows func(*lab) string
		want  State
	}{
		"by who knows no server":                        {old, func(*lab) string { return "" }, Held},
		"by who knows this server":                      {old, func(l *lab) string { return someServer + recent + "," + l.identity() + settled }, Held},
		"not by who knows another one only":             {old, func(*lab) string { return someServer + settled }, Early},
		"not by who has used it before":                 {old, func(*lab) string { return UsedBefore }, Early},
		"by who knows nobody, of a successor":           {successor, func(*lab) string { return "" }, Held},
		"by who knows the successor":                    {successor, func(l *lab) string { return someServer + settled + "," + l.identity() + settled }, Held},
		"by who has met the successor, and nobody else": {successor, func(l *lab) string { return l.identity() + recent }, Held},
		"not by who knew its predecessor":               {successor, func(*lab) string { return someServer + settled }, Early},
		"not by who had just met its predecessor":       {successor, func(*lab) string { return someServer + recent }, Early},
		"not by who has just met both":                  {successor, func(l *lab) string { return someServer + recent + "," + l.identity() + recent }, Early},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, c.rdb)
			assert.Equal(t, c.want, l.acquires(declaring(c.knows(l))).State)
			_, quiet := l.epochOf()
			assert.Equal(t, c.want == Early, quiet > 0)
		})
	}
}

// Here the grace period is longer than the age of the server.
func TestNewNameOnAYoungServerQueuesCallsUntilTheGracePeriodEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, redistest.SettledClient(t))
	l.space.Grace = time.Hour
	d := declaring("")
	early := l.acquires(d)
	assert.Equal(t, Early, early.State)
	_, quiet := l.epochOf()
	assert.InDelta(t, quiet.Milliseconds(), early.Number, 1000)
	assert.Greater(t, quiet, 50*time.Minute)
	assert.LessOrEqual(t, quiet, time.Hour)

	r := l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: 2 * time.Hour, Wait: true}, tickets("me:2", "me:3")), 2)
	assert.Equal(t, []State{Waiting, Waiting}, []State{r.Results[0].State, r.Results[1].State})
	assert.InDelta(t, quiet, r.Next, float64(time.Second), "they look again when it is over")
	r = l.ask(Release(l.space.About("name"), d, 0, false, tickets("me:9")), 1)
	assert.Empty(t, r.Grants)

	require.NoError(t, l.rdb.HSet(background, l.keys[5], "quiet", l.now().UnixMilli()).Err())
	r = l.ask(Refresh(l.space.About("name"), d, 2*time.Hour, false, tickets("me:2", "me:3")), 2)
	require.Len(t, r.Grants, 1)
	assert.Equal(t, int64(2), r.Grants[0].Seq)
}

// Whatever servers the caller knows: the name records another one.
func TestServerThatTheNameDoesNotRecordStartsANewEpoch(t *testing.T) {
	t.Parallel()
	rdb := redistest.SettledClient(t)
	for name, c := range map[string]struct {
		server string // recorded with the name
		begins bool
	}{
		"another":  {someServer, true},
		"this one": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, rdb)
			l.seed("owner me:1=5 | timeout me:1=20s | counter 6 | meta declared=3 layout=1 since=7 until=80s")
			require.NoError(t, l.rdb.HSet(background, l.keys[5], "server", cmp.Or(c.server, l.identity())).Err())
			d := Declaration{Spec: LimitSpec{Limit: 3}, Since: 7, Knows: l.identity() + settled}
			r := l.ask(Refresh(l.space.About("name"), d, time.Minute, true, tickets("me:1")), 1)
			assert.Equal(t, Held, r.Results[0].State, "who is there stays")
			assert.Equal(t, c.begins, r.Epoch != seededEpoch)
			assert.Equal(t, l.identity(), fmt.Sprintf("%012x", r.Server))
			epoch, quiet := l.epochOf()
			assert.Equal(t, epoch, r.Epoch)
			assert.Equal(t, c.begins, quiet > 0)
			known := l.ask(Refresh(l.space.About("name"), d, time.Minute, true, tickets("me:1")), 1)
			assert.Equal(t, epoch, known.Epoch, "now it is known")

			r = l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute}, tickets("me:2")), 1)
			assert.Equal(t, c.begins, r.Results[0].State == Early)
		})
	}
}

// The call of an operator may come before those of the clients.
func TestCallsThatDeclareNothingGrantNothingOnAServerThatTheNameDoesNotRecord(t *testing.T) {
	t.Parallel()
	rdb := redistest.SettledClient(t)
	for name, ask := range map[string]func(*lab) Call{
		"status": func(l *lab) Call { return l.space.Status("name", LimitSpec{Limit: 1}, 0, 0) },
		"resize": func(l *lab) Call {
			return l.space.Resize("name", LimitSpec{Limit: 1}, PinAt(3), l.now().UnixMicro())
		},
		"unpin": func(l *lab) Call {
			return l.space.Resize("name", LimitSpec{Limit: 1}, Unpin, l.now().UnixMicro())
		},
		"evict": func(l *lab) Call { return l.space.Evict("name", LimitSpec{Limit: 1}, "me:1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, rdb)
			l.seed("owner me:1=5 | queue you:1=6 | timeout me:1=-10s you:1=20s | counter 6 | meta declared=1 layout=1 since=7 until=80s")
			require.NoError(t, l.rdb.HSet(background, l.keys[5], "server", someServer).Err())
			require.NoError(t, l.run(ask(l)).err)
			got := l.snapshot()
			require.Len(t, got.queue, 1, "a waiter was let in: %v", got)
			_, quiet := l.epochOf()
			assert.Equal(t, name != "status", quiet > 0)
		})
	}
}

// A call about an unused name leaves nothing behind.
func TestCallsThatDeclareNothingStartNoEpochOfAnUnusedName(t *testing.T) {
	t.Parallel()
	l := newLab(t, redistest.SettledClient(t))
	require.NoError(t, l.run(l.space.Evict("name", LimitSpec{Limit: 1}, "me:1")).err)
	require.NoError(t, l.run(l.space.Status("name", LimitSpec{Limit: 1}, 0, 0)).err)
	assert.Empty(t, l.snapshot().String())
}

// An id that a release does not find was lost, or not: that depends on the server.
func TestReleaseOfAMissingIDReturnsTheEpochOnlyOnAServerThatTheNameRecords(t *testing.T) {
	t.Parallel()
	rdb := redistest.SettledClient(t)
	for _, server := range []string{someServer, ""} {
		l := newLab(t, rdb)
		l.seed("owner me:1=5 | timeout me:1=20s | counter 6 | meta declared=3 layout=1 since=7 until=30s")
		require.NoError(t, l.rdb.HSet(background, l.keys[5], "server", cmp.Or(server, l.identity())).Err())
		r := l.ask(Release(l.space.About("name"), known(3), 0, false, tickets("me:1")), 1)
		assert.Zero(t, r.Epoch, "nothing is missing, so nothing was compared")
		r = l.ask(Release(l.space.About("name"), known(3), 0, false, tickets("me:2")), 1)
		assert.Equal(t, Gone, r.Results[0].State)
		assert.Equal(t, server == "", r.Epoch == seededEpoch, "%d", r.Epoch)
	}
}

func TestStepBackOfTheClockDoesNotExtendTheGracePeriod(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for name, c := range map[string]struct {
			begun time.Duration // from now
			most  time.Duration // of the grace period that remains
		}{"begun": {-time.Second, time.Minute}, "in the future": {time.Minute, time.Second}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, rdb)
				l.seed("meta declared=3 layout=1 since=7 until=80s")
				begun := l.now().Add(c.begun)
				require.NoError(t, l.rdb.HSet(background, l.keys[5], "epoch", begun.UnixMicro(), "quiet", begun.Add(time.Minute).UnixMilli()).Err())
				r := l.ask(Acquire(l.space.About("name"), known(3), AcquireParams{TTL: time.Minute}, tickets("me:1")), 1)
				assert.Equal(t, Early, r.Results[0].State, "holders may not be back yet")
				assert.LessOrEqual(t, r.Results[0].Number, c.most.Milliseconds())
				assert.Equal(t, c.begun > 0, r.Epoch != begun.UnixMicro(), "it begins anew")
			})
		}
	})
}

// A client that has used a name has proof that it existed, however old the server is.
func TestQueryOfALostNameStartsTheGracePeriod(t *testing.T) {
	t.Parallel()
	rdb := redistest.SettledClient(t)
	d := Declaration{Spec: LimitSpec{Limit: 3}, Since: 7, Knows: UsedBefore}
	for name, ask := range map[string]func(CallPrefix) Call{
		"refresh": func(s CallPrefix) Call { return Refresh(s, d, time.Minute, true, tickets("me:1")) },
		"reduce":  func(s CallPrefix) Call { return Reduce(s, d, tickets("me:1"), []int64{1}) },
	} {
		l := newLab(t, rdb)
		r := l.ask(ask(l.space.About("name")), 1)
		assert.Equal(t, Gone, r.Results[0].State, name)
		_, quiet := l.epochOf()
		assert.Greater(t, quiet, time.Duration(0), name)
		r = l.ask(Restore(l.space.About("name"), d, time.Minute, tickets("me:1"), Claims{1, seededEpoch, []int64{3}, []int64{1}}), 1)
		assert.Equal(t, Result{Held, 3}, r.Results[0])
	}
}
