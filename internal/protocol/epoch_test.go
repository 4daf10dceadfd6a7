package protocol

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// The scripts after a possible loss of state.

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
		meta = " | meta declared=4 layout=2 since=7 until=80s"
		full = " | meta declared=1 layout=2 since=7 until=80s"
	)
	checkAll(t, []contract{{
		name:  "holders with their tokens, and waiters with their positions, in a queue that others have joined",
		seed:  "queue you:1=12 | timeout you:1=20s | counter 12" + meta,
		ids:   []string{"me:1", "me:2*3", "me:3*2", "me:4"},
		call:  restoring(4, 2, 10),
		reply: "held 10, held 11, waiting 12, waiting 13, more, next 60s",
		state: "owner me:1=10 me:2=11 | queue me:3=12 you:1=12 me:4=13 | timeout you:1=20s me:1=60s me:2=60s me:3=60s me:4=60s | counter 13 | weight extra=2 me:2=3 me:3=2" + meta,
	}, {
		name:  "no holder that no longer fits",
		seed:  "owner you:1=5 | timeout you:1=20s | counter 5" + meta,
		ids:   []string{"me:1*3", "me:2*2", "me:3"},
		call:  restoring(4, 3, 10),
		reply: "held 10, gone, gone",
		state: "owner you:1=5 me:1=10 | timeout you:1=20s me:1=60s | counter 12 | weight extra=2 me:1=3" + meta,
	}, {
		name:  "no id with a tombstone",
		seed:  "timeout me:1=20s me:2=20s | counter 5" + meta,
		ids:   []string{"me:1", "me:2"},
		call:  restoring(4, 1, 10),
		reply: "evicted, evicted",
		state: "timeout me:1=20s me:2=20s | counter 11" + meta,
	}, {
		name:  "no id that is stored: it keeps its number and is renewed",
		seed:  "owner me:1=5 | queue me:2=6 | timeout me:1=20s me:2=20s | counter 6" + full,
		ids:   []string{"me:1", "me:2"},
		call:  restoring(1, 1, 10),
		reply: "held 5, waiting 6, more, next 60s",
		state: "owner me:1=5 | queue me:2=6 | timeout me:1=60s me:2=60s | counter 11" + full,
	}, {
		name:  "no other weight from a late copy: not the larger one of before a release, and not a smaller one",
		seed:  "owner me:1=10 me:2=11 | queue me:3=12 | timeout me:1=20s me:2=20s me:3=20s | counter 12 | weight extra=3 me:1=2 me:2=3 me:3=2" + full,
		ids:   []string{"me:1*3", "me:2*2", "me:3*3"},
		call:  restoring(1, 2, 10),
		reply: "held 10, held 11, waiting 12, more, next 60s",
		state: "owner me:1=10 me:2=11 | queue me:3=12 | timeout me:1=60s me:2=60s me:3=60s | counter 12 | weight extra=3 me:1=2 me:2=3 me:3=2" + full,
	}, {
		name:  "a holder that an old file has in the queue",
		seed:  "owner you:1=5 | queue me:1=6 you:2=7 | timeout you:1=20s me:1=20s you:2=20s | counter 7 | weight me:1=3" + meta,
		ids:   []string{"me:1*3"},
		call:  restoring(4, 1, 8),
		reply: "held 8, more, next 60s",
		state: "owner you:1=5 me:1=8 | queue you:2=7 | timeout you:1=20s you:2=20s me:1=60s | counter 8 | weight extra=2 me:1=3" + meta,
	}, {
		name:  "a waiter that an old file has among the holders, if its client never learned of that grant",
		seed:  "owner me:1=3 you:1=5 | timeout me:1=20s you:1=20s | counter 7 | weight extra=1 me:1=2" + meta,
		ids:   []string{"me:1*2", "you:1"},
		call:  restoring(4, 0, 8),
		reply: "waiting 8, held 5, more, next 60s",
		state: "owner you:1=5 | queue me:1=8 | timeout me:1=60s you:1=60s | counter 9 | weight me:1=2" + meta,
	}, {
		name:  "no such waiter that was granted the first token of the epoch",
		seed:  "owner me:1=4 | timeout me:1=20s | counter 7" + meta,
		ids:   []string{"me:1"},
		call:  restoring(4, 0, 8),
		reply: "held 4",
		state: "owner me:1=4 | timeout me:1=60s | counter 8" + meta,
	}, {
		name: "no such waiter by a late copy from another epoch",
		seed: "owner me:1=3 | timeout me:1=20s | counter 7" + meta,
		ids:  []string{"me:1"},
		call: func(l *lab, ids []*ticket) Call {
			return Restore(l.space.About("name"), known(4), time.Minute, ids, Claims{Epoch: seededEpoch - 1, Numbers: []int64{8}, Units: []int64{1}})
		},
		reply: "held 3",
		state: "owner me:1=3 | timeout me:1=60s | counter 8" + meta,
	}, {
		name:  "a holder whose stored lease has expired, with its own token",
		seed:  "owner me:1=5 | timeout me:1=-10s | counter 6" + meta,
		ids:   []string{"me:1"},
		call:  restoring(1, 1, 10),
		reply: "held 10",
		state: "owner me:1=10 | timeout me:1=60s | counter 10" + meta,
	}, {
		name: "a waiter that an old file has among the holders, if its client knows of this epoch: it goes back to the queue",
		seed: "owner me:1=3 you:1=5 | timeout me:1=20s you:1=20s | counter 7 | meta declared=1 layout=2 since=7 until=80s",
		ids:  []string{"me:1"},
		call: func(l *lab, ids []*ticket) Call {
			return Restore(l.space.About("name"), known(1), time.Minute, ids, Claims{Epoch: seededEpoch, Confirmed: seededEpoch, Numbers: []int64{8}, Units: []int64{1}})
		},
		reply: "waiting 8, more, next 60s",
		state: "owner you:1=5 | queue me:1=8 | timeout you:1=20s me:1=60s | counter 8 | meta declared=1 layout=2 since=7 until=80s",
	}, {
		name: "nothing that is missing in the epoch in which it was stored last, as what has expired or was evicted is",
		seed: "owner me:1=5 you:1=6 | queue me:3=9 | timeout me:1=20s you:1=20s me:3=20s | counter 12 | meta declared=2 layout=2 since=7 until=80s",
		ids:  []string{"me:1", "me:2", "me:3", "me:4"},
		call: func(l *lab, ids []*ticket) Call {
			had := Claims{Holders: 2, Epoch: seededEpoch, Confirmed: seededEpoch, Numbers: []int64{5, 7, 9, 10}, Units: []int64{1, 1, 1, 1}}
			return Restore(l.space.About("name"), known(2), time.Minute, ids, had)
		},
		reply: "held 5, gone, waiting 9, gone, more, next 60s",
		state: "owner me:1=5 you:1=6 | queue me:3=9 | timeout you:1=20s me:1=60s me:3=60s | counter 12 | meta declared=2 layout=2 since=7 until=80s",
	}})
}

// away is a restore by "me" of one holder with the number 10, whom Redis had last in one epoch, and granted in another.
func away(limit, confirmed, granted int64, claims ...string) func(*lab, []*ticket) Call {
	return func(l *lab, ids []*ticket) Call {
		had := Claims{
			Holders: 1, Epoch: seededEpoch, Confirmed: confirmed, Granted: granted, Numbers: []int64{10}, Units: weightsOf(ids), Lists: claims,
		}
		return Restore(l.space.About("name"), known(limit), time.Minute, ids, had)
	}
}

// S2, S14. Seeded are the grants of the epoch, the end of its grace period, and what was restored in it.
func TestHolderThatMissedGrantsIsRestoredOnlyWhereItCannotHaveBeenReplaced(t *testing.T) {
	const (
		state    = " | meta declared=%s layout=2 since=7 until=80s granted=%d"
		numbered = " | meta declared=9 layout=2 numbered=1 since=7 until=80s granted=%d"
		taken    = "owner you:1=3 | timeout you:1=20s | counter 3"
	)
	plain := func(limit string, granted int) string { return fmt.Sprintf(state, limit, granted) }
	checkAll(t, []contract{{
		name:  "after the grace period, one with all units, while nothing was granted",
		seed:  "counter 3" + plain("1", 2) + " earlier=2",
		ids:   []string{"me:1"},
		call:  away(1, 3, 3),
		reply: "held 10",
		state: "owner me:1=10 | timeout me:1=60s | counter 10" + plain("1", 2),
	}, {
		name:  "but not once something was, though it is free again",
		seed:  "counter 3" + plain("1", 2) + " earlier=1",
		ids:   []string{"me:1"},
		call:  away(1, 3, 3),
		reply: "gone",
		state: "counter 10" + plain("1", 2),
	}, {
		name:  "nor one with all units of several",
		seed:  "counter 3" + plain("4", 2),
		ids:   []string{"me:1*4"},
		call:  away(4, 3, 3),
		reply: "gone",
		state: "counter 10" + plain("4", 2),
	}, {
		name:  "one with some units, if it fits",
		seed:  "counter 3" + plain("4", 2),
		ids:   []string{"me:1*3"},
		call:  away(4, 3, 3),
		reply: "held 10",
		state: "owner me:1=10 | timeout me:1=60s | counter 10 | weight extra=2 me:1=3" + plain("4", 2),
	}, {
		name:  "none with a number that may have been granted: a token of it must not be followed by a lower one",
		seed:  "counter 3" + fmt.Sprintf(numbered, 2) + " highest=4_5",
		ids:   []string{"me:1#"},
		call:  away(9, 3, 3, "5"),
		reply: "gone",
		state: "counter 10" + fmt.Sprintf(numbered, 2),
	}, {
		name:  "one with a higher number, though others were granted",
		seed:  "counter 3" + fmt.Sprintf(numbered, 2) + " highest=4_4",
		ids:   []string{"me:1#"},
		call:  away(9, 3, 3, "5"),
		reply: "held 10",
		state: "owner me:1#=10 | timeout me:1#=60s | counter 10" + fmt.Sprintf(numbered, 2) + " | numbers 1:me:1#=5",
	}, {
		name:  "and one whose number was granted in another epoch",
		seed:  "counter 3" + fmt.Sprintf(numbered, 2) + " highest=3_8",
		ids:   []string{"me:1#"},
		call:  away(9, 3, 3, "5"),
		reply: "held 10",
		state: "owner me:1#=10 | timeout me:1#=60s | counter 10" + fmt.Sprintf(numbered, 2) + " | numbers 1:me:1#=5",
	}, {
		name:  "none with numbers that missed the grants of an epoch which is over",
		seed:  "counter 3" + fmt.Sprintf(numbered, 2) + " quiet=60s restored=4_3_3",
		ids:   []string{"me:1#"},
		call:  away(9, 2, 2, "5"),
		reply: "gone",
		state: "counter 10" + fmt.Sprintf(numbered, 2),
	}, {
		name:  "in the grace period one that was stored in all epochs with grants, even above the limit",
		seed:  taken + plain("1", 2) + " quiet=60s restored=4_3_3",
		ids:   []string{"me:1"},
		call:  away(1, 3, 2),
		reply: "held 10",
		state: "owner you:1=3 me:1=10 | timeout you:1=20s me:1=60s | counter 10" + plain("1", 2),
	}, {
		name:  "not above the limit if another was granted in an epoch that it missed",
		seed:  taken + plain("1", 2) + " quiet=60s restored=4_3_3",
		ids:   []string{"me:1"},
		call:  away(1, 2, 2),
		reply: "gone",
		state: "owner you:1=3 | timeout you:1=20s | counter 10" + plain("1", 2),
	}, {
		name:  "nor below it, with all units: the other was released since",
		seed:  "counter 3" + plain("1", 2) + " quiet=60s restored=4_3_3",
		ids:   []string{"me:1"},
		call:  away(1, 2, 2),
		reply: "gone",
		state: "counter 10" + plain("1", 2),
	}, {
		name:  "and one with all units is removed for the later one with all units, if it came first",
		seed:  taken + plain("1", 2) + " quiet=60s restored=4_2_2",
		ids:   []string{"me:1"},
		call:  away(1, 3, 3),
		reply: "held 10",
		wake:  "you 1:3:0",
		state: "owner me:1=10 | timeout me:1=60s | counter 10" + plain("1", 2),
	}, {
		name:  "whatever token it has, if that is lower",
		seed:  "owner you:1=9 | timeout you:1=20s | counter 9" + plain("1", 2) + " quiet=60s restored=4_2_2",
		ids:   []string{"me:1"},
		call:  away(1, 3, 3),
		reply: "held 10",
		wake:  "you 1:9:0",
		state: "owner me:1=10 | timeout me:1=60s | counter 10" + plain("1", 2),
	}, {
		name:  "one with all units also for the later one with some",
		seed:  "owner you:1=3 | timeout you:1=20s | counter 3 | weight extra=1 you:1=2" + plain("2", 2) + " quiet=60s restored=4_2_2",
		ids:   []string{"me:1"},
		call:  away(2, 3, 3),
		reply: "held 10",
		wake:  "you 1:3:0",
		state: "owner me:1=10 | timeout me:1=60s | counter 10" + plain("2", 2),
	}, {
		name:  "and it alone, if an old file has others",
		seed:  "owner it:1=2 you:1=3 | timeout it:1=20s you:1=20s | counter 3 | weight extra=1 you:1=2" + plain("2", 2) + " quiet=60s restored=4_2_2",
		ids:   []string{"me:1"},
		call:  away(2, 3, 3),
		reply: "held 10",
		wake:  "you 1:3:0",
		state: "owner it:1=2 me:1=10 | timeout it:1=20s me:1=60s | counter 10" + plain("2", 2),
	}, {
		name:  "but not for the earlier one",
		seed:  "owner you:1=30 | timeout you:1=20s | counter 30 | weight extra=1 you:1=2" + plain("2", 2) + " quiet=60s restored=4_2_2",
		ids:   []string{"me:1"},
		call:  away(2, 3, 3),
		reply: "gone",
		state: "owner you:1=30 | timeout you:1=20s | counter 30 | weight extra=1 you:1=2" + plain("2", 2),
	}, {
		name:  "nor for one that does not fit without it either",
		seed:  taken + plain("1", 2) + " quiet=60s restored=4_2_2",
		ids:   []string{"me:1*2"},
		call:  away(1, 3, 3),
		reply: "gone",
		state: "owner you:1=3 | timeout you:1=20s | counter 10" + plain("1", 2),
	}, {
		name:  "with some units, the one that does not fit is lost: nobody knows which of the others was away",
		seed:  "owner you:1=3 you:2=4 | timeout you:1=20s you:2=20s | counter 4" + plain("2", 2) + " quiet=60s restored=4_2_2",
		ids:   []string{"me:1"},
		call:  away(2, 3, 3),
		reply: "gone",
		state: "owner you:1=3 you:2=4 | timeout you:1=20s you:2=20s | counter 10" + plain("2", 2),
	}, {
		name:  "but not if there is room for both",
		seed:  taken + plain("2", 2) + " quiet=60s restored=4_2_2",
		ids:   []string{"me:1"},
		call:  away(2, 3, 3),
		reply: "held 10",
		state: "owner you:1=3 me:1=10 | timeout you:1=20s me:1=60s | counter 10" + plain("2", 2),
	}, {
		name:  "with all units, none that missed the grants of an epoch whose holders were not lost",
		seed:  "counter 3" + plain("1", 2) + " quiet=60s granted_in=3_10",
		ids:   []string{"me:1"},
		call:  away(1, 2, 2),
		reply: "gone",
		state: "counter 10" + plain("1", 2),
	}, {
		name:  "and with some units none above the limit",
		seed:  "owner you:1=3 you:2=4 | timeout you:1=20s you:2=20s | counter 4" + plain("2", 2) + " quiet=60s granted_in=3_10",
		ids:   []string{"me:1"},
		call:  away(2, 2, 2),
		reply: "gone",
		state: "owner you:1=3 you:2=4 | timeout you:1=20s you:2=20s | counter 10" + plain("2", 2),
	}, {
		name:  "but one that was stored in that epoch",
		seed:  taken + plain("1", 2) + " quiet=60s granted_in=3_10",
		ids:   []string{"me:1"},
		call:  away(1, 3, 2),
		reply: "held 10",
		state: "owner you:1=3 me:1=10 | timeout you:1=20s me:1=60s | counter 10" + plain("1", 2),
	}, {
		name:  "or one that was granted after all that the server had then, by whatever clock",
		seed:  taken + plain("1", 2) + " quiet=60s granted_in=3_9",
		ids:   []string{"me:1"},
		call:  away(1, 2, 2),
		reply: "held 10",
		state: "owner you:1=3 me:1=10 | timeout you:1=20s me:1=60s | counter 10" + plain("1", 2),
	}, {
		name:  "an epoch by a clock that is ahead says nothing",
		seed:  taken + plain("1", 2) + " quiet=60s granted_in=5_10",
		ids:   []string{"me:1"},
		call:  away(1, 2, 2),
		reply: "held 10",
		state: "owner you:1=3 me:1=10 | timeout you:1=20s me:1=60s | counter 10" + plain("1", 2),
	}, {
		name:  "with some units, none once another had all: a store that keeps tokens refuses it",
		seed:  "counter 3" + plain("4", 2) + " all_in=11",
		ids:   []string{"me:1"},
		call:  away(4, 3, 3),
		reply: "gone",
		state: "counter 10" + plain("4", 2),
	}, {
		name:  "or another that had all was restored, and it missed that one's grant",
		seed:  "counter 3" + plain("4", 2) + " quiet=60s restored=4_3_3_11",
		ids:   []string{"me:1"},
		call:  away(4, 2, 2),
		reply: "gone",
		state: "counter 10" + plain("4", 2),
	}, {
		name:  "but not one that missed nothing: the limit may have been lowered",
		seed:  "counter 3" + plain("4", 2) + " quiet=60s restored=4_3_3_11",
		ids:   []string{"me:1"},
		call:  away(4, 3, 3),
		reply: "held 10",
		state: "owner me:1=10 | timeout me:1=60s | counter 10" + plain("4", 2),
	}, {
		name:  "but where that was before it was granted",
		seed:  "counter 3" + plain("4", 2) + " all_in=9",
		ids:   []string{"me:1"},
		call:  away(4, 3, 3),
		reply: "held 10",
		state: "owner me:1=10 | timeout me:1=60s | counter 10" + plain("4", 2),
	}, {
		name:  "what was restored in another epoch does not count",
		seed:  taken + plain("1", 2) + " quiet=60s restored=3_2_2",
		ids:   []string{"me:1"},
		call:  away(1, 3, 3),
		reply: "held 10",
		state: "owner you:1=3 me:1=10 | timeout you:1=20s me:1=60s | counter 10" + plain("1", 2),
	}, {
		name:  "nor what cannot be read",
		seed:  taken + plain("1", 2) + " quiet=60s restored=nonsense",
		ids:   []string{"me:1"},
		call:  away(1, 3, 3),
		reply: "held 10",
		state: "owner you:1=3 me:1=10 | timeout you:1=20s me:1=60s | counter 10" + plain("1", 2),
	}})
}

// One that is refused must not keep others from being restored above the limit, with what an old file has too much.
func TestOnlyHoldersThatAreRestoredCountAsAway(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("owner you:1=3 | timeout you:1=20s | counter 3 | meta declared=1 layout=2 since=7 until=80s granted=2 quiet=60s restored=4_3_3")
		for _, step := range []struct {
			id        string
			confirmed int64
			state     State
		}{{"me:1", 2, Gone}, {"me:2", 3, Held}} {
			r := l.ask(away(1, step.confirmed, step.confirmed)(l, tickets(step.id)), 1)
			assert.Equal(t, step.state, r.Results[0].State, step.id)
		}
		assert.Equal(t, "4 3 3", l.snapshot().meta[MetaRestored])
		l.seed("counter 3 | meta declared=4 layout=2 since=7 until=80s granted=2 quiet=60s restored=4_3_3")
		l.ask(away(4, 3, 3)(l, tickets("me:1*4")), 1)
		assert.Equal(t, "4 3 3 10", l.snapshot().meta[MetaRestored], "with the token of one that has all units")
	})
}

func TestReleaseOfWhatIsGoneSaysWhatWasGrantedInThisEpoch(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for seed, granted := range map[string]int64{
			"granted=2 earlier=2": 0, "granted=2 earlier=1": 1, "granted=2": 1, "granted=2 quiet=60s": 0, "granted=2 highest=4_7": 9, "granted=2 highest=3_7": 1,
			"first=4": 0, "first=3": 1, // without the right to HINCRBY
			"granted=2 first=4 all_in=4": MaxUnits, "granted=2 first=4 all_in=3": 1,
		} {
			l := newLab(t, rdb)
			l.seed("counter 3 | meta declared=8 layout=2 since=7 until=80s " + seed)
			r := l.ask(Release(l.space.About("name"), known(9), 0, false, tickets("me:1")), 1)
			assert.Equal(t, Result{State: Gone, Number: granted}, r.Results[0], seed)
			assert.Equal(t, min(granted, 1)*8, r.Room, "the limit in force, where it matters: %s", seed)
		}
	})
}

// Plain and full scripts note it alike.
func TestHighestNumberThatWasGrantedInAnEpochIsKept(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for name, acquire := range map[string]func(*lab, ...string) Call{
		"full": func(l *lab, ids ...string) Call {
			return Acquire(l.space.About("name"), known(9), AcquireParams{TTL: time.Minute, Numbered: true}, tickets(ids...))
		},
		"plain": func(l *lab, ids ...string) Call {
			return PlainAcquire(PlainNumbersAcquireScript, l.space.About("name"), seededKnown, time.Minute, tickets(ids...), nil)
		},
	} {
		l := newLab(t, rdb)
		l.seed("counter 3 | meta declared=9 layout=2 numbered=1 since=7 until=80s plain=9#")
		for _, step := range []struct {
			ids  []string
			want string
		}{{[]string{"me:1#", "me:2#"}, "4 1"}, {[]string{"me:3#"}, "4 2"}} {
			require.NoError(t, l.run(acquire(l, step.ids...)).err)
			assert.Equal(t, step.want, l.snapshot().meta[MetaHighest], name)
		}
		l.ask(Release(l.space.About("name"), known(9), 0, false, tickets("me:1#")), 1)
		require.NoError(t, l.run(acquire(l, "me:4#")).err)
		assert.Equal(t, "4 2", l.snapshot().meta[MetaHighest], name)
	}
}

// Of all grants, those of an old file are not of the new epoch.
func TestGrantsOfAnEpochAreThoseSinceItBegan(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("counter 3 | meta declared=1 layout=2 since=7 until=80s granted=5")
	l.takenOver(1)
	assert.Equal(t, "5", l.snapshot().meta[MetaEarlier])
}

// A holder that was away in such an epoch may have been replaced, also where the one that replaced it need not be restored.
func TestLatestEpochWithAGrantIsKept(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for seed, want := range map[string]string{
		"granted=5 earlier=4":                               "4 3",
		"granted=5 earlier=5":                               "",
		"first=3":                                           "4 3", // without the right to HINCRBY
		"first=4":                                           "",
		"granted=5 earlier=5 granted_in=2_1":                "2 1",
		"granted=5 earlier=4 granted_in=2_1":                "4 3",
		"granted=5 earlier=5 restored=4_1_3":                "3 3",
		"granted=5 earlier=5 granted_in=2_1 restored=3_1_1": "2 1",
	} {
		l := newLab(t, rdb)
		l.seed("counter 3 | meta declared=1 layout=2 since=7 until=80s " + seed)
		l.takenOver(1)
		assert.Equal(t, want, l.snapshot().meta[MetaGrantedIn], seed)
	}
}

// A holder of some units with a lower token has been replaced.
func TestTokenOfThePermitThatHadAllOfSeveralUnitsIsKept(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	const meta = " | meta declared=4 layout=2 since=7 until=80s all_in=3"
	for name, c := range map[string]struct {
		seed string
		ids  []string
		call func(*lab, []*ticket) Call
		by   string // who has all; "": nobody
	}{
		"granted":           {"counter 3" + meta, []string{"me:1*4"}, acquiring(known(4), nil), "me:1"},
		"granted a part":    {"counter 3" + meta, []string{"me:1*3"}, acquiring(known(4), nil), ""},
		"granted to two":    {"counter 3" + meta, []string{"me:1*2", "me:2*2"}, acquiring(known(4), nil), ""},
		"granted to a lock": {"counter 3" + strings.Replace(meta, "=4", "=1", 1), []string{"me:1"}, acquiring(known(1), nil), ""},
		"granted to a waiter": {
			"owner you:1=2 | queue me:1=3 | timeout you:1=20s me:1=20s | counter 3 | weight me:1=4" + meta, []string{"you:1"}, releasing(4, 0), "me:1",
		},
	} {
		l := newLab(t, rdb)
		l.seed(c.seed)
		l.ask(c.call(l, tickets(c.ids...)), len(c.ids))
		want := 3.0
		if c.by != "" {
			token, err := l.rdb.ZScore(background, l.keys[0], c.by).Result()
			require.NoError(t, err)
			want = token
		}
		assert.Equal(t, fmt.Sprintf("%.0f", want), l.snapshot().meta[MetaAllIn], name)
	}
}

// Guards against an old file in which the lease ends before the evicted holder queries: its client would restore it.
func TestEvictionInTheGracePeriodLastsUntilItEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("owner me:1=5 | timeout me:1=20s | counter 6 | meta declared=1 layout=2 since=7 until=80s")
		grace := l.now().Add(time.Minute).UnixMilli()
		require.NoError(t, l.rdb.HSet(background, l.keys[5], "quiet", grace).Err())
		l.ask(evicting("me:1")(l, nil), 1)
		score, err := l.rdb.ZScore(background, l.keys[2], "me:1").Result()
		require.NoError(t, err)
		assert.Equal(t, float64(grace), score)
	})
}

// epochOf returns the epoch in meta, and the time that remains of the grace period.
func (l *lab) epochOf() (epoch int64, grace time.Duration) {
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

// declaring is a declaration by a client that knows the given servers.
func declaring(knows string) Declaration {
	return Declaration{Spec: LimitSpec{Limit: 1}, Since: usedNow, Knows: knows}
}

func (l *lab) acquires(d Declaration) Result {
	l.t.Helper()
	return l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute}, tickets("me:1")), 1).Results[0]
}

// promoted returns a server that replaced its primary.
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
	old, successor := testclient.Settled(t), promoted(t)
	for name, c := range map[string]struct {
		rdb   *redis.Client
		knows func(*lab) string
		want  State
	}{
		"caller knows no server":                                {old, func(*lab) string { return "" }, Held},
		"caller knows this server":                              {old, func(l *lab) string { return someServer + recent + "," + l.identity() + settled }, Held},
		"not if the caller knows only another one":              {old, func(*lab) string { return someServer + settled }, Early},
		"not if the caller has used the name before":            {old, func(*lab) string { return UsedBefore }, Early},
		"caller of a promoted server knows no server":           {successor, func(*lab) string { return "" }, Held},
		"caller knows the promoted server":                      {successor, func(l *lab) string { return someServer + settled + "," + l.identity() + settled }, Held},
		"caller has just met the promoted server, and no other": {successor, func(l *lab) string { return l.identity() + recent }, Held},
		"not if the caller knew the previous primary":           {successor, func(*lab) string { return someServer + settled }, Early},
		"not if the caller had just met the previous primary":   {successor, func(*lab) string { return someServer + recent }, Early},
		"not if the caller has just met both":                   {successor, func(l *lab) string { return someServer + recent + "," + l.identity() + recent }, Early},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, c.rdb)
			assert.Equal(t, c.want, l.acquires(declaring(c.knows(l))).State)
			_, grace := l.epochOf()
			assert.Equal(t, c.want == Early, grace > 0)
		})
	}
}

// Here the grace period is longer than the age of the server.
func TestNewNameOnAYoungServerQueuesCallsUntilTheGracePeriodEnds(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.space.Grace = time.Hour
	d := declaring("")
	early := l.acquires(d)
	assert.Equal(t, Early, early.State)
	_, grace := l.epochOf()
	assert.InDelta(t, grace.Milliseconds(), early.Number, 20_000)
	assert.Greater(t, grace, 50*time.Minute)
	assert.LessOrEqual(t, grace, time.Hour)

	r := l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: 2 * time.Hour, Wait: true}, tickets("me:2", "me:3")), 2)
	assert.Equal(t, []State{Waiting, Waiting}, []State{r.Results[0].State, r.Results[1].State})
	assert.InDelta(t, grace, r.Next, float64(20*time.Second), "they poll again when the grace period ends")
	r = l.ask(Release(l.space.About("name"), d, 0, false, tickets("me:9")), 1)
	assert.Empty(t, r.Grants)

	require.NoError(t, l.rdb.HSet(background, l.keys[5], "quiet", l.now().UnixMilli()).Err())
	r = l.ask(Refresh(l.space.About("name"), d, 2*time.Hour, false, tickets("me:2", "me:3")), 2)
	require.Len(t, r.Grants, 1)
	assert.Equal(t, int64(2), r.Grants[0].Seq)
}

// INFO has the age of a server in whole seconds, and a node of a cluster that was restarted takes part two seconds later. If the grace
// period began earlier, there would be none where it is as short: the holders could not restore the state that the server has lost.
func TestGracePeriodOfANewNameBeginsNoEarlierThanItsServerTakesPart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		start func(*testing.T) *redis.Client
		later time.Duration
	}{
		"single": {func(t *testing.T) *redis.Client { return redistest.NewServer(t).Client() }, 0},
		"cluster": {func(t *testing.T) *redis.Client {
			node, err := redistest.NewCluster(t).Owner("{name}")
			require.NoError(t, err)
			require.NoError(t, node.AwaitAge(4))
			return node.Client()
		}, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			l := newLab(t, c.start(t))
			l.space.Grace = time.Hour
			assert.Equal(t, Early, l.acquires(declaring("")).State)
			until, err := l.rdb.HGet(background, l.keys[5], "quiet").Int64()
			require.NoError(t, err)
			assert.GreaterOrEqual(t, until, began.Add(c.later+time.Hour).UnixMilli())
			assert.LessOrEqual(t, until, l.now().Add(time.Hour).UnixMilli(), "it is no longer than Grace")
		})
	}
}

// A new epoch starts because the name records another server, whatever servers the caller knows.
func TestServerThatTheNameDoesNotRecordStartsANewEpoch(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
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
			l.seed("owner me:1=5 | timeout me:1=20s | counter 6 | meta declared=3 layout=2 since=7 until=80s")
			require.NoError(t, l.rdb.HSet(background, l.keys[5], "server", cmp.Or(c.server, l.identity())).Err())
			d := Declaration{Spec: LimitSpec{Limit: 3}, Since: 7, Knows: l.identity() + settled}
			r := l.ask(Refresh(l.space.About("name"), d, time.Minute, true, tickets("me:1")), 1)
			assert.Equal(t, Held, r.Results[0].State, "a stored holder stays")
			assert.Equal(t, c.begins, r.Epoch != seededEpoch)
			assert.Equal(t, l.identity(), fmt.Sprintf("%012x", r.Server))
			epoch, grace := l.epochOf()
			assert.Equal(t, epoch, r.Epoch)
			assert.Equal(t, c.begins, grace > 0)
			known := l.ask(Refresh(l.space.About("name"), d, time.Minute, true, tickets("me:1")), 1)
			assert.Equal(t, epoch, known.Epoch, "now the name records the server")

			r = l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute}, tickets("me:2")), 1)
			assert.Equal(t, c.begins, r.Results[0].State == Early)
		})
	}
}

// The first call on a new server may be one of an operator.
func TestCallsThatDeclareNothingGrantNothingOnAServerThatTheNameDoesNotRecord(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for name, build := range map[string]func(*lab) Call{
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
			l.seed("owner me:1=5 | queue you:1=6 | timeout me:1=-10s you:1=20s | counter 6 | meta declared=1 layout=2 since=7 until=80s")
			require.NoError(t, l.rdb.HSet(background, l.keys[5], "server", someServer).Err())
			require.NoError(t, l.run(build(l)).err)
			got := l.snapshot()
			require.Len(t, got.queue, 1, "a waiter was granted: %v", got)
			_, grace := l.epochOf()
			assert.Equal(t, name != "status", grace > 0)
		})
	}
}

// A call on an unused name stores nothing.
func TestCallsThatDeclareNothingStartNoEpochOfAnUnusedName(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	require.NoError(t, l.run(l.space.Evict("name", LimitSpec{Limit: 1}, "me:1")).err)
	require.NoError(t, l.run(l.space.Status("name", LimitSpec{Limit: 1}, 0, 0)).err)
	assert.Empty(t, l.snapshot().String())
}

// Whether a missing id was lost depends on the server: so a release compares it before it reports the epoch.
func TestReleaseOfAMissingIDReturnsANewEpochOnAServerThatTheNameDoesNotRecord(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for _, server := range []string{someServer, ""} {
		l := newLab(t, rdb)
		l.seed("owner me:1=5 | timeout me:1=20s | counter 6 | meta declared=3 layout=2 since=7 until=30s")
		require.NoError(t, l.rdb.HSet(background, l.keys[5], "server", cmp.Or(server, l.identity())).Err())
		r := l.ask(Release(l.space.About("name"), known(3), 0, false, tickets("me:2")), 1)
		assert.Equal(t, Gone, r.Results[0].State)
		assert.Equal(t, server == "", r.Epoch == seededEpoch, "%d", r.Epoch)
		assert.NotZero(t, r.Epoch)
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
				l.seed("meta declared=3 layout=2 since=7 until=80s")
				begun := l.now().Add(c.begun)
				require.NoError(t, l.rdb.HSet(background, l.keys[5], "epoch", begun.UnixMicro(), "quiet", begun.Add(time.Minute).UnixMilli()).Err())
				r := l.ask(Acquire(l.space.About("name"), known(3), AcquireParams{TTL: time.Minute}, tickets("me:1")), 1)
				assert.Equal(t, Early, r.Results[0].State, "holders may not be restored yet")
				assert.LessOrEqual(t, r.Results[0].Number, c.most.Milliseconds())
				assert.Equal(t, c.begun > 0, r.Epoch != begun.UnixMicro(), "a new epoch starts")
			})
		}
	})
}

// A client that has used a name has proof that it existed, however old the server is.
func TestQueryOfALostNameStartsTheGracePeriod(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	d := Declaration{Spec: LimitSpec{Limit: 3}, Since: 7, Knows: UsedBefore}
	for name, build := range map[string]func(CallPrefix) Call{
		"refresh": func(s CallPrefix) Call { return Refresh(s, d, time.Minute, true, tickets("me:1")) },
		"reduce":  func(s CallPrefix) Call { return Reduce(s, d, tickets("me:1"), []int64{1}) },
	} {
		l := newLab(t, rdb)
		r := l.ask(build(l.space.About("name")), 1)
		assert.Equal(t, Gone, r.Results[0].State, name)
		_, grace := l.epochOf()
		assert.Greater(t, grace, time.Duration(0), name)
		r = l.ask(Restore(l.space.About("name"), d, time.Minute, tickets("me:1"), Claims{Holders: 1, Epoch: seededEpoch, Numbers: []int64{3}, Units: []int64{1}}), 1)
		assert.Equal(t, Result{State: Held, Number: 3}, r.Results[0])
	}
}

// takenOver begins an epoch, as where another server took over, and returns it with the declaration of a client that used the name before.
func (l *lab) takenOver(limit int64) (d Declaration, epoch int64) {
	l.t.Helper()
	l.set(MetaServer, "000000000000")
	d = known(limit)
	d.Knows = UsedBefore
	return d, l.ask(Refresh[*ticket](l.space.About("name"), d, time.Minute, false, nil), 0).Epoch
}

// S1: the server took over an old state in which me:1 holds; it has become a waiter since, and its unit is another's. Both held.
func TestWaiterThatHeldIsRestoredAsOneWhereTokensAreAheadOfTheClock(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-10 * time.Second, time.Second / 2, 10 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, testclient.Settled(t))
			token := l.now().Add(ahead).UnixMicro()
			l.seed(fmt.Sprintf("owner me:1=%d | timeout me:1=60s | counter %d | meta declared=1 layout=2 since=7 until=80s", token, token))
			d, epoch := l.takenOver(1)
			had := Claims{Holders: 1, Epoch: epoch, Numbers: []int64{token + 2000, token - 5000}, Units: []int64{1, 1}}
			r := l.ask(Restore(l.space.About("name"), d, time.Minute, tickets("you:1", "me:1"), had), 2)
			assert.Equal(t, []State{Held, Waiting}, []State{r.Results[0].State, r.Results[1].State})
			assert.Equal(t, []string{"you:1"}, members(l.snapshot().owner))
		})
	}
}

// Else the grace period would never end for a caller that does not wait in the queue: it leaves nothing in Redis but this.
func TestNameIsKeptUntilItsGracePeriodIsOver(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for _, ttl := range []time.Duration{time.Second, time.Minute} {
			l := newLab(t, rdb)
			l.space.Grace = 5 * time.Minute
			r := l.ask(Acquire(l.space.About("name"), declaring(UsedBefore), AcquireParams{TTL: ttl}, tickets("me:1")), 1).Results[0]
			require.Equal(t, Early, r.State)
			assert.Greater(t, l.snapshot().expiry[5], 5*time.Minute, ttl)
		}
	})
}

// S1, S14. The one that is back cannot be told that another has had its units if the server has forgotten that by then.
func TestHolderIsLostForAsLongAsTheLeaseOfTheOneThatReplacedItWouldHaveLasted(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{27 * time.Second, 55 * time.Second} {
		l := newClockLab(t)
		had := Claims{Holders: 1, Epoch: seededEpoch, Numbers: []int64{l.now().UnixMicro()}, Units: []int64{1}}
		l.pass(time.Second)
		acquired := func(d Declaration) State {
			return l.ask(Acquire(l.as("other"), d, AcquireParams{TTL: time.Minute}, tickets("other:1")), 1).Results[0].State
		}
		require.Equal(t, Early, acquired(declaring(UsedBefore)))
		l.pass(2 * time.Second)
		require.Equal(t, Held, acquired(declaring("")))
		l.ask(Release(l.as("other"), declaring(""), 0, false, tickets("other:1")), 1)
		l.pass(pause)
		r := l.ask(Restore(l.as("me"), declaring(""), time.Minute, tickets("me:1"), had), 1)
		assert.Equal(t, Gone, r.Results[0].State, "%v after the release", pause)
	}
}
