package fairsem

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that may write to the keys or call the scripts may do so in any way. That can cost permits, but no script runs
// for ever, which would block the server for everything else, and no name stays broken.

// Guards against counting an id twice that is stored once: the script then searched for the second one for ever.
func TestScriptsEndOnIDsThatComeTwiceAreUnknownOrAnothers(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: realRedis(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	const meta = " | meta declared=%s layout=1 since=7 until=80s"
	for _, seed := range []string{
		"",
		"owner you:1=5 me:1=6 | queue you:2=7 me:2=8 | timeout you:1=20s me:1=20s you:2=20s me:2=20s | counter 8 | weight extra=1 me:1=2 me:2=2" + fmt.Sprintf(meta, "3"),
		"owner you:1=5 me:1=6 | queue you:2=7 me:2=8 | timeout you:1=20s me:1=20s you:2=20s me:2=20s | counter 8" + fmt.Sprintf(meta, "2/60000"),
	} {
		for _, ids := range [][]string{{"me:1", "me:1"}, {"me:2", "me:2"}, {"me:9", "me:9"}, {"me:9*2", "me:8", "me:9*2"}, {"you:1", "you:2"}, {"", "x"}} {
			for _, waits := range []bool{true, false} {
				for _, c := range namingCalls(tickets(ids...), limitSpec{limit: 3}, waits) {
					if strings.Contains(seed, "/") {
						c = namingCalls(tickets(ids...), limitSpec{2, time.Minute}, waits)[slices.Index(namingVerbs, c.verb)]
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

// mustAddUp fails if the units that are counted are not those that are held.
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
	call func(l *lab) call
}

var namingVerbs = []string{"acquire", "acquire that gives back", "release", "tombstone", "refresh", "reduce", "restore holders", "restore waiters"}

func namingCalls(all []*ticket, q limitSpec, waits bool) (calls []namingCall) {
	d := declaration{q, usedNow, usedBefore}
	n := len(all)
	t := acquireParams{ttl: time.Minute, wait: waits}
	for i, c := range []func(callPrefix) call{
		func(s callPrefix) call { return s.acquire(d, t, all) },
		func(s callPrefix) call { return s.acquire(d, t, all, all...) },
		func(s callPrefix) call { return s.release(d, 0, all) },
		func(s callPrefix) call { return s.release(d, time.Minute, all) },
		func(s callPrefix) call { return s.refresh(d, time.Minute, waits, all) },
		func(s callPrefix) call { return s.reduce(d, all, ones(n)) },
		func(s callPrefix) call {
			return s.restore(d, time.Minute, all, claims{n, seededEpoch, ones(n), ones(n)})
		},
		func(s callPrefix) call {
			return s.restore(d, time.Minute, all, claims{0, seededEpoch, ones(n), ones(n)})
		},
	} {
		calls = append(calls, namingCall{namingVerbs[i], func(l *lab) call { return c(l.space.about("name")) }})
	}
	return calls
}

// Values that another program may have stored where a number belongs.
var strange = []string{"nan", "-nan", "inf", "-inf", "1e300", "-1", "0", "1.5", "9e15", "9007199254740992", "99999999999999999999", "text", "", "0x10", " 7", "3/0", "3/99999999999999", "0/5", "7", "[[%a.-.-.-x"}

func TestScriptsEndWhateverIsStored(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: realRedis(t).Options().Addr, Protocol: 2})
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
		calls := namingCalls(ids, limitSpec{limit: 3}, dice.IntN(2) == 0)
		if dice.IntN(3) == 0 {
			calls = namingCalls(ids, limitSpec{3, time.Minute}, dice.IntN(2) == 0)
		}
		all := l.everyCall()
		for _, c := range calls {
			all = append(all, c.call(l))
		}
		dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, c := range all[:6] {
			did, err := l.measure(l.mistaken(dice, c))
			require.NotErrorIs(t, err, errEndless, "seed %d, %s", seed, c.script.verb)
			require.Less(t, did.commands, most.commands, "seed %d, %s", seed, c.script.verb)
			require.Less(t, did.steps, most.steps, "seed %d, %s", seed, c.script.verb)
		}
	}
}

// mistaken sometimes replaces an argument of the call by a wrong one.
func (l *lab) mistaken(dice *rand.Rand, c call) call {
	if dice.IntN(3) > 0 {
		return c
	}
	c.args = slices.Clone(c.args)
	first := 3 + c.args[2].(int) // after the keys
	c.args[first+dice.IntN(len(c.args)-first)] = append(strange, "4294967297", "1000000000")[dice.IntN(len(strange)+2)]
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
	for _, field := range metaFields {
		if dice.IntN(3) == 0 {
			require.NoError(l.t, l.rdb.HSet(background, l.keys[5], field, strange[dice.IntN(len(strange))]).Err())
		}
	}
}

// The largest time that counts as one is below what two comparisons took for it: a name kept a limit of 0 for ever.
func TestNameWorksAgainWhateverLimitWasDeclaredAtTheEndOfTime(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for _, since := range []int64{1<<52 - 1, 1 << 52, 1<<52 + 1, maxUnits} {
			l := newLab(t, rdb)
			l.seed(fmt.Sprintf("meta declared=0 layout=1 since=%d", since))
			c, err := New(rdb, Options{Prefix: l.space.prefix})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
			s, err := c.Semaphore("name", 2)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				p, err := s.TryAcquire(t.Context(), 1)
				return err == nil && p.Release(t.Context()) == nil
			}, time.Minute, 10*time.Millisecond, "since %d", since)
		}
	})
}

var metaFields = []string{"declared", "since", "pinned", "until", "epoch", "quiet", "server", "granted", "lapsed", "ahead", "pinned_at", "marked_at", "marked", "before_at", "before"}

// Such a name failed for ever, or its client polled about 6,000 times a second.
func TestNameWorksAgainWhateverIsInItsMeta(t *testing.T) {
	t.Parallel()
	rdb := realRedis(t)
	addr := rdb.Options().Addr
	future := fmt.Sprint(time.Now().AddDate(500, 0, 0).UnixMicro())
	for _, field := range metaFields {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			calls := &CountedCalls{}
			own := redis.NewClient(&redis.Options{Addr: addr}) // go-redis writes to its options with each connection
			t.Cleanup(func() { assert.NoError(t, own.Close()) })
			own.AddHook(calls)
			c, err := New(own, Options{Prefix: "fairsem-test-" + uuid.NewString()})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
			for i, value := range append(strange, future) {
				if field == "pinned" && value == "0" {
					continue // a pause
				}
				name := fmt.Sprint("name", i)
				s, err := c.Semaphore(name, 2)
				require.NoError(t, err)
				key := c.keyspace.keys(name)[5]
				require.NoError(t, rdb.HSet(background, key, field, value).Err())
				require.NoError(t, rdb.Expire(background, key, time.Minute).Err())
				calls.Store(0)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // exceeded only if the name is broken
				defer cancel()
				p, err := s.Acquire(ctx, 1)
				require.NoError(t, err, "%q", value)
				_, err = s.Status(ctx)
				require.NoError(t, err, "%q", value)
				for _, err := range s.Holders(ctx) {
					require.NoError(t, err, "%q", value)
				}
				require.NoError(t, p.Release(ctx), "%q", value)
				assert.Less(t, calls.Load(), int64(30), "calls for %q", value)
			}
		})
	}
}

// A program that may PUBLISH can send messages before the true one, and after it.
func TestForgedMessageDoesNotDisplaceATrueOneThatCameEarly(t *testing.T) {
	forged, genuine := grant{1, 99, 60}, grant{1, 5, 50}
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		c.woken("a", 1, []grant{genuine})
		c.woken("a", 1, []grant{forged})
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(stateWaiting), 5)
		assert.Equal(t, int64(50), a.tokenNow())
	})
}

func TestMessageBehindAForgedOneIsMadeUpForByAQuestion(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		c.woken("a", 1, []grant{{1, 99, 60}})
		c.woken("a", 1, []grant{{1, 5, 50}})
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(stateWaiting), 5)
		assert.Zero(t, a.tokenNow())
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(stateHeld), 50)
		assert.Equal(t, int64(50), a.tokenNow())
	})
}

// 24 MiB of forged grants took 380 MiB to read. The largest message of this package is read, whatever the name.
func TestMessageLongerThanAnyOfOursIsNotRead(t *testing.T) {
	t.Parallel()
	space := keyspace{prefix: "fairsem"}
	message := func(n int) string {
		return wakeMessage(space.keys(strings.Repeat("n", maxName))[0], maxUnits, slices.Repeat([]grant{{maxUnits, maxUnits, maxUnits}}, n))
	}
	_, _, grants, ok := space.parseWake(message(maxIDs + 10))
	assert.True(t, ok)
	assert.Len(t, grants, maxIDs+10)
	_, _, _, ok = space.parseWake(message(1000 * maxIDs))
	assert.False(t, ok)
}

// Listing never ended with numbers beyond an int64, and left out entries with numbers below 1.
func TestEverythingThatIsStoredIsListed(t *testing.T) {
	t.Parallel()
	rdb := realRedis(t)
	l := newLab(t, rdb)
	c, err := New(rdb, Options{Prefix: l.space.prefix})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	s, err := c.Semaphore("name", 1)
	require.NoError(t, err)
	var stored []string
	add := func(score float64, id string) {
		stored = append(stored, id)
		require.NoError(t, rdb.ZAdd(background, l.keys[0], redis.Z{Score: score, Member: id}).Err())
	}
	for i, score := range []float64{math.Inf(-1), -1e300, -5, 0, 0.5, 7, 1 << 53, 1e19, 1e300, math.Inf(1)} {
		for n := range 3 * pageSize / 10 {
			add(score, fmt.Sprintf("%02d:%04d", i, n))
		}
	}
	add(math.Inf(1), "99:"+strings.Repeat("x", 1<<20)) // fills a page
	add(math.Inf(1), "99:"+strings.Repeat("x", 1<<20)+"y")
	var listed []string
	for ticket, err := range s.Holders(t.Context()) {
		require.NoError(t, err)
		require.LessOrEqual(t, len(listed), len(stored), "the walk does not end")
		listed = append(listed, ticket.ID)
		require.GreaterOrEqual(t, ticket.Token, int64(0))
	}
	assert.Equal(t, stored, listed)
}

// Pages of entries with the same number took half a second each.
func TestPageCostsAsMuchAmongManyOfOnePlace(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: realRedis(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	l := newLab(t, rdb)
	const crowd = 20_000
	l.many("queue", "you", crowd, 7, 0)
	for _, id := range []string{"you:1", "you:5000", "you:5000 is gone", "you:999"} {
		did, err := l.measure(l.space.about("name").page("queue", bookmark{"7", id}, pageSize))
		require.NoError(t, err)
		assert.Less(t, did.commands, 60)
		assert.Less(t, did.elements, 10*pageSize)
	}
}
