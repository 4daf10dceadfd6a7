package doctor

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// broken is a name whose keys a test spoils.
type broken struct {
	t            *testing.T
	rdb          *redis.Client
	p            *target
	name         string
	light, heavy string // the holders of 1 and 3 of 5 units
	now          time.Time
}

func (b *broken) key(kind string) string { return b.p.space().Key(b.name, kind) }

func (b *broken) do(args ...any) {
	b.t.Helper()
	require.NoError(b.t, b.rdb.Do(b.t.Context(), args...).Err())
}

// after is so long after now, as a deadline.
func (b *broken) after(d time.Duration) int64 { return b.now.Add(d).UnixMilli() }

func TestEveryFaultOfASemaphoreIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	for what, c := range map[string]struct {
		spoil   func(*broken)
		problem string
		want    State
		says    string
	}{
		"more than the limit": {func(b *broken) {
			b.do("ZADD", b.key("timeout"), b.after(time.Minute), "forged:1")
			b.do("HSET", b.key("weight"), "forged:1", 7, "extra", 8)
			b.do("ZADD", b.key("owner"), b.now.UnixMicro(), "forged:1")
			b.do("SET", b.key("counter"), b.now.UnixMicro(), "KEEPTTL")
		}, "over", Warn, "11 units in use, the limit is 5"},
		"a deadline too far away": {func(b *broken) {
			b.do("ZADD", b.key("timeout"), b.after(48*time.Hour), "orphan:1")
		}, "far", Fail, `leases that end too far in the future: 1, the first of orphan:1`},
		"a deadline long over": {func(b *broken) {
			b.do("ZADD", b.key("timeout"), b.after(-time.Minute), "orphan:1")
		}, "late", Warn, `leases that ended more than 20s ago and are still stored: 1, the first of orphan:1`},
		"holds and waits": {func(b *broken) {
			b.do("ZADD", b.key("queue"), b.now.UnixMicro(), b.light)
		}, "twice", Fail, "ids that are both holder and waiter: 1"},
		"holds without a deadline": {func(b *broken) {
			b.do("ZREM", b.key("timeout"), b.heavy)
		}, "deadline", Fail, "holders or waiters without a deadline, which never expire: 1"},
		"a key for ever": {func(b *broken) {
			b.do("PERSIST", b.key("owner"))
		}, "immortal", Fail, "wrote them: owner"},
		"meta for ever": {func(b *broken) {
			b.do("PERSIST", b.key("meta"))
		}, "immortal", Fail, "wrote them: meta"},
		"a key that ends early": {func(b *broken) {
			b.do("PEXPIRE", b.key("queue"), 600_000)
		}, "expiry", Fail, "would lose its holder: queue"},
		"another type": {func(b *broken) {
			b.do("DEL", b.key("weight"))
			b.do("SET", b.key("weight"), "x", "EX", 100)
		}, "type", Fail, "so every call fails: weight"},
		"two other types": {func(b *broken) {
			b.do("DEL", b.key("owner"), b.key("counter"))
			b.do("SET", b.key("owner"), "x", "EX", 100)
			b.do("LPUSH", b.key("counter"), "x")
		}, "type", Fail, "so every call fails: owner, counter"},
		"too little is counted": {func(b *broken) {
			b.do("HDEL", b.key("weight"), "extra")
		}, "extra", Fail, "4 units in use are counted as 2"},
		"too much is counted": {func(b *broken) {
			b.do("HSET", b.key("weight"), "extra", 9)
		}, "extra", Warn, "4 units in use are counted as 11"},
		"a weight of nobody": {func(b *broken) {
			b.do("HSET", b.key("weight"), "ghost:1", 3)
		}, "weight", Warn, "weights without a holder or a waiter: 1"},
		"a newer layout": {func(b *broken) {
			b.do("HSET", b.key("meta"), "layout", protocol.Layout+1)
		}, "layout", Fail, fmt.Sprintf(`its layout is "%d", of a newer version of fairsem; this one uses layout %d`, protocol.Layout+1, protocol.Layout)},
		"an older layout": {func(b *broken) {
			b.do("HSET", b.key("meta"), "layout", 1)
		}, "layout", Fail, fmt.Sprintf(`its layout is "1", of an older version of fairsem; this one uses layout %d`, protocol.Layout)},
		"no layout at all": {func(b *broken) {
			b.do("HSET", b.key("meta"), "layout", "x\x1b[31m")
		}, "layout", Fail, `its layout is "x\x1b[31m", which no version of fairsem writes`},
		"no meta": {func(b *broken) {
			b.do("DEL", b.key("meta"))
		}, "orphan", Fail, "it has owner, queue, timeout, counter, weight but no meta"},
		"a counter that fell back": {func(b *broken) {
			b.do("SET", b.key("counter"), 5, "KEEPTTL")
		}, "counter", Warn, "its counter is behind the newest token"},
		"a limit that is none": {func(b *broken) {
			b.do("HSET", b.key("meta"), "declared", "many")
		}, "limit", Fail, `invalid limit "many"`},
		"a limit by hand that is none": {func(b *broken) { // it read "5abc", and was a failure
			b.do("HSET", b.key("meta"), "pinned", "abc")
		}, "limit", Warn, `invalid limit "abc", set by hand, which every call ignores`},
		"a limit by hand below 0": {func(b *broken) {
			b.do("HSET", b.key("meta"), "pinned", -1)
		}, "limit", Warn, `invalid limit "-1", set by hand, which every call ignores`},
		"a limit by hand that is none, and no end": {func(b *broken) {
			b.do("HSET", b.key("meta"), "pinned", "")
			b.do("PERSIST", b.key("meta"))
		}, "immortal", Fail, "wrote them: meta"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := meet(t, "redis://"+s.Addr(), usual())
			b := &broken{t: t, rdb: s.Client(), p: p, name: what + " \x1b[31m\n\u202e}:owner"}
			b.light, b.heavy = occupy(t, b.rdb, p.Prefix, b.name)
			b.now = time.Now()
			occupy(t, b.rdb, p.Prefix, "beside")
			require.Len(t, p.runs(t, "semaphores"), 1)

			var all []Finding
			require.Eventually(t, func() bool { // a living client queries its entries once, which repairs some of them
				c.spoil(b)
				all = p.runs(t, "semaphores")
				return len(all) == 2
			}, time.Minute, 10*time.Millisecond)
			assert.Equal(t, c.problem, all[1].Details["problem"], all[1].Message)
			assert.Equal(t, c.want, all[1].State)
			assert.Equal(t, b.name, all[1].Details["name"])
			assert.Contains(t, all[1].Message, c.says)
			assert.NotEmpty(t, all[1].Advice)

			var out bytes.Buffer
			Page{Out: &out}.Show(all[1])
			assert.Equal(t, 2, strings.Count(out.String(), "\n"), "one line, and what to do")
			assert.NotContains(t, out.String(), "\x1b")
			assert.NotContains(t, out.String(), "\u202e")
		})
	}
}

// It said that the next renewal corrects it. That may come only after the key has expired, and the holder was lost.
func TestAKeyThatEndsEarlyIsKeptByPersistUntilTheExpiryOfTheKeysIsSetAgain(t *testing.T) {
	t.Parallel()
	const lease, linger = time.Hour, 10 * time.Second
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	client, err := fairsem.New(s.Client(), fairsem.Options{Prefix: p.Prefix, TTL: lease, Grace: time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	sem, err := client.Semaphore("n", 5)
	require.NoError(t, err)
	grant := func() *fairsem.Permit {
		permit, err := sem.Acquire(t.Context(), 1)
		require.NoError(t, err)
		return permit
	}
	held := grant()
	b := &broken{t: t, rdb: s.Client(), p: p, name: "n"}
	b.do("PEXPIRE", b.key("owner"), (lease / 2).Milliseconds())
	require.NoError(t, grant().Release(t.Context()))
	early := one(t, p.runs(t, "semaphores")[1:])
	assert.Equal(t, "expiry", early.Details["problem"], "a call does not correct it")
	assert.Contains(t, early.Advice, "redis-cli PERSIST them now")
	assert.Contains(t, early.Advice, "within 10 s and the longest TTL")

	b.do("PERSIST", b.key("owner"))
	kept := one(t, p.runs(t, "semaphores")[1:])
	assert.Equal(t, "immortal", kept.Details["problem"])
	assert.Contains(t, kept.Advice, "within 10 s and the longest TTL")

	b.do("HSET", b.key("meta"), "until", time.Now().Add(lease+linger).UnixMilli()-1) // as after 10 s
	require.NoError(t, grant().Release(t.Context()))
	require.Len(t, p.runs(t, "semaphores"), 1, "all is well again")
	require.NoError(t, held.Release(t.Context()))
}

// Evict leaves the deadline as a tombstone, so the fault stayed for users who did only that.
func TestADeadlineTooFarAwayIsGoneAfterBothStepsOfItsAdvice(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	b := &broken{t: t, rdb: s.Client(), p: p, name: "n", now: time.Now()}
	b.do("HSET", b.key("meta"), "layout", protocol.Layout, "declared", 5, "since", 1)
	b.do("ZADD", b.key("owner"), b.now.UnixMicro(), "a:1")
	b.do("ZADD", b.key("timeout"), b.after(48*time.Hour), "a:1")
	for _, kind := range protocol.Kinds {
		b.do("PEXPIRE", b.key(kind), (49 * time.Hour).Milliseconds())
	}
	client, err := fairsem.New(s.Client(), fairsem.Options{Prefix: p.Prefix, Grace: time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	sem, err := client.Semaphore("n", 5)
	require.NoError(t, err)

	held := one(t, p.runs(t, "semaphores")[1:])
	assert.Equal(t, "far", held.Details["problem"])
	assert.Contains(t, held.Advice, "fairsem evict NAME ID, if it holds or waits, and then ZREM it from the timeout key")
	require.NoError(t, sem.Evict(t.Context(), "a:1"))
	assert.Equal(t, "far", one(t, p.runs(t, "semaphores")[1:]).Details["problem"], "it is a tombstone now")
	b.do("ZREM", b.key("timeout"), "a:1")
	assert.Len(t, p.runs(t, "semaphores"), 1)
}

func TestNamesOfOtherVersionsAreCountedAndTheirDrainIsExplained(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	for i, layout := range []int{1, 1, protocol.Layout, protocol.Layout + 1} {
		b := &broken{t: t, rdb: s.Client(), p: p, name: fmt.Sprint("name ", i)}
		b.do("HSET", b.key("meta"), "layout", layout, "declared", 1)
		b.do("ZADD", b.key("owner"), 1, "a:1") // without a deadline, and more than the limit: in another layout that may be right
		b.do("ZADD", b.key("owner"), 2, "a:2")
		for _, kind := range protocol.Kinds {
			b.do("PEXPIRE", b.key(kind), 3_600_000)
		}
	}
	all := p.runs(t, "semaphores")
	assert.Contains(t, all[0].Message, "4 names, 8 permits, 0 waiting; 3 names stored by another version of fairsem")
	assert.EqualValues(t, 3, all[0].Details["other_layouts"])
	found := make(map[string]int)
	for _, f := range all[1:] {
		found[fmt.Sprint(f.Details["name"], " ", f.Details["problem"])]++
		if f.Details["problem"] == "layout" {
			assert.Equal(t, Fail, f.State)
			assert.Contains(t, f.Advice, "its keys expire 40 s later")
			assert.Contains(t, f.Advice, "redis-cli DEL 'PREFIX:{NAME}:'{owner,queue,timeout,counter,weight,meta,lanes,turns,tenants,numbers}")
		}
	}
	assert.Equal(t, map[string]int{"name 0 layout": 1, "name 1 layout": 1, "name 3 layout": 1, "name 2 deadline": 1, "name 2 over": 1}, found)
}

// Nothing is granted where a limit was lowered, so a new permit proves that something is wrong.
func TestGrantsAboveTheLimitAreAFailure(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	b := &broken{t: t, rdb: s.Client(), p: p, name: "n", now: time.Now()}
	occupy(t, b.rdb, p.Prefix, b.name)
	ctx, stop := context.WithCancel(t.Context())
	var forger sync.WaitGroup
	forger.Go(func() { // ends with stop
		for i := 0; ctx.Err() == nil; i++ {
			id := fmt.Sprint("forged:", i)
			b.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error { //nolint:errcheck // the last one fails
				tx.ZAdd(ctx, b.key("timeout"), redis.Z{Score: float64(b.after(time.Minute)), Member: id})
				return tx.ZAdd(ctx, b.key("owner"), redis.Z{Score: float64(time.Now().UnixMicro()), Member: id}).Err()
			})
		}
	})
	require.Eventually(t, func() bool { return b.rdb.ZCard(t.Context(), b.key("owner")).Val() > 10 }, time.Minute, time.Millisecond)
	all := p.runs(t, "semaphores")
	stop()
	forger.Wait()
	i := slices.IndexFunc(all, func(f Finding) bool { return f.Details["problem"] == "over" })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, Fail, all[i].State)
	assert.Contains(t, all[i].Message, "more were granted just now")
}

func TestALimitThatWasPinnedOrLoweredIsNoFailure(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	occupy(t, s.Client(), p.Prefix, "n")
	client, err := fairsem.New(s.Client(), fairsem.Options{Prefix: p.Prefix})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	require.NoError(t, sem.SetLimit(t.Context(), 4)) // the units in use
	require.Len(t, p.runs(t, "semaphores"), 1, "meta may be for ever now")
	require.NoError(t, sem.SetLimit(t.Context(), 0))
	all := p.runs(t, "semaphores")
	require.Len(t, all, 2)
	assert.Equal(t, Warn, all[1].State)
	assert.Contains(t, all[1].Message, "4 units in use, the limit is 0, set by hand")
	assert.Contains(t, all[1].Advice, "fairsem resume")
	require.NoError(t, sem.SetLimit(t.Context(), 5))
	require.NoError(t, sem.ResetLimit(t.Context()))
	require.Len(t, p.runs(t, "semaphores"), 1)

	require.NoError(t, s.Client().HSet(t.Context(), p.space().Key("n", protocol.Meta), "declared", "3").Err())
	assert.Contains(t, one(t, p.runs(t, "semaphores")[1:]).Message, "4 units in use, the limit is 3: it was lowered")
}

func TestWhatIsGivenBackMeanwhileIsNotTold(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	occupy(t, s.Client(), p.Prefix, "n")
	f, err := p.query(t.Context(), "n", 0)
	require.NoError(t, err)
	f.units = 9
	require.True(t, f.over())
	found, err := p.judgeOver(t.Context(), "n", f)
	require.NoError(t, err)
	assert.Empty(t, found)
}

// Grants of a rate are never released, and no call needs to remove them when they expire.
func TestGrantsOfRatesMayExpireLaterThanAnyLeaseAndUnnoticed(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	client, err := fairsem.New(s.Client(), fairsem.Options{Prefix: p.Prefix, Grace: time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	limiter, err := client.Limiter("n", 5, 72*time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 2))
	b := &broken{t: t, rdb: s.Client(), p: p, name: "n"}
	assert.Contains(t, one(t, p.runs(t, "semaphores")).Message, "1 name, 1 permit")
	b.do("ZADD", b.key("timeout"), time.Now().Add(-time.Hour).UnixMilli(), "lapsed:1")
	b.do("ZADD", b.key("owner"), 1, "lapsed:1")
	assert.Contains(t, one(t, p.runs(t, "semaphores")).Message, "1 name, 1 permit")
}

// store stores a rate of 5 a minute, holders and waiters, and the weights that are not 1.
func (b *broken) store(holders, waiters map[string]time.Duration, weights map[string]int64) {
	b.t.Helper()
	ctx, pipe, extra := b.t.Context(), b.rdb.Pipeline(), int64(0)
	pipe.HSet(ctx, b.key(protocol.Meta), "layout", protocol.Layout, "declared", "5/60000", "since", 1)
	for key, ids := range map[string]map[string]time.Duration{protocol.Owner: holders, protocol.Queue: waiters} {
		for id, left := range ids {
			pipe.ZAdd(ctx, b.key(key), redis.Z{Score: float64(b.now.UnixMicro()), Member: id})
			pipe.ZAdd(ctx, b.key(protocol.Timeout), redis.Z{Score: float64(b.after(left)), Member: id})
		}
	}
	for id, units := range weights {
		pipe.HSet(ctx, b.key(protocol.Weight), id, units)
		if _, held := holders[id]; held {
			extra += units - 1
		}
	}
	if extra > 0 {
		pipe.HSet(ctx, b.key(protocol.Weight), protocol.WeightExtra, extra)
	}
	pipe.Set(ctx, b.key(protocol.Counter), b.now.UnixMicro(), 0)
	for _, kind := range protocol.Kinds {
		pipe.PExpire(ctx, b.key(kind), 2*time.Hour)
	}
	_, err := pipe.Exec(ctx)
	require.NoError(b.t, err)
}

// Expired entries were counted as in use, with a warning that nothing is granted where the next call is.
func TestWhatHasExpiredIsNotInUse(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	many := map[string]time.Duration{"a:1": time.Hour, "a:2": time.Hour}
	const uncompared = "; the sums of 1 name were not compared, because more than 1000 hold or wait there"
	for i := range 2*idsPerQuery + 1 {
		many[fmt.Sprint("b:", i)] = -time.Second
	}
	for what, c := range map[string]struct {
		holders, waiters map[string]time.Duration
		weights          map[string]int64
		sum, over        string
	}{
		"some": {
			map[string]time.Duration{"a:1": time.Hour, "a:2": -time.Second}, map[string]time.Duration{"a:3": time.Hour, "a:4": -time.Second},
			map[string]int64{"a:1": 3, "a:2": 7, "a:4": 2}, "1 name, 1 permit, 1 waiting: all are consistent", "",
		},
		"all":                    {map[string]time.Duration{"a:1": -time.Second}, nil, map[string]int64{"a:1": 6}, "1 name, 0 permits, 0 waiting: all are consistent", ""},
		"more than a query read": {many, nil, nil, "1 name, 2 permits, 0 waiting" + uncompared, ""},
		"some, and too much is left": {
			map[string]time.Duration{"a:1": time.Hour, "a:2": -time.Second}, nil,
			map[string]int64{"a:1": 6, "a:2": 7}, "1 name, 1 permit, 0 waiting", "6 units in use, the limit is 5",
		},
		"more than a query read, and too much is left": {many, nil, map[string]int64{"a:1": 6}, "1 name, 2 permits, 0 waiting" + uncompared, "7 units in use, the limit is 5"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := meet(t, "redis://"+s.Addr(), usual())
			b := &broken{t: t, rdb: s.Client(), p: p, name: "n", now: time.Now()}
			b.store(c.holders, c.waiters, c.weights)
			all := p.runs(t, "semaphores")
			assert.Equal(t, c.sum, all[0].Message)
			if c.over == "" {
				assert.Len(t, all, 1, "%v", all)
				return
			}
			assert.Contains(t, one(t, all[1:]).Message, c.over)
		})
	}
}

// Of a line of any length every id is looked at, some at a time.
func TestIdsFarBackInALongLineAreLookedAt(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	b := &broken{t: t, rdb: s.Client(), p: p, name: "long", now: time.Now()}
	occupy(t, b.rdb, p.Prefix, b.name) // its waiter comes first and does not fit: no query of its client grants anything to others
	const waiters = 3 * idsPerQuery
	pipe := b.rdb.Pipeline()
	for i := range waiters {
		id := fmt.Sprintf("w:%d", i)
		pipe.ZAdd(t.Context(), b.key("queue"), redis.Z{Score: float64(b.now.Add(time.Minute).UnixMicro() + int64(i)), Member: id})
		pipe.ZAdd(t.Context(), b.key("timeout"), redis.Z{Score: float64(b.after(time.Minute)), Member: id})
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	sum := one(t, p.runs(t, "semaphores"))
	assert.EqualValues(t, waiters+1, sum.Details["waiting"])
	b.do("ZREM", b.key("timeout"), fmt.Sprintf("w:%d", waiters-5))
	all := p.runs(t, "semaphores")
	require.Len(t, all, 2)
	assert.Equal(t, []string{fmt.Sprintf("w:%d", waiters-5)}, all[1].Details["ids"])
	assert.Positive(t, facts{waiting: maxQueries*idsPerQuery + 1}.unchecked())
}

// said is an error that a server replied with.
type said string

func (s said) Error() string { return string(s) }
func (s said) RedisError()   {}

func TestManyBrokenNamesAreToldInAFewLines(t *testing.T) {
	t.Parallel()
	var all tally
	for i := range mostBad + 50 {
		all.add(facts{}, about(fmt.Sprintf("name %03d", i), fail("is broken", "mend it")), nil)
	}
	all.add(facts{}, nil, said("TRYAGAIN"))
	found := all.findings()
	require.Len(t, found, 1+1+mostBad+1)
	assert.Equal(t, Skip, found[1].State)
	assert.Equal(t, "and 50 more like these", found[len(found)-1].Message)
	assert.Equal(t, Fail, found[len(found)-1].State)
}

func TestOnlyKeysOfTheLibraryAreNames(t *testing.T) {
	t.Parallel()
	p := &target{Options: Options{Prefix: "p"}}
	for key, want := range map[string]string{
		"p:{n}:owner":       "n",
		"p:{a}:b}:owner":    "a}:b",
		"p:{n}:meta":        "n",
		"p:{n}:other":       "",
		"p:{}:owner":        "",
		"p:{}x}:owner":      "",
		"q:{n}:owner":       "",
		"p:x:{n}:owner":     "",
		"p:client:1":        "",
		"p:{n}:owner:owner": "",
		"p:{" + strings.Repeat("n", 513) + "}:owner": "",
	} {
		name, is := p.nameOf(key)
		assert.Equal(t, want, name, key)
		assert.Equal(t, want != "", is, key)
	}
}

func TestRepliesThatTheScriptDoesNotMakeAreErrors(t *testing.T) {
	t.Parallel()
	for _, raw := range [][]any{nil, {}, {"1"}, {"1", []any{}}, {"1", []any{int64(0)}}, {"1", []any{"owner"}}, {"1", []any{int64(len(protocol.Kinds) + 1)}}, {"1", []any{}, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}} {
		_, err := decode(raw)
		assert.ErrorIs(t, err, errReply, "%v", raw)
	}
}

// Whatever goes on, each look is of one moment, at which everything has to be in order.
func TestBusySemaphoresRaiseNoAlarm(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	o := usual()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var traffic sync.WaitGroup
	for i, ttl := range []time.Duration{300 * time.Millisecond, 3 * time.Second, time.Hour} {
		client, err := fairsem.New(s.Client(), fairsem.Options{Prefix: o.Prefix, TTL: ttl, Grace: time.Millisecond})
		require.NoError(t, err)
		for j := range 6 {
			traffic.Go(func() { // ends with stop
				for ctx.Err() == nil {
					use(ctx, client, (i+j)%3)
				}
			})
		}
		defer func() { _ = client.Close() }() // its permits expire
	}
	p := meet(t, "redis://"+s.Addr(), o)
	seen, waited := 0, 0
	for began := time.Now(); time.Since(began) < 2*time.Second || seen < 30; seen++ {
		all := p.runs(t, "semaphores")
		require.Len(t, all, 1, "%v", all)
		waited += int(all[0].Details["waiting"].(int64))
	}
	stop()
	traffic.Wait()
	assert.Positive(t, waited)
}

// use does one of the things that people do with a name.
func use(ctx context.Context, client *fairsem.Client, name int) {
	sem, err := client.Semaphore(fmt.Sprint("name ", name), 5)
	if err != nil {
		return
	}
	switch n := rand.N(20); {
	case n == 0:
		limiter, err := client.Limiter(fmt.Sprint("rate ", name), 5, 1+rand.N(100*time.Millisecond))
		if err == nil {
			_, _ = limiter.Allow(ctx, 1+rand.N(int64(3))) // whatever it says
		}
	case n == 1:
		_ = sem.SetLimit(ctx, 9) // up: down is a reason for an alarm
	case n == 2:
		for holder, err := range sem.Holders(ctx) {
			if err == nil {
				_ = sem.Evict(ctx, holder.ID)
			}
			break
		}
	case n < 6:
		short, cancel := context.WithTimeout(ctx, rand.N(2*time.Millisecond))
		defer cancel()
		if permit, err := sem.Acquire(short, 1+rand.N(int64(5))); err == nil {
			_ = permit.Release(ctx)
		}
	default:
		account := fairsem.CallOptions{HeadStart: rand.N(time.Second)}
		if name == 0 { // which tenants share
			account.Tenant, account.Share, account.TenantLimit = fmt.Sprint("tenant ", rand.N(4)), 1+rand.N(int64(3)), 3+rand.N(int64(2))
		}
		account.Numbered = name == 1
		if permit, err := sem.With(account).Acquire(ctx, 1+rand.N(int64(3))); err == nil {
			_ = permit.Release(ctx)
		}
	}
}
