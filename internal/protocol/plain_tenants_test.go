package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/testclient"
)

// The random walk in tenants_test.go compares the plain scripts with the policy. These are the cases that it does not reach.

// sharedName has five tenants hold the four units of a name, and wait for them.
func sharedName(l *lab) {
	l.t.Helper()
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "tenant-0", Share: 1}), p, ofTenants("me", 1, 20, 5)), 20)
	require.Equal(l.t, "4@+", l.meta(MetaPlain))
}

// quietName has two tenants hold two of the four units of a name.
func quietName(l *lab) {
	l.t.Helper()
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "tenant-0", Share: 1}), p, ofTenants("me", 1, 2, 2)), 2)
	require.Equal(l.t, "4@", l.meta(MetaPlain))
}

// plainKind is a call that is usual on sharedName, or else on quietName, by its plain script.
type plainKind struct {
	waits bool // calls wait on the name
	call  Call
}

// plainKinds are one of each kind that releases the first holder, or acquires.
func plainKinds(l *lab) map[string]plainKind {
	about, p := l.space.About("name"), AcquireParams{TTL: time.Minute, Wait: true}
	released, asked, one := ofTenants("me", 1, 1, 3), ofTenants("you", 1, 2, 2), ofTenants("you", 1, 2, 1)
	declared := []TenantSpec{{Name: "tenant-0", Share: 1}}
	return map[string]plainKind{
		"it releases":                            {true, PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, released)},
		"it releases and acquires":               {true, PlainTenants(about, seededKnown, p, declared, asked, released)},
		"it acquires":                            {true, PlainTenants(about, seededKnown, p, declared, asked, nil)},
		"nobody waits, it releases":              {false, PlainRelease(PlainTenantsReleaseScript, about, released)},
		"nobody waits, it releases and acquires": {false, PlainTenantsAcquire(about, seededKnown, p.TTL, declared, one, released)},
		"nobody waits, it acquires":              {false, PlainTenantsAcquire(about, seededKnown, p.TTL, declared, one, nil)},
		"nobody waits or is to":                  {false, PlainTenants(about, seededKnown, AcquireParams{TTL: time.Minute}, declared, asked, released)},
	}
}

// eachPlainKind calls f with a name of its own for each kind.
func eachPlainKind(t *testing.T, rdb *redis.Client, f func(l *lab, kind string, k plainKind)) {
	t.Helper()
	for kind := range plainKinds(newLab(t, rdb)) {
		l := newLab(t, rdb)
		k := plainKinds(l)[kind]
		if k.waits {
			sharedName(l)
		} else {
			quietName(l)
		}
		f(l, kind, k)
	}
}

// Damage of which the script sees nothing is mended once the keys are renewed. Until then only ids in the queue are granted anything.
func TestPlainCallOfATenantBesideDamageGrantsToWaitersOnly(t *testing.T) {
	t.Parallel()
	for name, damage := range damageOfTenants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachPlainKind(t, testclient.Settled(t), func(l *lab, kind string, k plainKind) {
				if !k.waits && !slices.Contains(damageWithoutWaiters, name) {
					return
				}
				damage(l)
				before := l.snapshot()
				l.answersSoundly(k.call, name)
				after := l.snapshot()
				assert.LessOrEqual(t, len(after.owner), 4)
				for _, id := range members(after.owner) {
					assert.True(t, slices.Contains(append(members(before.owner), members(before.queue)...), id) || strings.HasPrefix(id, "you"), "%s: %s", kind, id)
					assert.NotContains(t, members(after.queue), id)
				}
				l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "tenant-0", Share: 1}), AcquireParams{TTL: time.Hour, Wait: true}, ofTenants("she", 1, 1, 1)), 1)
				l.poll(4)
				l.checkTenants(l.snapshot())
			})
		})
	}
}

// A call that found no turn granted its own request before all waiters.
func TestPlainCallOfATenantIsDeclinedOnceTheTurnsAreGone(t *testing.T) {
	t.Parallel()
	eachPlainKind(t, testclient.Settled(t), func(l *lab, kind string, k plainKind) {
		if k.waits {
			l.rdb.Del(background, l.keys[7])
			assert.False(t, l.answersSoundly(k.call, kind), kind)
		}
	})
}

// A limit was raised, and more tenants have their turn than a call grants to. A call that granted to as many as it had read left units
// over, and granted these to its own request, before all the others.
func TestPlainCallOfATenantLeavesNoTurnOut(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	for first := 0; first < 150; first += 50 {
		var asked []*ticket
		for n := first; n < first+50; n++ {
			asked = append(asked, &ticket{fmt.Sprintf("me:%d:tenant-%d", n, n), 1})
		}
		l.ask(Acquire(l.space.About("name"), naming(1, TenantSpec{Name: "tenant-0", Share: 1}), p, asked), 50)
	}
	d := declares(200, usedNow)
	r := l.ask(Refresh[*ticket](l.space.About("name"), d, time.Minute, false, nil), 0)
	require.True(t, r.More)
	require.Equal(t, PlainWithTenantsInQueue, r.Plain)
	c := PlainTenants(l.space.About("name"), Known{Since: d.Since, Epoch: seededEpoch}, p, nil, tickets("you:1:new"), nil)
	assert.False(t, l.answersSoundly(c, "it has read 50 turns, of more"))
}

func TestPlainCallAnswersWhereNoWaitingTenantMayHaveMore(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "tenant-0", Share: 1, Limit: 2}), p, ofTenants("me", 1, 5, 1)), 5)
	require.NotEmpty(t, l.snapshot().queue)
	declared := []TenantSpec{{Name: "tenant-0", Share: 1, Limit: 2}}
	assert.True(t, l.answersSoundly(PlainTenants(l.space.About("name"), seededKnown, p, declared, ofTenants("you", 1, 1, 1), nil), "at its limit"))
	other := []*ticket{{"you:2:b", 1}}
	assert.False(t, l.answersSoundly(PlainTenantsAcquire(l.space.About("name"), seededKnown, p.TTL, nil, other, nil), "units are left, but calls wait"))
	assert.True(t, l.answersSoundly(PlainTenants(l.space.About("name"), seededKnown, AcquireParams{}, nil, nil, ofTenants("me", 1, 1, 1)), "it releases"))
}

func TestPlainReleaseOfATenantGrantsItNothingWhileItHoldsMoreThanItsLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "a", Share: 1}), p, ofTenant("a", 1, 6)), 6)
	lower := naming(4, TenantSpec{Name: "a", Share: 1, Limit: 2, After: time.Microsecond})
	l.ask(Acquire(l.space.About("name"), lower, p, ofTenant("a", 7, 1)), 1)
	for nth, waiting := range []int{3, 3, 2} { // at first it holds 4
		release := PlainTenants(l.space.About("name"), seededKnown, AcquireParams{}, nil, nil, ofTenant("a", 1+nth, 1))
		require.True(t, l.answersSoundly(release, "it releases"))
		assert.Len(t, l.snapshot().queue, waiting, "after %d releases", 1+nth)
	}
}

func TestPlainCallOfATenantThatIsStoppedHalfWayGrantsNothingTooMuch(t *testing.T) {
	t.Parallel()
	for n := range 32 {
		eachPlainKind(t, testclient.Settled(t), func(l *lab, kind string, k plainKind) {
			l.set("marked_at", fmt.Sprint(l.now().Add(-time.Hour).UnixMicro())) // so that sorted sets get an index
			l.runUpTo(n, k.call)
			s := l.snapshot()
			assert.LessOrEqual(t, len(s.owner), 4, "%s, %d writes", kind, n)
			for _, id := range append(members(s.owner), members(s.queue)...) {
				if id != "me:1:tenant-0" { // its released units have left one of the two
					assert.Contains(t, members(s.timeout), id, "%s: an entry without a deadline after %d writes", kind, n)
				}
			}
			l.ask(Refresh(l.space.About("name"), known(4), time.Hour, false, ofTenants("me", 3, 1, 3)), 1)
			l.poll(4)
			s = l.snapshot()
			l.checkTenants(s)
			for _, id := range append(members(s.owner), members(s.timeout)...) {
				assert.Contains(t, id, ":tenant-", "%s: what is no permit stays after %d writes", kind, n)
			}
		})
	}
}

// S10: a key of the wrong type fails the call, or leaves it to the full script, which fails.
func TestPlainCallOfATenantWithAKeyOfTheWrongTypeChangesNothing(t *testing.T) {
	t.Parallel()
	for i := range Kinds {
		eachPlainKind(t, testclient.Settled(t), func(l *lab, kind string, k plainKind) {
			require.NoError(t, l.rdb.Set(background, l.keys[i], "of another program", 0).Err())
			before, got := l.dump(), l.run(k.call)
			if !slices.Contains(k.call.Script.keys, i) || got.err == nil && !k.call.Script.Declined(got.numbers) {
				return // it does not need the key
			}
			if got.err != nil {
				assert.ErrorContains(t, got.err, "WRONGTYPE")
			}
			assert.Equal(t, before, l.dump(), "%s with a %s of the wrong type", kind, Kinds[i])
		})
	}
}

// Any program may have stored anything. No value makes a plain script fail half-way, or grant for ever.
func TestPlainCallOfATenantDeclinesWhateverIsStored(t *testing.T) {
	t.Parallel()
	records := []string{"", "x", "1 1 1 1 1 1", "1 1 1 1 0 0 20000000000000", "1 1 1 0 0 0 100000000000000", "1 -1 1 1 0 0 100000000000000"}
	for _, field := range []int{1, 2, 3, 4, 5} {
		words := strings.Fields("1 1 1 1 0 0 100000000000000")
		words[field] = strings.Repeat("9", 400)
		records = append(records, strings.Join(words, " "))
	}
	for _, field := range []string{"all", ":tenant-0", ":tenant-1", ":tenant-2"} {
		for _, value := range append(records, "nan 4", "1 nan", "1 4 nan", "1 "+strings.Repeat("9", 400), "1 4 "+strings.Repeat("9", 400)) {
			eachPlainKind(t, testclient.Settled(t), func(l *lab, kind string, k plainKind) {
				require.NoError(t, l.rdb.HSet(background, l.keys[8], field, value).Err())
				l.answersSoundly(k.call, kind+" "+field+" "+value)
				assert.LessOrEqual(t, len(l.snapshot().owner), 4)
			})
		}
	}
}

// Unusual calls are left to the full script.
func TestPlainCallOfATenantDeclinesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	p := AcquireParams{TTL: time.Minute, Wait: true}
	one := ofTenants("you", 1, 1, 1)
	for name, build := range map[string]func(l *lab, about CallPrefix) Call{
		"a newer share": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, p, []TenantSpec{{"tenant-0", 2, 0, time.Second}}, one, nil)
		},
		"others that wait, and a call that may not": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, AcquireParams{TTL: time.Minute}, nil, one, ofTenants("me", 1, 1, 3))
		},
		"a newer limit": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, p, []TenantSpec{{"tenant-0", 1, 1, time.Second}}, one, nil)
		},
		"a tenant of no id": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, p, []TenantSpec{{"tenant-7", 1, 0, 0}}, one, nil)
		},
		"an id that waits": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, p, nil, ofTenants("me", 6, 1, 5), nil)
		},
		"an id that left": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, ofTenants("me", 99, 1, 3))
		},
		"an id twice": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, append(ofTenants("me", 1, 1, 3), ofTenants("me", 1, 1, 3)...))
		},
		"a lease that ended": func(l *lab, about CallPrefix) Call {
			l.rdb.ZIncrBy(background, l.keys[2], -1e6, "me:5:tenant-4")
			return PlainTenants(about, seededKnown, p, nil, one, nil)
		},
		"keys to be renewed": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, AcquireParams{TTL: time.Hour}, nil, one, nil)
		},
		"a name of one tenant": func(l *lab, about CallPrefix) Call {
			l.set("plain", "4+")
			return PlainTenants(about, seededKnown, p, nil, one, nil)
		},
		"units that are too few": func(l *lab, about CallPrefix) Call {
			generation, _, _ := strings.Cut(l.rdb.HGet(background, l.keys[8], "all").Val(), " ")
			l.rdb.HSet(background, l.keys[8], ":tenant-0", generation+" 0 0 1 0 0 100000000000000")
			return PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, ofTenants("me", 1, 1, 5))
		},
		"permits that are too few": func(l *lab, about CallPrefix) Call {
			generation, _, _ := strings.Cut(l.rdb.HGet(background, l.keys[8], "all").Val(), " ")
			l.rdb.HSet(background, l.keys[8], ":tenant-0", generation+" 1 0 1 0 0 100000000000000")
			return PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, ofTenants("me", 1, 1, 5))
		},
		"nothing of what it releases": func(l *lab, about CallPrefix) Call {
			l.rdb.HDel(background, l.keys[8], ":tenant-0")
			return PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, ofTenants("me", 1, 1, 5))
		},
		"a time of neither kind": func(l *lab, about CallPrefix) Call {
			generation, _, _ := strings.Cut(l.rdb.HGet(background, l.keys[8], "all").Val(), " ")
			l.rdb.HSet(background, l.keys[8], ":tenant-0", generation+" 1 1 1 0 0 100000000000002")
			return PlainTenants(about, seededKnown, p, nil, one, nil)
		},
		"a turn since another grant": func(l *lab, about CallPrefix) Call {
			first := l.rdb.ZRangeWithScores(background, l.keys[7], 0, 0).Val()[0]
			turn := first.Member.(string)
			l.rdb.ZRem(background, l.keys[7], turn)
			l.rdb.ZAdd(background, l.keys[7], redis.Z{Score: first.Score, Member: "00000000000001" + turn[14:]})
			return PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, ofTenants("me", 1, 1, 5))
		},
		"a sum that is wrong": func(l *lab, about CallPrefix) Call {
			generation, _, _ := strings.Cut(l.rdb.HGet(background, l.keys[8], "all").Val(), " ")
			l.rdb.HSet(background, l.keys[8], "all", generation+" 3 0")
			return PlainTenants(about, seededKnown, p, nil, one, nil)
		},
		"more units than Lua counts":         storesOfTenant0("9007199254740992 1 1 0 0"),
		"more permits than Lua counts":       storesOfTenant0("1 9007199254740992 1 0 0"),
		"more of both than Lua counts":       storesOfTenant0("9007199254740992 9007199254740992 1 0 0"),
		"a share above all that Lua counts":  storesOfTenant0("1 1 9007199254740992 0 0"),
		"a limit above all that Lua counts":  storesOfTenant0("1 1 1 9007199254740992 0"),
		"a time later than all that are one": storesOfTenant0("1 1 1 0 9007199254740992"),
		"no share":                           storesOfTenant0("1 1 0 0 0"),
		"waiters, and it releases": func(_ *lab, about CallPrefix) Call {
			return PlainRelease(PlainTenantsReleaseScript, about, ofTenants("me", 1, 1, 3))
		},
		"waiters, and it acquires": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, p.TTL, nil, one, ofTenants("me", 1, 1, 3))
		},
	} {
		l := newLab(t, rdb)
		sharedName(l)
		c := build(l, l.space.About("name"))
		assert.False(t, l.answersSoundly(c, name), name)
	}
}

// storesOfTenant0 stores the state of a tenant, and then has a call acquire for it.
func storesOfTenant0(counts string) func(l *lab, about CallPrefix) Call {
	return func(l *lab, about CallPrefix) Call {
		generation, _, _ := strings.Cut(l.rdb.HGet(background, l.keys[8], "all").Val(), " ")
		l.rdb.HSet(background, l.keys[8], ":tenant-0", generation+" "+counts+" 100000000000000")
		return PlainTenants(about, seededKnown, AcquireParams{TTL: time.Minute, Wait: true}, nil, ofTenants("you", 1, 1, 1), nil)
	}
}

// accounts.lua compares numbers, so 00 is no limit there.
func TestPlainCallOfATenantReadsNumbersAsTheFullScriptDoes(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	sharedName(l)
	for tenant := range 5 {
		field := fmt.Sprint(":tenant-", tenant)
		record := strings.Fields(l.rdb.HGet(background, l.keys[8], field).Val())
		record[4] = "00"
		l.rdb.HSet(background, l.keys[8], field, strings.Join(record, " "))
	}
	got := l.run(PlainTenants(l.space.About("name"), seededKnown, AcquireParams{}, nil, nil, ofTenants("me", 1, 4, 5)))
	require.NoError(t, got.err)
	require.Greater(t, len(got.numbers), 1, "declined")
	assert.Len(t, l.snapshot().owner, 4)
}

// A share or a limit that is stored as no number would make the counts of the tenant unreadable.
func TestPlainCallOfATenantStoresSharesAndLimitsAsNumbers(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for said, stored := range map[string]string{"07": "7", "1e3": "1000", "7": "7", "x": "", "": "", "0": "", "-1": "", "nan": "", "1e300": ""} {
		for _, waits := range []bool{false, true} {
			l := newLab(t, rdb)
			about, p := l.space.About("name"), AcquireParams{TTL: time.Minute, Wait: true}
			declared, asked := []TenantSpec{{"b", 77, 0, 0}}, []*ticket{{"you:1:b", 1}}
			quietName(l)
			c := PlainTenantsAcquire(about, seededKnown, p.TTL, declared, asked, nil)
			if waits {
				c = PlainTenants(about, seededKnown, p, declared, asked, nil)
			}
			c.Args[slices.Index(c.Args, any(int64(77)))] = said
			got := l.run(c)
			require.NoError(t, got.err)
			assert.Equal(t, stored == "", c.Script.Declined(got.numbers), "%q", said)
			if stored != "" {
				assert.Equal(t, stored, strings.Fields(l.rdb.HGet(background, l.keys[8], ":b").Val())[3], "%q", said)
			}
		}
	}
}

// So are cases that the script for names without waiters does not know.
func TestPlainAcquireOfATenantDeclinesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	const ttl = time.Minute
	one := ofTenants("you", 1, 1, 1)
	for name, build := range map[string]func(l *lab, about CallPrefix) Call{
		"a newer share": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, []TenantSpec{{"tenant-0", 2, 0, time.Second}}, one, nil)
		},
		"a tenant of no id": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, []TenantSpec{{"tenant-7", 1, 0, 0}}, one, nil)
		},
		"more than is left": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, ofTenants("you", 1, 3, 1), nil)
		},
		"more than the limit of a tenant": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, []TenantSpec{{"b", 1, 1, time.Second}}, []*ticket{{"you:1:b", 1}, {"you:2:b", 1}}, nil)
		},
		"an id that holds": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, ofTenants("me", 1, 1, 1), nil)
		},
		"ids of which one holds": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, append(ofTenants("me", 1, 1, 1), one...), nil)
		},
		"ids of two tenants": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, ofTenants("you", 1, 2, 2), nil)
		},
		"the release of another tenant's": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, one, []*ticket{{"me:2:tenant-1", 1}})
		},
		"releases of two tenants": func(_ *lab, about CallPrefix) Call {
			return PlainRelease(PlainTenantsReleaseScript, about, ofTenants("me", 1, 2, 2))
		},
		"more than is left, of two tenants, and they may not wait": func(_ *lab, about CallPrefix) Call {
			return PlainTenants(about, seededKnown, AcquireParams{TTL: ttl}, nil, ofTenants("you", 1, 3, 3), nil)
		},
		"the release of an id that left": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, one, ofTenants("me", 99, 1, 1))
		},
		"keys to be renewed": func(_ *lab, about CallPrefix) Call {
			return PlainTenantsAcquire(about, seededKnown, time.Hour, nil, one, nil)
		},
		"a name of one tenant": func(l *lab, about CallPrefix) Call {
			l.set("plain", "4")
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, one, nil)
		},
		"units that are too few": func(l *lab, about CallPrefix) Call {
			generation, _, _ := strings.Cut(l.rdb.HGet(background, l.keys[8], "all").Val(), " ")
			l.rdb.HSet(background, l.keys[8], ":tenant-0", generation+" 0 0 1 0 0 100000000000000")
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, one, ofTenants("me", 1, 1, 1))
		},
		"units that are too few, and it releases": func(l *lab, about CallPrefix) Call {
			generation, _, _ := strings.Cut(l.rdb.HGet(background, l.keys[8], "all").Val(), " ")
			l.rdb.HSet(background, l.keys[8], ":tenant-0", generation+" 0 0 1 0 0 100000000000000")
			return PlainRelease(PlainTenantsReleaseScript, about, ofTenants("me", 1, 1, 1))
		},
		"a sum that is wrong": func(l *lab, about CallPrefix) Call {
			generation, _, _ := strings.Cut(l.rdb.HGet(background, l.keys[8], "all").Val(), " ")
			l.rdb.HSet(background, l.keys[8], "all", generation+" 1 0")
			return PlainTenantsAcquire(about, seededKnown, ttl, nil, one, nil)
		},
	} {
		l := newLab(t, rdb)
		quietName(l)
		assert.False(t, l.answersSoundly(build(l, l.space.About("name")), name), name)
	}
}

// A client with an older declaration does not make that of another one old.
func TestPlainAcquireOfATenantKeepsTheNewestDeclaration(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for _, after := range []time.Duration{-time.Microsecond, 5 * time.Microsecond} {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		about := l.space.About("name")
		l.ask(Acquire(about, naming(4, TenantSpec{Name: "tenant-0", Share: 2}), AcquireParams{TTL: time.Minute, Wait: true}, ofTenants("me", 1, 1, 1)), 1)
		since := func() int64 {
			n, err := strconv.ParseInt(strings.Fields(l.rdb.HGet(background, l.keys[8], ":tenant-0").Val())[5], 10, 64)
			require.NoError(t, err)
			return n
		}
		before := since()
		declared := []TenantSpec{{"tenant-0", 2, 0, after}}
		require.True(t, l.answersSoundly(PlainTenantsAcquire(about, seededKnown, time.Minute, declared, ofTenants("you", 1, 1, 1), nil), "the same share"))
		assert.Equal(t, before+max(0, after.Microseconds()), since(), "declared %v after", after)
	}
}

// So where others wait. A declaration from a time that has not come yet counts as older than any, in the full script, too.
func TestCallOfATenantThatQueuesKeepsTheNewestDeclaration(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	one, p := TenantSpec{"tenant-0", 1, 0, 0}, AcquireParams{TTL: time.Minute, Wait: true}
	for what, build := range map[string]func(about CallPrefix) Call{
		"plain": func(about CallPrefix) Call {
			return PlainTenants(about, seededKnown, p, []TenantSpec{one}, ofTenants("you", 1, 1, 1), nil)
		},
		"full": func(about CallPrefix) Call { return Acquire(about, naming(4, one), p, ofTenants("you", 1, 1, 1)) },
	} {
		for stored, want := range map[int64]int64{6: 7, 7: 7, 8: 8, 1 << 52: 7} {
			l := newLab(t, rdb)
			sharedName(l)
			record := strings.Fields(l.rdb.HGet(background, l.keys[8], ":tenant-0").Val())
			record[5] = fmt.Sprint(stored)
			l.rdb.HSet(background, l.keys[8], ":tenant-0", strings.Join(record, " "))
			require.True(t, l.answersSoundly(build(l.space.About("name")), "the same share"))
			assert.Equal(t, fmt.Sprint(want), strings.Fields(l.rdb.HGet(background, l.keys[8], ":tenant-0").Val())[5], "%s: declared at 7, stored %d", what, stored)
		}
	}
}

// A reply is one list of numbers: what each new id got, and the waiters of the caller that were granted something.
func TestPlainCallOfATenantRepliesWithATokenOrAPositionOfEachID(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	d := naming(3, TenantSpec{"a", 1, 1, 0}, TenantSpec{"b", 1, 0, 0})
	l.ask(Acquire(l.space.About("name"), d, p, []*ticket{{"me:1:a", 1}, {"me:2:a", 1}}), 2)
	asked := []*ticket{{"me:3:a", 1}, {"me:4:b", 1}, {"me:5:b", 1}}
	got := l.run(PlainTenants(l.space.About("name"), seededKnown, p, d.Tenants, asked, nil))
	require.NoError(t, got.err)
	r, err := PlainTenantsScript.DecodePlain(got.numbers, seededKnown, 0, 0, len(asked))
	require.NoError(t, err, "%v", got.numbers)
	assert.Equal(t, []State{Waiting, Held, Held}, []State{r.Results[0].State, r.Results[1].State, r.Results[2].State})
	assert.Equal(t, int64(2), r.Waiters)
	assert.Equal(t, PlainWithTenantsInQueue, r.Plain)
	s := l.snapshot()
	assert.Equal(t, []string{"me:1:a", "me:4:b", "me:5:b"}, members(s.owner))
	assert.Equal(t, float64(r.Results[0].Number), scores(s.queue)["me:3:a"])
	assert.Equal(t, float64(r.Results[2].Number), scores(s.owner)["me:5:b"])

	// The first of all whose turn it may be.
	got = l.run(PlainTenants(l.space.About("name"), seededKnown, p, nil, []*ticket{{"me:6:b", 1}}, nil))
	require.NoError(t, got.err)
	assert.False(t, PlainTenantsScript.Declined(got.numbers))
	l.checkTenants(l.snapshot())
}

func TestUsualCallsOfTenantsNeedNoFullScript(t *testing.T) {
	t.Parallel()
	eachPlainKind(t, testclient.Settled(t), func(l *lab, kind string, k plainKind) {
		assert.True(t, l.answersSoundly(k.call, kind), kind)
		s := l.snapshot()
		l.checkTenants(s)
		assert.ElementsMatch(t, append(members(s.owner), members(s.queue)...), members(s.timeout), "what has a deadline after %s", kind)
	})
	l := newLab(t, testclient.Settled(t))
	quietName(l)
	about := l.space.About("name")
	assert.True(t, l.answersSoundly(PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, ofTenants("me", 1, 1, 1)), "nobody waits"))
	assert.True(t, l.answersSoundly(PlainTenantsAcquire(about, seededKnown, 30*time.Second, nil, ofTenant("tenant-1", 10, 3), nil), "more of one tenant"))
	assert.True(t, l.answersSoundly(PlainRelease(PlainTenantsReleaseScript, about, ofTenant("tenant-1", 10, 1)), "one of several"))
	l.checkTenants(l.snapshot())
	twice := append(ofTenant("tenant-1", 11, 1), ofTenant("tenant-1", 11, 1)...)
	assert.True(t, l.answersSoundly(PlainRelease(PlainTenantsReleaseScript, about, twice), "an id twice"))
	l.checkTenants(l.snapshot())
	assert.True(t, l.answersSoundly(PlainRelease(PlainTenantsReleaseScript, about, append(ofTenant("tenant-1", 12, 1), ofTenant("tenant-1", 2, 1)...)), "nobody is left"))
	assert.True(t, l.answersSoundly(PlainTenantsAcquire(about, seededKnown, 30*time.Second, nil, ofTenants("me", 3, 1, 1), nil), "nobody held anything, and no key is renewed"))
	l.checkTenants(l.snapshot())
}

// As plain_queue does on a name without tenants.
func TestPlainTenantsStoresThatANameMayHaveWaiters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seed     string
		ago      time.Duration // since there were waiters
		acquires int
		stored   string
		says     Plain
	}{
		"one that waits":            {"4@", 0, 4, "4@+", PlainWithTenantsInQueue},
		"one that fits":             {"4@", 0, 1, "4@", PlainWithTenants},
		"one that fits soon after":  {"4@+", 0, 1, "4@+", PlainWithTenantsInQueue},
		"one that fits much later":  {"4@+", time.Hour, 1, "4@", PlainWithTenants},
		"a release soon after":      {"4@+", 0, 0, "4@+", PlainWithTenantsInQueue},
		"a release much later":      {"4@+", time.Hour, 0, "4@", PlainWithTenants},
		"one that waits much later": {"4@+", time.Hour, 4, "4@+", PlainWithTenantsInQueue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for {
				l := newLab(t, testclient.Settled(t))
				quietName(l)
				began := time.Now()
				l.set("plain", c.seed)
				l.set("marked_at", fmt.Sprint(l.now().Add(-c.ago).UnixMicro()))
				asked, p := ofTenants("you", 1, c.acquires, 3), AcquireParams{TTL: time.Minute, Wait: true}
				got := l.run(PlainTenants(l.space.About("name"), seededKnown, p, nil, asked, ofTenants("me", 1, 1, 1)))
				require.NoError(t, got.err)
				if c.ago == 0 && time.Since(began) > time.Second {
					continue // it is not soon any more
				}
				r, err := PlainTenantsScript.DecodePlain(got.numbers, seededKnown, 0, 1, len(asked))
				require.NoError(t, err, "%v", got.numbers)
				assert.Equal(t, c.stored, l.meta(MetaPlain))
				assert.Equal(t, c.says, r.Plain)
				s := l.snapshot()
				assert.Equal(t, int64(len(s.queue)), r.Waiters)
				l.checkTenants(s)
				return
			}
		})
	}
}

// As when each has its turn.
func TestTenantThatAcquiresWhileNobodyWaitsWasGrantedSomethingLast(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	quietName(l)
	about, p := l.space.About("name"), AcquireParams{TTL: time.Minute, Wait: true}
	require.True(t, l.answersSoundly(PlainTenantsAcquire(about, seededKnown, p.TTL, nil, []*ticket{{"you:1:tenant-0", 1}}, nil), ""))
	require.True(t, l.answersSoundly(PlainTenantsAcquire(about, seededKnown, p.TTL, nil, []*ticket{{"you:2:tenant-1", 1}}, nil), ""))
	require.True(t, l.answersSoundly(PlainTenantsAcquire(about, seededKnown, p.TTL, nil, ofTenants("you", 3, 1, 1), ofTenants("me", 1, 1, 1)), ""))
	l.ask(Acquire(about, known(4), p, append(ofTenants("you", 10, 1, 1), &ticket{"you:11:tenant-1", 1})), 2)
	l.ask(Release(about, known(4), 0, false, ofTenants("you", 1, 2, 2)), 2) // so each of the two has one unit
	tokens := scores(l.snapshot().owner)
	assert.Less(t, tokens["you:11:tenant-1"], tokens["you:10:tenant-0"], "tenant-0 asked first, and was granted something last")
}

// S10: a call that is the first to queue found only after its first write that a key was of another type.
func TestPlainCallOfATenantBesideAKeyOfTheWrongTypeChangesNothing(t *testing.T) {
	t.Parallel()
	for _, key := range []int{1, 6, 7, 8} {
		t.Run(Kinds[key], func(t *testing.T) {
			t.Parallel()
			l := newLab(t, testclient.Settled(t))
			quietName(l)
			require.NoError(t, l.rdb.Set(background, l.keys[key], "of another program", 0).Err())
			before := l.dump()
			p := AcquireParams{TTL: time.Minute, Wait: true}
			got := l.run(PlainTenants(l.space.About("name"), seededKnown, p, nil, ofTenants("you", 1, 4, 2), nil))
			require.ErrorContains(t, got.err, "WRONGTYPE")
			assert.Equal(t, before, l.dump())
		})
	}
}

// V8: where many tenants held and were granted equally little,
// a call that granted something to each took three times as long as the full script.
func TestPlainCallThatGrantsToManyTenantsThatTieTakesNoLongerThanTheFullOne(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: testclient.Settled(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	var work [2]scriptWork
	for full := range 2 {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		p, about := AcquireParams{TTL: time.Minute, Wait: true}, l.space.About("name")
		holders := ofTenant("a", 1, 50)
		l.ask(Acquire(about, naming(50, TenantSpec{Name: "a", Share: 1}), p, holders), 50)
		l.ask(Acquire(about, naming(50, TenantSpec{Name: "a", Share: 1}), p, ofTenants("you", 1, 50, 50)), 50)
		c := PlainTenants(about, seededKnown, AcquireParams{}, nil, nil, holders[:49])
		if full == 1 {
			c = Release(about, known(50), 0, false, holders[:49])
		}
		var err error
		work[full], err = l.measure(c)
		require.NoError(t, err)
		s := l.snapshot()
		require.Len(t, s.owner, 50, "all that was released is granted: %v", s)
	}
	assert.LessOrEqual(t, work[0].steps, work[1].steps)
	assert.LessOrEqual(t, work[0].commands, work[1].commands)
}

// What was counted before counting began anew is none.
func TestPlainCallIgnoresCountsOfAnotherGeneration(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "tenant-0", Share: 1}), p, ofTenants("me", 1, 1, 1)), 1)
	require.NoError(t, l.rdb.HSet(background, l.keys[8], ":b", "7 3 3 1 3 0 100000000000000").Err())
	got := l.run(PlainTenants(l.space.About("name"), seededKnown, p, nil, []*ticket{{"me:2:b", 1}}, nil))
	require.NoError(t, got.err)
	assert.Contains(t, members(l.snapshot().owner), "me:2:b")
	l.checkTenants(l.snapshot())
}

// 10 million tenants over a day leave nothing behind, by whichever script they come and go.
func TestTenantsThatComeByPlainCallsAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	long := AcquireParams{TTL: time.Hour, Wait: true} // so that the keys need no renewal, however slow the machine is
	l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "tenant-0", Share: 1}), long, ofTenants("me", 1, 1, 1)), 1)
	declined := 0
	for n := 2; n < 500; n++ {
		one := []*ticket{{fmt.Sprintf("me:%d:customer-%d", n, n), 1}}
		acquire := PlainTenants(l.space.About("name"), seededKnown, p, nil, one, nil)
		if n%2 == 0 {
			acquire = PlainTenantsAcquire(l.space.About("name"), seededKnown, p.TTL, nil, one, nil)
		}
		for _, c := range []Call{acquire, PlainRelease(PlainTenantsReleaseScript, l.space.About("name"), one)} {
			got := l.run(c)
			require.NoError(t, got.err)
			if c.Script.Declined(got.numbers) { // it forgets nobody, and leaves that to the full script
				require.Same(t, PlainTenantsAcquireScript, c.Script)
				declined++
				l.ask(Acquire(l.space.About("name"), known(4), p, one), 1)
			}
		}
	}
	assert.Less(t, declined, 500/20, "most calls need no full script")
	assert.Less(t, l.rdb.HLen(background, l.keys[8]).Val(), int64(140))
	l.checkTenants(l.snapshot())
}
