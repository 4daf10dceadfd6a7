package protocol

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/testclient"
)

// A program that may write to the keys or call the scripts may do both in any way. That can cost permits. But no script runs forever,
// which would block the server, and every name works again.

// Guards against an id that is stored once and counted twice: the script then searched for the second one forever.
func TestScriptsEndOnRepeatedUnknownAndForeignIDs(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: testclient.Settled(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	const meta = " | meta declared=%s layout=2 since=7 until=80s"
	for _, seed := range []string{
		"",
		"owner you:1=5 me:1=6 | queue you:2=7 me:2=8 | timeout you:1=20s me:1=20s you:2=20s me:2=20s | counter 8 | weight extra=1 me:1=2 me:2=2" + fmt.Sprintf(meta, "3"),
		"owner you:1=5 me:1=6 | queue you:2=7 me:2=8 | timeout you:1=20s me:1=20s you:2=20s me:2=20s | counter 8" + fmt.Sprintf(meta, "2/60000"),
	} {
		for _, ids := range [][]string{{"me:1", "me:1"}, {"me:2", "me:2"}, {"me:9", "me:9"}, {"me:9*2", "me:8", "me:9*2"}, {"you:1", "you:2"}, {"", "x"}} {
			for _, waits := range []bool{true, false} {
				for _, c := range namingCalls(tickets(ids...), LimitSpec{Limit: 3}, waits) {
					if strings.Contains(seed, "/") {
						c = namingCalls(tickets(ids...), LimitSpec{2, time.Minute}, waits)[slices.Index(namingVerbs, c.verb)]
					}
					l := newLab(t, rdb)
					l.seed(seed)
					did, err := l.measure(c.call(l))
					name := fmt.Sprintf("%s of %v at %q", c.verb, ids, seed)
					assert.Less(t, did.commands, 100, name)
					if err != nil {
						assert.ErrorContains(t, err, "FAIRSEMIDS", name)
					}
					l.mustAddUp(name)
				}
			}
		}
	}
}

// mustAddUp fails if the counted units differ from the held ones.
func (l *lab) mustAddUp(after string) {
	l.t.Helper()
	s := l.snapshot()
	units, extra := len(s.owner), 0
	for _, z := range s.owner {
		weight := 1
		_, _ = fmt.Sscan(s.weight[z.Member.(string)], &weight)
		units += weight - 1
	}
	_, _ = fmt.Sscan(s.weight["extra"], &extra)
	if len(s.owner) > 0 {
		assert.Equal(l.t, units, len(s.owner)+extra, "units after %s", after)
	}
	for _, z := range append(s.owner, s.queue...) {
		assert.True(l.t, slices.ContainsFunc(s.timeout, func(d redis.Z) bool { return d.Member == z.Member }), "%v has no deadline after %s", z.Member, after)
	}
}

// namingCall is a call about ids.
type namingCall struct {
	verb string
	call func(l *lab) Call
}

var namingVerbs = []string{"acquire", "acquire that releases", "release", "tombstone", "refresh", "reduce", "restore holders", "restore waiters"}

func namingCalls(all []*ticket, q LimitSpec, waits bool) (calls []namingCall) {
	d := Declaration{Spec: q, Since: usedNow, Knows: UsedBefore}
	n := len(all)
	t := AcquireParams{TTL: time.Minute, Wait: waits}
	for i, c := range []func(CallPrefix) Call{
		func(s CallPrefix) Call { return Acquire(s, d, t, all) },
		func(s CallPrefix) Call { return Acquire(s, d, t, all, all...) },
		func(s CallPrefix) Call { return Release(s, d, 0, false, all) },
		func(s CallPrefix) Call { return Release(s, d, time.Minute, false, all) },
		func(s CallPrefix) Call { return Refresh(s, d, time.Minute, waits, all) },
		func(s CallPrefix) Call { return Reduce(s, d, all, ones(n)) },
		func(s CallPrefix) Call {
			return Restore(s, d, time.Minute, all, Claims{Holders: n, Epoch: seededEpoch, Numbers: ones(n), Units: ones(n)})
		},
		func(s CallPrefix) Call {
			return Restore(s, d, time.Minute, all, Claims{Epoch: seededEpoch, Numbers: ones(n), Units: ones(n)})
		},
	} {
		calls = append(calls, namingCall{namingVerbs[i], func(l *lab) Call { return c(l.space.About("name")) }})
	}
	return calls
}

// Values that another program may have stored where a number belongs.
var strange = []string{"nan", "-nan", "inf", "-inf", "1e300", "-1", "0", "1.5", "9e15", "9007199254740992", "99999999999999999999", "text", "", "0x10", " 7", "3/0", "3/99999999999999", "0/5", "7", "[[%a.-.-.-x"}

func TestScriptsEndWhateverIsStored(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: testclient.Settled(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	seeds := uint64(100)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		dice := rand.New(rand.NewPCG(seed, 15))
		l := newLab(t, rdb)
		l.storeAnything(dice)
		ids := tickets("me:1", "me:2*3", "you:1")
		calls := namingCalls(ids, LimitSpec{Limit: 3}, dice.IntN(2) == 0)
		if dice.IntN(3) == 0 {
			calls = namingCalls(ids, LimitSpec{3, time.Minute}, dice.IntN(2) == 0)
		}
		all := l.everyCall()
		for _, c := range calls {
			all = append(all, c.call(l))
		}
		dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, c := range all[:6] {
			did, _ := l.measure(l.mistaken(dice, c)) // a call that is wrong may be refused
			require.Less(t, did.commands, most.commands, "seed %d, %s", seed, c.Script.Verb)
			require.Less(t, did.steps, most.steps, "seed %d, %s", seed, c.Script.Verb)
		}
	}
}

// mistaken sometimes replaces an argument of the call by a wrong one.
func (l *lab) mistaken(dice *rand.Rand, c Call) Call {
	if dice.IntN(3) > 0 {
		return c
	}
	c.Args = slices.Clone(c.Args)
	first := 3 + c.Args[2].(int) // after the keys
	c.Args[first+dice.IntN(len(c.Args)-first)] = append(strange, "4294967297", "1000000000")[dice.IntN(len(strange)+2)]
	return c
}

// storeAnything fills the keys with members of this client, of others and of no client, and with invalid numbers.
func (l *lab) storeAnything(dice *rand.Rand) {
	l.t.Helper()
	now := float64(l.now().UnixMilli())
	scores := []float64{now - 1e5, now + 1e5, now * 1000, 5, 0, -1, 1.5, 1e300, math.Inf(1), math.Inf(-1), 1 << 53}
	members := []string{"me:1", "me:2", "you:1", "you:2", ":", "", "::::", "me:", "me:99999999999999999999", "you", "extra"}
	for _, key := range l.keys[:3] {
		for range dice.IntN(8) {
			require.NoError(l.t, l.rdb.ZAdd(background, key, redis.Z{Score: scores[dice.IntN(len(scores))], Member: members[dice.IntN(len(members))]}).Err())
		}
	}
	if dice.IntN(2) == 0 {
		require.NoError(l.t, l.rdb.Set(background, l.keys[3], strange[dice.IntN(len(strange))], time.Minute).Err())
	}
	for range dice.IntN(5) {
		require.NoError(l.t, l.rdb.HSet(background, l.keys[4], members[dice.IntN(len(members))], strange[dice.IntN(len(strange))]).Err())
	}
	for _, field := range MetaFields {
		if dice.IntN(3) == 0 {
			require.NoError(l.t, l.rdb.HSet(background, l.keys[5], field, strange[dice.IntN(len(strange))]).Err())
		}
	}
}

// Guards against 24 MiB of forged grants, which took 380 MiB to read. The largest message of this package is read, whatever the name.
func TestMessageLongerThanTheLongestOfFairsemIsNotRead(t *testing.T) {
	t.Parallel()
	space := Keyspace{Prefix: "fairsem"}
	message := func(n int) string {
		return wakeMessage(space.Keys(strings.Repeat("n", MaxName))[0], MaxUnits, slices.Repeat([]Grant{{Seq: MaxUnits, Position: MaxUnits, Token: MaxUnits, Numbers: []int64{MaxUnits, MaxUnits, MaxUnits, MaxUnits, MaxUnits, MaxUnits, MaxUnits, MaxUnits}}}, n))
	}
	_, _, grants, ok := space.ParseWake(message(MaxIDs + 10))
	assert.True(t, ok)
	assert.Len(t, grants, MaxIDs+10)
	_, _, _, ok = space.ParseWake(message(1000 * MaxIDs))
	assert.False(t, ok)
}

// Guards against pages of entries with the same number that took half a second each.
func TestPageCostsTheSameAmongManyEntriesWithOneNumber(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: testclient.Settled(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	l := newLab(t, rdb)
	const waiters = 20_000
	l.many("queue", "you", waiters, 7, 0)
	for _, id := range []string{"you:1", "you:5000", "you:5000 is gone", "you:999"} {
		did, err := l.measure(l.space.About("name").Page("queue", Bookmark{"7", id}, pageSize))
		require.NoError(t, err)
		assert.Less(t, did.commands, 60)
		assert.Less(t, did.elements, 10*pageSize)
	}
}
