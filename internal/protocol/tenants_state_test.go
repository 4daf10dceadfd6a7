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

// The stored counts of tenants follow from the holders and waiters, so any error in them is corrected.

// naming returns a declaration of a limit and of tenants.
func naming(limit int64, tenants ...TenantSpec) Declaration {
	d := known(limit)
	d.Tenants = tenants
	return d
}

// ofTenants returns count tickets on the accounts of so many tenants, in turns.
func ofTenants(client string, first, count, tenants int) (all []*ticket) {
	for i := range count {
		all = append(all, &ticket{fmt.Sprintf("%s:%d:tenant-%d", client, first+i, i%tenants), 1})
	}
	return all
}

// ofTenant returns count tickets on the account of a tenant.
func ofTenant(tenant string, first, count int) (all []*ticket) {
	for i := range count {
		all = append(all, &ticket{fmt.Sprintf("me:%d:%s", first+i, tenant), 1})
	}
	return all
}

// asks releases some ids and asks for one unit of 1. If it has to, it waits. The id names its tenant, if any.
func (l *lab) asks(id string, released ...string) {
	l.t.Helper()
	d := known(1)
	if tenant := TenantOf(id); tenant != "" {
		d = naming(1, TenantSpec{Name: tenant, Share: 1})
	}
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), d, p, tickets(id), tickets(released...)...), 1+len(released))
}

// poll reaps and promotes until nothing is left to do.
func (l *lab) poll(limit int64) {
	l.t.Helper()
	for range 20 {
		if !l.ask(Refresh[*ticket](l.space.About("name"), known(limit), time.Minute, false, nil), 0).More {
			return
		}
	}
	assert.Fail(l.t, "work is left after 20 calls")
}

// tenantOfTurn returns the tenant of a member of turns.
func tenantOfTurn(turn string) string {
	if turn[14] == '0' {
		return turn[29:] // it was never granted anything
	}
	return turn[15:]
}

// backlog has so many tenants hold everything and wait: 400 holders and 400 waiters, more than a call counts.
func (l *lab) backlog(limit int64, tenants int) {
	l.t.Helper()
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Hour, Wait: true}
	for first := 1; first <= 800; first += 50 {
		l.ask(Acquire(l.space.About("name"), naming(limit, TenantSpec{Name: "tenant-0", Share: 2}), p, ofTenants("me", first, 50, tenants)), 50)
	}
	l.checkTenants(l.snapshot())
}

// damageOfTenants is the damage that another program may do to the stored data.
var damageOfTenants = map[string]func(l *lab){
	"lanes are gone":         func(l *lab) { l.rdb.Del(background, l.keys[6]) },
	"turns and lanes are":    func(l *lab) { l.rdb.Del(background, l.keys[6], l.keys[7]) },
	"tenants are gone":       func(l *lab) { l.rdb.Del(background, l.keys[8]) },
	"all three are gone":     func(l *lab) { l.rdb.Del(background, l.keys[6:]...) },
	"a waiter has no lane":   func(l *lab) { l.rdb.ZRemRangeByRank(background, l.keys[6], 7, 7) },
	"most waiters have none": func(l *lab) { l.rdb.ZRemRangeByRank(background, l.keys[6], 3, 390) },
	"a lane has no waiter":   func(l *lab) { l.rdb.ZAdd(background, l.keys[6], redis.Z{Member: "8:tenant-1000you:7"}) },
	"the next waiter is none": func(l *lab) {
		next := tenantOfTurn(l.rdb.ZRange(background, l.keys[7], 0, 0).Val()[0])
		lane := fmt.Sprintf("%d:%s", len(next), next)
		first := l.rdb.ZRangeArgs(background, redis.ZRangeArgs{Key: l.keys[6], Start: "[" + lane, Stop: "(" + lane + "\xff", ByLex: true, Count: 1}).Val()
		l.rdb.ZRem(background, l.keys[6], first)
		l.rdb.ZAdd(background, l.keys[6], redis.Z{Member: lane + "00000000000001nobody:7"})
	},
	"a waiter has left": func(l *lab) { l.rdb.ZRemRangeByRank(background, l.keys[1], 5, 5) },
	"a holder has left": func(l *lab) { l.rdb.ZRemRangeByRank(background, l.keys[0], 5, 5) },
	"the sum is wrong":  func(l *lab) { l.rdb.HSet(background, l.keys[8], "all", "1 399 0") },
	"the newest token is none": func(l *lab) {
		all := l.rdb.HGet(background, l.keys[8], "all").Val()
		l.rdb.HSet(background, l.keys[8], "all", strings.TrimSuffix(all, newestOf(all))+"9007199254740991")
	},
	"the sum is text":        func(l *lab) { l.rdb.HSet(background, l.keys[8], "all", "\x00") },
	"meta has lost the name": func(l *lab) { l.rdb.HDel(background, l.keys[5], MetaTenants, MetaPlain) },
	"a turn is too early": func(l *lab) {
		l.rdb.ZIncrBy(background, l.keys[7], -1000, l.rdb.ZRange(background, l.keys[7], 3, 3).Val()[0])
	},
	"a turn has no tenant": func(l *lab) { l.rdb.ZAdd(background, l.keys[7], redis.Z{Score: -1, Member: "100000000000000nobody"}) },
	"a turn is text":       func(l *lab) { l.rdb.ZAdd(background, l.keys[7], redis.Z{Score: -1, Member: "x"}) },
	"a tenant is text":     func(l *lab) { l.rdb.HSet(background, l.keys[8], ":tenant-3", "x", "all", "1 0 0") },
	"units are wrong": func(l *lab) {
		l.rdb.HSet(background, l.keys[8], ":tenant-3", "1 999 999 1 0 7 100000000000000", "all", "1 0 0")
	},
}

// damageWithoutWaiters is the damage that is possible where nobody waits.
var damageWithoutWaiters = []string{"tenants are gone", "all three are gone", "the sum is wrong", "the newest token is none", "the sum is text", "meta has lost the name"}

func TestWhatIsStoredOfTenantsIsMendedAfterAnyDamage(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for name, damage := range damageOfTenants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, rdb)
			const limit = 400
			l.backlog(limit, 40)
			damage(l)
			d := naming(limit, TenantSpec{Name: "tenant-1", Share: 1})
			l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Hour, Wait: true}, ofTenants("you", 1, 1, 1)), 1)
			l.poll(limit)
			for i := range 3 { // every turn comes
				l.ask(Release(l.space.About("name"), known(limit), 0, false, ofTenants("me", 1+100*i, 100, 40)), 100)
				l.poll(limit)
			}
			s := l.snapshot()
			assert.LessOrEqual(t, len(s.owner), limit)
			assert.GreaterOrEqual(t, len(s.owner), limit-1)
			l.checkTenants(s)
		})
	}
}

// Damage that leaves the sums as they were shows when the keys are renewed, if not before.
func TestTenantsAreCountedAgainWhenTheKeysAreRenewed(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for name, damage := range map[string][]any{
		"units are of another tenant": {":tenant-0", "1 4 4 3 0 7 100000000000000", ":tenant-1", "1 0 0 1 0 0 100000000000000"},
		"a generation is unknown":     {"all", "9007199254740991 4 0"},
	} {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		p := AcquireParams{TTL: time.Minute, Wait: true}
		l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "tenant-0", Share: 3}), p, ofTenants("me", 1, 8, 2)), 8)
		require.NoError(t, rdb.HSet(background, l.keys[8], damage...).Err())
		renewal := Refresh(l.space.About("name"), known(4), time.Hour, false, ofTenants("me", 1, 1, 1))
		assert.False(t, l.ask(renewal, 1).More, name)
		l.checkTenants(l.snapshot())
		assert.Contains(t, l.rdb.HGet(background, l.keys[8], ":tenant-0").Val(), " 2 2 3 0 ", "it keeps its share")
	}
}

// A tenant at its limit has a turn, too, so turns that are gone show at the next call, even if the first waiter is of such a tenant.
func TestTurnsThatAreGoneAreMadeAnewThoughTheFirstWaiterIsOfATenantAtItsLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	const limit = 3
	p := AcquireParams{TTL: time.Hour, Wait: true}
	l.ask(Acquire(l.space.About("name"), naming(limit, TenantSpec{Name: "tenant-0", Share: 1, Limit: 2}), p, ofTenants("me", 1, 3, 1)), 3)
	l.ask(Acquire(l.space.About("name"), naming(limit, TenantSpec{Name: "other", Share: 1}), p, tickets("me:4:other", "me:5:other")), 2)
	require.Len(t, l.snapshot().queue, 2, "one of each tenant")
	require.NoError(t, l.rdb.Del(background, l.keys[7]).Err())
	l.ask(Release(l.space.About("name"), known(limit), 0, false, tickets("me:4:other")), 1)
	l.checkTenants(l.snapshot())
	assert.Contains(t, members(l.snapshot().owner), "me:5:other")
}

// Turns of which some are left show when the keys are renewed, however many calls wait.
func TestTurnsAreMadeAnewWhenTheKeysAreRenewedIfThatOfTheFirstWaiterIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	const limit = 400
	l.backlog(limit, 40)
	first := TenantOf(members(l.snapshot().queue)[0])
	for _, turn := range l.rdb.ZRange(background, l.keys[7], 0, -1).Val() {
		if tenantOfTurn(turn) == first {
			require.NoError(t, l.rdb.ZRem(background, l.keys[7], turn).Err())
		}
	}
	require.EqualValues(t, 39, l.rdb.ZCard(background, l.keys[7]).Val())
	l.ask(Refresh(l.space.About("name"), known(limit), 2*time.Hour, false, ofTenants("me", 1, 1, 40)), 1)
	l.poll(limit)
	l.checkTenants(l.snapshot())
}

// With this many waiters turns are not made anew when the permits are counted again, and the turn of a tenant whose permit left in that
// very call stayed where the permit had put it: behind tenants that hold more.
func TestTenantWhosePermitLeavesInTheCallThatCountsAgainIsNext(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for name, expired := range map[string]bool{"released": false, "expired": true} {
			l := newLab(t, rdb)
			l.seed("meta layout=2")
			p := AcquireParams{TTL: time.Minute, Wait: true}
			l.ask(Acquire(l.space.About("name"), naming(2, TenantSpec{Name: "a", Share: 1}), p, tickets("me:0:c", "me:1:b")), 2)
			l.ask(Acquire(l.space.About("name"), known(2), p, tickets("me:2:a", "me:3:b", "me:4:c"), tickets("me:0:c")...), 4)
			for first := 10; first < 70; first += 50 {
				l.ask(Acquire(l.space.About("name"), known(2), p, ofTenant("a", first, 50)), 50)
			}
			leave := tickets("me:2:a")
			if expired {
				require.NoError(t, l.rdb.ZAddXX(background, l.keys[2], redis.Z{Score: 1, Member: "me:2:a"}).Err())
				leave = nil
			}
			p.TTL = time.Hour // so the keys are renewed
			l.ask(Acquire(l.space.About("name"), known(2), p, tickets("me:100:a"), leave...), 1+len(leave))
			assert.Equal(t, []string{"me:1:b", "me:4:c"}, members(l.snapshot().owner), name)
			l.checkTenants(l.snapshot())
			l.ask(Release(l.space.About("name"), known(2), 0, false, tickets("me:4:c")), 1)
			assert.Equal(t, []string{"me:1:b", "me:10:a"}, members(l.snapshot().owner), "%s: it holds less than b", name)
		}
	})
}

func TestNameWithALongQueueBecomesOneThatTenantsShare(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		const limit = 350
		l.seed("meta layout=2")
		p := AcquireParams{TTL: time.Hour, Wait: true}
		for first := 1; first <= 700; first += 100 {
			var ids []string
			for i := range 100 {
				ids = append(ids, fmt.Sprintf("me:%d", first+i))
			}
			l.ask(Acquire(l.space.About("name"), known(limit), p, tickets(ids...)), 100)
		}
		before := l.snapshot()
		calls := 0
		for state := Early; state == Early; calls++ {
			require.Less(t, calls, 10)
			r := l.ask(Acquire(l.space.About("name"), naming(limit, TenantSpec{Name: "tenant-0", Share: 1}), p, ofTenants("you", 1, 1, 1)), 1)
			state = r.Results[0].State
			assert.Equal(t, state == Early, r.More)
			assert.Contains(t, []State{Early, Waiting}, state)
		}
		assert.Equal(t, 7, calls, "150 holders and 50 waiters a call")
		s := l.snapshot()
		assert.Equal(t, members(before.owner), members(s.owner), "nothing was granted")
		assert.Equal(t, append(members(before.queue), "you:1:tenant-0"), members(s.queue))
		l.checkTenants(s)
		l.ask(Release(l.space.About("name"), known(limit), 0, false, tickets("me:1")), 1)
		assert.Contains(t, members(l.snapshot().owner), "you:1:tenant-0", "it holds nothing, so it is next")
	})
}

// A waiter is stored after what says that the script for names without waiters may not answer.
func TestNameOfTenantsMayHaveWaitersOnceAScriptThatQueuesIsStoppedHalfWay(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	asked, p := ofTenants("you", 1, 3, 3), AcquireParams{TTL: time.Minute, Wait: true}
	for name, build := range map[string]func(about CallPrefix) Call{
		"acquire": func(about CallPrefix) Call { return Acquire(about, known(4), p, asked) },
		"plain":   func(about CallPrefix) Call { return PlainTenants(about, seededKnown, p, nil, asked, nil) },
		"restore": func(about CallPrefix) Call {
			return Restore(about, known(4), time.Minute, asked, Claims{Epoch: 3, Numbers: []int64{8, 9, 10}, Units: []int64{1, 1, 1}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range 20 {
				l := newLab(t, rdb)
				quietName(l)
				l.runUpTo(n, build(l.space.About("name")))
				l.snapshot() // checks it
			}
		})
	}
}

// S10
func TestCallOfATenantThatIsStoppedHalfWayGrantsNothingTooMuch(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	p := AcquireParams{TTL: time.Minute, Wait: true}
	two := TenantSpec{Name: "tenant-0", Share: 2, After: time.Microsecond}
	for name, build := range map[string]func(l *lab) Call{
		"acquire": func(l *lab) Call {
			return Acquire(l.space.About("name"), naming(4, two), p, ofTenants("you", 1, 2, 2))
		},
		"exchange": func(l *lab) Call {
			return Acquire(l.space.About("name"), naming(4, two), p, ofTenants("you", 1, 2, 2), ofTenants("me", 1, 2, 2)...)
		},
		"release": func(l *lab) Call {
			return Release(l.space.About("name"), known(4), time.Minute, false, ofTenants("me", 1, 3, 2))
		},
		"release waiters": func(l *lab) Call { return Release(l.space.About("name"), known(4), 0, false, ofTenants("me", 5, 2, 2)) },
		"raise": func(l *lab) Call {
			return Acquire(l.space.About("name"), declares(9, usedNow), p, ofTenants("you", 1, 1, 1))
		},
		"evict": func(l *lab) Call { return l.space.Evict("name", LimitSpec{Limit: 4}, "me:1:tenant-0") },
		"restore": func(l *lab) Call {
			return Restore(l.space.About("name"), naming(4, two), time.Minute, ofTenants("you", 1, 2, 2), Claims{Holders: 1, Numbers: []int64{8, 9}, Units: []int64{1, 1}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range 30 {
				l := newLab(t, rdb)
				l.seed("meta layout=2")
				l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: "tenant-0", Share: 1}), p, ofTenants("me", 1, 8, 2)), 8)
				l.runUpTo(n, build(l))
				s := l.snapshot()
				limit := 4
				if name == "raise" {
					limit = 9
				}
				assert.LessOrEqual(t, len(s.owner), limit, "after %d writes", n)
				for _, id := range append(members(s.owner), members(s.queue)...) {
					assert.Contains(t, members(s.timeout), id, "an entry without a deadline after %d writes", n)
				}
				l.ask(Refresh[*ticket](l.space.About("name"), declares(int64(limit), usedNow), time.Minute, false, nil), 0)
				l.poll(int64(limit))
				s = l.snapshot()
				assert.LessOrEqual(t, len(s.owner), limit, "after %d writes and a call", n)
				assert.True(t, len(s.queue) == 0 || len(s.owner) == limit, "after %d writes and a call units are free and calls wait", n)
				l.checkTenants(s)
			}
		})
	}
}

// S1, S2: what the tenant was granted meanwhile counts.
func TestHolderIsNotRestoredBeyondTheLimitOfItsTenant(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		d := naming(9, TenantSpec{Name: "one", Share: 1, Limit: 1}, TenantSpec{Name: "two", Share: 1, Limit: 2})
		p := AcquireParams{TTL: time.Minute}
		l.ask(Acquire(l.space.About("name"), d, p, tickets("me:1:one", "me:2:two")), 2)
		back := func(id string) State {
			had := Claims{Holders: 1, Epoch: seededEpoch, Confirmed: 3, Granted: 3, Numbers: []int64{1}, Units: []int64{1}}
			return l.ask(Restore(l.space.About("name"), d, time.Minute, tickets(id), had), 1).Results[0].State
		}
		assert.Equal(t, Gone, back("you:1:one"))
		assert.Equal(t, Held, back("you:2:two"))
		assert.Equal(t, Gone, back("you:3:two"))
		s := l.snapshot()
		assert.Equal(t, []string{"you:2:two", "me:1:one", "me:2:two"}, members(s.owner))
		l.checkTenants(s)
	})
}

// Of tenants that hold nothing and do not wait few are remembered, so any number of them leave nothing behind.
func TestTenantsThatHaveNothingAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), naming(9, TenantSpec{Name: "stays", Share: 1, Limit: 1}), p, tickets("me:1:stays", "me:2:stays")), 2)
	var last []*ticket
	for i := range 2000 {
		spec := TenantSpec{Name: fmt.Sprint("visitor-", i), Share: 1}
		next := tickets(fmt.Sprintf("me:%d:%s", i+3, spec.Name))
		l.ask(Acquire(l.space.About("name"), naming(9, spec), p, next, last...), 1+len(last))
		last = next
	}
	stored, err := l.rdb.HKeys(background, l.keys[8]).Result()
	require.NoError(t, err)
	assert.Less(t, len(stored), 200)
	assert.Contains(t, stored, ":stays", "it holds a unit and waits")
	assert.Contains(t, stored, ":visitor-1999", "it holds a unit")
	l.checkTenants(l.snapshot())
}

// A release that is stopped half-way leaves the turn of its tenant too late. Where many calls wait, only some turns are compared at a time.
func TestTurnThatIsTooLateIsMended(t *testing.T) {
	t.Parallel()
	for _, rounds := range []int{1, 3} {
		t.Run(fmt.Sprint(20*rounds, " wait"), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, testclient.Settled(t))
			l.seed("meta layout=2")
			d, about := naming(2, TenantSpec{Name: "y", Share: 1}), l.space.About("name")
			queue := func(all []*ticket) {
				l.ask(Acquire(about, d, AcquireParams{TTL: time.Minute, Wait: true}, all), len(all))
			}
			queue(tickets("me:1:y"))
			queue(tickets("me:2:ab"))
			for n := range rounds {
				queue(ofTenant("y", 100*(1+n), 20))
			}
			queue(tickets("me:3:ab", "me:4:ab"))
			l.runUpTo(2, Release(about, known(2), 0, false, tickets("me:2:ab")))
			l.ask(Refresh[*ticket](about, known(2), time.Hour, false, nil), 0) // the keys are renewed
			l.ask(Refresh[*ticket](about, known(2), time.Hour, false, nil), 0)
			assert.Equal(t, []string{"me:1:y", "me:3:ab"}, members(l.snapshot().owner), "ab holds nothing, y holds one")
			l.checkTenants(l.snapshot())
		})
	}
}

// A burst left all of them stored for as long as others used the name: they were forgotten only as new ones came.
func TestTenantsThatHadSomethingAtOnceAreForgottenAsItEnds(t *testing.T) {
	t.Parallel()
	for name, releases := range map[string]func(s CallPrefix, all []*ticket) Call{
		"by the full script": func(s CallPrefix, all []*ticket) Call { return Release(s, known(ample), 0, false, all) },
		"by plain_tenants": func(s CallPrefix, all []*ticket) Call {
			return PlainTenants(s, seededKnown, AcquireParams{}, nil, nil, all)
		},
		"by plain_tenants_release": func(s CallPrefix, all []*ticket) Call {
			return PlainRelease(PlainTenantsReleaseScript, s, all)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, testclient.Settled(t))
			l.seed("meta layout=2")
			p, about := AcquireParams{TTL: time.Hour, Wait: true}, l.space.About("name")
			var all []*ticket
			for i := range 400 {
				all = append(all, &ticket{l.space.TicketID(int64(i), fmt.Sprint("visitor-", i), false), 1})
			}
			for some := range slices.Chunk(all, MaxIDsOfTenants) {
				l.ask(Acquire(about, naming(ample, TenantSpec{Name: "visitor-0", Share: 1}), p, some), len(some))
			}
			require.Greater(t, l.rdb.HLen(background, l.keys[8]).Val(), int64(400))
			for _, one := range all {
				c := releases(about, []*ticket{one})
				got := l.run(c)
				require.NoError(t, got.err)
				require.False(t, c.Script.Declined(got.numbers), one.id)
			}
			assert.Less(t, l.rdb.HLen(background, l.keys[8]).Val(), int64(140))
			l.checkTenants(l.snapshot())
		})
	}
}

// Some of them make room for others whenever the keys are renewed.
func TestTenantsThatAreRememberedAreForgottenInTime(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	var last []*ticket
	for i := range 100 {
		next := []*ticket{{l.space.TicketID(int64(i), fmt.Sprint("visitor-", i), false), 1}}
		l.ask(Acquire(l.space.About("name"), naming(9, TenantSpec{Name: "visitor-0", Share: 1}), AcquireParams{TTL: time.Minute, Wait: true}, next, last...), 1+len(last))
		last = next
	}
	require.Equal(t, int64(101), l.rdb.HLen(background, l.keys[8]).Val(), "with the sum")
	l.ask(Refresh(l.space.About("name"), known(9), time.Hour, false, last), 1)
	remembered := l.rdb.HKeys(background, l.keys[8]).Val()
	assert.Len(t, remembered, 69)
	assert.Contains(t, remembered, ":visitor-98", "it was granted something late")
}

// Else a process that makes up names of tenants could keep a known tenant from its turn for ever: each of the others, one after the other,
// was never granted anything.
func TestEndlessNewTenantsKeepNoTenantFromItsTurn(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		p := AcquireParams{TTL: time.Minute, Wait: true}
		seq := 0
		ask := func(tenant string, units int64, released ...*ticket) (*ticket, State) {
			seq++
			one := []*ticket{{fmt.Sprintf("me:%d:%s", seq, tenant), units}}
			r := l.ask(Acquire(l.space.About("name"), naming(2, TenantSpec{Name: tenant, Share: 1}), p, one, released...), 1+len(released))
			return one[0], r.Results[len(released)].State
		}
		visit := func(n int, released ...*ticket) (*ticket, State) {
			return ask(fmt.Sprint("visitor-", n), 1, released...)
		}
		release := func(one *ticket) { l.ask(Release(l.space.About("name"), known(2), 0, false, []*ticket{one}), 1) }

		served, _ := ask("known", 1)
		before, _ := visit(1, served)
		large, state := ask("known", 2)
		require.Equal(t, Waiting, state)
		next, state := visit(2)
		assert.Equal(t, Waiting, state, "one unit is free, but the other tenant holds as little, and has been granted nothing for longer")
		release(before)
		assert.Equal(t, []string{large.id}, members(l.snapshot().owner))
		release(large)
		assert.Equal(t, []string{next.id}, members(l.snapshot().owner))
		l.checkTenants(l.snapshot())
	})
}

func TestNewTenantComesBeforeOneThatWasGrantedSomethingSince(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		p := AcquireParams{TTL: time.Minute, Wait: true}
		l.ask(Acquire(l.space.About("name"), naming(1, TenantSpec{Name: "a", Share: 1}), p, tickets("me:1:a", "me:2:b", "me:3:c")), 3)
		l.ask(Acquire(l.space.About("name"), known(1), p, tickets("me:4:b"), tickets("me:1:a")...), 2)
		l.ask(Release(l.space.About("name"), known(1), 0, false, tickets("me:2:b")), 1)
		assert.Equal(t, []string{"me:3:c"}, members(l.snapshot().owner), "it has waited since before the grant to b")
	})
}

func TestNewTenantsComeInTheirOrderRightBeforeTheOneThatWasGrantedSomethingLast(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		l.asks("me:1:known")
		l.asks("me:2:latest")
		l.asks("me:3:known", "me:1:known")
		l.asks("me:4:latest")
		for _, id := range []string{"me:5:z", "me:6:a", "me:7:a"} {
			l.asks(id)
		}
		var order []string
		for range 6 {
			holder := members(l.snapshot().owner)
			order = append(order, holder...)
			l.ask(Release(l.space.About("name"), known(1), 0, false, tickets(holder...)), 1)
		}
		assert.Equal(t, []string{"me:2:latest", "me:3:known", "me:5:z", "me:6:a", "me:4:latest", "me:7:a"}, order)
		l.checkTenants(l.snapshot())
	})
}

// Later grants of the same call do not make the place of a new tenant later.
func TestNewTenantComesBeforeWhatWasGrantedLastWhenItJoinedThoughItsCallGrantsMore(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		p := AcquireParams{TTL: time.Minute, Wait: true}
		l.ask(Acquire(l.space.About("name"), naming(2, TenantSpec{Name: "known", Share: 1}), p, tickets("me:1:known")), 1)
		l.ask(Acquire(l.space.About("name"), known(2), p, tickets("me:2:latest"), tickets("me:1:known")...), 2)
		l.ask(Acquire(l.space.About("name"), known(2), p, tickets("me:3:new*2", "me:4:known")), 2)
		require.Equal(t, []string{"me:2:latest", "me:4:known"}, members(l.snapshot().owner))
		l.ask(Acquire(l.space.About("name"), known(2), p, tickets("me:5:latest")), 1)
		l.ask(Release(l.space.About("name"), known(2), 0, false, tickets("me:2:latest")), 1)
		assert.Equal(t, []string{"me:4:known"}, members(l.snapshot().owner), "the new one is next, and does not fit")
		l.ask(Release(l.space.About("name"), known(2), 0, false, tickets("me:4:known")), 1)
		assert.Equal(t, []string{"me:3:new"}, members(l.snapshot().owner))
	})
}

// A tenant that gave up has no claim left: not to the place of its first call, and not to that of a tenant that stayed.
func TestNewTenantThatLeavesTheQueueAndComesBackIsANewOneAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for name, expires := range map[string]bool{"released": false, "expired in the call that comes back": true} {
			l := newLab(t, rdb)
			l.seed("meta layout=2")
			for _, id := range []string{"me:1:holder", "me:2:leaves", "me:3:stays"} {
				l.asks(id)
			}
			leave := []string{"me:2:leaves"}
			if expires {
				require.NoError(t, l.rdb.ZAddXX(background, l.keys[2], redis.Z{Score: 1, Member: "me:2:leaves"}).Err())
				leave = nil
			}
			l.asks("me:4:leaves", leave...)
			l.checkTenants(l.snapshot())
			l.ask(Release(l.space.About("name"), known(1), 0, false, tickets("me:1:holder")), 1)
			assert.Equal(t, []string{"me:3:stays"}, members(l.snapshot().owner), name)
		}
	})
}

// A rate: the grants of a tenant in the window count, and a refusal says when it is its turn at the earliest.
func TestTenantAtItsLimitOfARateIsToldWhenItsOwnGrantsExpire(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		d := Declaration{Spec: LimitSpec{Limit: 10, Window: time.Minute}, Since: known(0).Since, Knows: UsedBefore}
		ask := func(id string) Result {
			d.Tenants = []TenantSpec{{Name: TenantOf(id), Share: 1, Limit: 2}}
			return l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute}, tickets(id)), 1).Results[0]
		}
		for _, id := range []string{"me:1:b", "me:2:a", "me:3:a"} {
			assert.Equal(t, Held, ask(id).State)
		}
		for id, left := range map[string]float64{"me:1:b": 1000, "me:2:a": 20_000, "me:3:a": 30_000} {
			at := float64(l.now().UnixMilli()) + left
			require.NoError(t, l.rdb.ZAddXX(background, l.keys[2], redis.Z{Score: at, Member: id}).Err())
		}
		r := ask("me:4:a")
		assert.Equal(t, Refused, r.State)
		assert.InDelta(t, 20_000, r.Number, 4000, "ms until the first of its own expires")
		assert.Equal(t, Held, ask("me:5:b").State, "it holds up nobody else")
		l.checkTenants(l.snapshot())
	})
}

// A tenant that had waiters was told when the next of its grants expires, and so tried again and again, or waited for what could not come
// in time.
func TestRefusedCallOfATenantIsToldHowLongItsOwnWaitersTakeAtLeast(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		const none = 0
		for name, c := range map[string]struct {
			limit, ofTenant int64
			holders         []string // of which the first expires in 20 s, the second in 30 s
			waiters         []string
			asks            string
			seconds         float64
		}{
			"without waiters":                       {2, none, []string{"me:1:a", "me:2:a"}, nil, "me:9:a", 20},
			"behind its own":                        {2, none, []string{"me:1:a", "me:2:a"}, []string{"me:3:a", "me:4:a", "me:5:a"}, "me:9:a", 30 + 60},
			"not behind those of others":            {2, none, []string{"me:1:a", "me:2:a"}, []string{"me:3:b", "me:4:b", "me:5:b"}, "me:9:a", 20},
			"behind a heavy one":                    {4, none, []string{"me:1:a*2", "me:2:b*2"}, []string{"me:3:a*4"}, "me:9:a", 20 + 60},
			"for more units than one":               {4, none, []string{"me:1:a*2", "me:2:b*2"}, []string{"me:3:a"}, "me:9:a*3", 30},
			"at its limit":                          {9, 1, []string{"me:1:a"}, nil, "me:9:a", 20},
			"at its limit, behind its own":          {9, 1, []string{"me:1:a"}, []string{"me:3:a", "me:4:a", "me:5:a"}, "me:9:a", 20 + 3*60},
			"at its limit, behind a heavy one":      {9, 3, []string{"me:1:a*2", "me:2:a"}, []string{"me:3:a*3", "me:4:a"}, "me:9:a*2", 30 + 60},
			"at its limit, which leaves less after": {9, 2, []string{"me:1:b*4", "me:2:a*2"}, []string{"me:3:a*2", "me:4:a"}, "me:9:a", 30 + 60},
		} {
			l := newLab(t, rdb)
			l.seed("meta layout=2")
			ask := func(wait bool, ids ...string) []Result {
				d := Declaration{Spec: LimitSpec{Limit: c.limit, Window: time.Minute}, Since: known(0).Since, Knows: UsedBefore}
				d.Tenants = []TenantSpec{{Name: "a", Share: 1, Limit: c.ofTenant}, {Name: "b", Share: 1}}
				return l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute, Wait: wait}, tickets(ids...)), len(ids)).Results
			}
			for _, r := range ask(false, c.holders...) {
				require.Equal(t, Held, r.State, name)
			}
			for i, id := range c.holders {
				id, _, _ = strings.Cut(id, "*")
				at := float64(l.now().Add(time.Duration(20+10*i) * time.Second).UnixMilli())
				require.NoError(t, l.rdb.ZAddXX(background, l.keys[2], redis.Z{Score: at, Member: id}).Err())
			}
			for _, id := range c.waiters {
				require.Equal(t, Waiting, ask(true, id)[0].State, name)
			}
			r := ask(false, c.asks)[0]
			assert.Equal(t, Refused, r.State, name)
			assert.InDelta(t, 1000*c.seconds, r.Number, 4000, "%s: ms until it is granted", name)
		}
	})
}

func TestIDsOfAnyTenantAreTakenApartAsTheyWereMade(t *testing.T) {
	t.Parallel()
	for _, tenant := range []string{"", "a", "a:b", ":", "#", "1", "\x00", "\xff\xfe", strings.Repeat("x", MaxTenant)} {
		id := Keyspace{ClientID: "client"}.TicketID(7, tenant, false)
		assert.Equal(t, "client", ClientOf(id))
		assert.Equal(t, tenant, TenantOf(id))
	}
}

// A refused call is the first that names a tenant. The data that it leaves is maintained by the calls that name none, or is not trusted.
func TestNameOnWhichATenantWasRefusedIsSharedFromThenOn(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		p := AcquireParams{TTL: time.Minute, Wait: true}
		l.asks("me:1")
		l.asks("me:2")
		d := naming(1, TenantSpec{Name: "a", Share: 1})
		r := l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute}, tickets("you:1:a")), 1)
		assert.Equal(t, Refused, r.Results[0].State)
		l.checkTenants(l.snapshot())
		l.asks("me:3", "me:1")
		l.asks("me:4", "me:2")
		l.ask(Acquire(l.space.About("name"), d, p, tickets("you:2:a")), 1)
		for _, id := range []string{"me:3", "you:2:a"} {
			l.ask(Release(l.space.About("name"), known(1), 0, false, tickets(id)), 1)
			l.checkTenants(l.snapshot())
		}
		assert.Equal(t, []string{"me:4"}, members(l.snapshot().owner))
	})
}

// Whatever is in lanes, only a waiter is granted something.
func TestLaneOfAnIDThatDoesNotWaitIsNoGrant(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	l.ask(Acquire(l.space.About("name"), naming(1, TenantSpec{Name: "tenant-0", Share: 1}), p, ofTenants("me", 1, 3, 1)), 3)
	require.NoError(t, l.rdb.ZRem(background, l.keys[1], "me:2:tenant-0").Err()) // and another one joins by hand: the counts are equal
	require.NoError(t, l.rdb.ZAdd(background, l.keys[1], redis.Z{Score: 1 << 52, Member: "me:9:tenant-0"}).Err())
	l.ask(Release(l.space.About("name"), known(1), 0, false, ofTenants("me", 1, 1, 1)), 1)
	l.poll(1)
	assert.Equal(t, []string{"me:3:tenant-0"}, members(l.snapshot().owner))
}

func TestTenantsThatComeInBatchesAreForgottenInBatches(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	p := AcquireParams{TTL: time.Minute, Wait: true}
	var last []*ticket
	for batch := range 30 {
		var next []*ticket
		d := known(ample)
		for i := range MaxIDsOfTenants / 2 {
			spec := TenantSpec{Name: fmt.Sprintf("visitor-%d-%d", batch, i), Share: 1}
			d.Tenants = append(d.Tenants, spec)
			next = append(next, &ticket{l.space.TicketID(int64(batch*100+i), spec.Name, false), 1})
		}
		l.ask(Acquire(l.space.About("name"), d, p, next, last...), len(next)+len(last))
		last = next
	}
	assert.Less(t, l.rdb.HLen(background, l.keys[8]).Val(), int64(250))
	l.checkTenants(l.snapshot())
}

// Other programs may store tokens that are none of ours. They must not stop the count for ever.
func TestTokensThatAreNotWholeDoNotBlockAName(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2 declared=1000 since=7 until=80s")
	for i := range 160 {
		id := fmt.Sprintf("me:%d:tenant-0", i)
		require.NoError(t, l.rdb.ZAdd(background, l.keys[0], redis.Z{Score: float64(i) + 0.5, Member: id}).Err())
		require.NoError(t, l.rdb.ZAdd(background, l.keys[2], redis.Z{Score: float64(l.now().Add(time.Minute).UnixMilli()), Member: id}).Err())
	}
	d := naming(1000, TenantSpec{Name: "tenant-1", Share: 1})
	state := Early
	for range 5 {
		r := l.ask(Acquire(l.space.About("name"), d, AcquireParams{TTL: time.Minute, Wait: true}, tickets("you:1:tenant-1")), 1)
		if state = r.Results[0].State; state == Held {
			return
		}
	}
	assert.Equal(t, Held, state)
}

// V8: the time of a call does not depend on how many tenants wait, also when it removes as much as it may.
func TestCallThatRemovesAllItMayReadsFewTurns(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: testclient.Settled(t).Options().Addr, Protocol: 2})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	l := newLab(t, rdb)
	s := hostileState{spec: LimitSpec{Limit: 2000}, holders: 2000, waiters: 2000, expired: 500, weight: func(int) int64 { return 1 }, tenants: 4000}
	s.seed(l)
	did, err := l.measure(Refresh[*ticket](l.space.About("name"), Declaration{Spec: s.spec, Since: 7}, time.Minute, false, nil))
	require.NoError(t, err)
	assert.Less(t, did.elements, 2000)
}

func TestTenantLimitBelowWhatAWaiterWantsRemovesItAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		p := AcquireParams{TTL: time.Minute, Wait: true}
		l.ask(Acquire(l.space.About("name"), naming(3, TenantSpec{Name: "a", Share: 1}), p, tickets("me:1:b*3", "me:2:a*3")), 2)
		lower := naming(3, TenantSpec{Name: "a", Share: 1, Limit: 2, After: time.Microsecond})
		r := l.ask(Acquire(l.space.About("name"), lower, p, tickets("me:3:a")), 1)
		require.Len(t, r.Grants, 1)
		assert.Equal(t, [2]int64{2, 0}, [2]int64{r.Grants[0].Seq, r.Grants[0].Token}, "its process has to ask")
		assert.Equal(t, []string{"me:3:a"}, members(l.snapshot().queue))
		l.checkTenants(l.snapshot())
	})
}

// One that comes after what a call had granted last was removed although another tenant was next.
func TestWaiterBeyondASmallerLimitIsRemovedWhenItsTenantIsNext(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		about, p := l.space.About("name"), AcquireParams{TTL: time.Minute, Wait: true}
		l.ask(resizing(PinAt(0))(l, nil), 1)
		for _, id := range []string{"me:1:b", "me:2:b*4", "me:3:a"} {
			l.ask(Acquire(about, naming(4, TenantSpec{Name: TenantOf(id), Share: 1}), p, tickets(id)), 1)
		}
		l.ask(resizing(PinAt(1))(l, nil), 1)
		s := l.snapshot()
		assert.Equal(t, []string{"me:1:b"}, members(s.owner))
		assert.Equal(t, []string{"me:2:b", "me:3:a"}, members(s.queue), "a holds less, so it is next")
		l.checkTenants(s)
		l.ask(Release(about, known(4), 0, false, tickets("me:1:b")), 1)
		assert.Equal(t, []string{"me:3:a"}, members(l.snapshot().owner))
		r := l.ask(Release(about, known(4), 0, false, tickets("me:3:a")), 1)
		require.Len(t, r.Grants, 1)
		assert.Equal(t, [2]int64{2, 0}, [2]int64{r.Grants[0].Seq, r.Grants[0].Token}, "its process has to ask")
		assert.Empty(t, l.snapshot().queue)
	})
}

// A call that lowers the limit goes on once all units are granted: until one is released, no other would remove what can never be granted.
func TestNextWaiterBeyondASmallerLimitIsRemovedByTheCallThatGrantsTheLastUnit(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		release := func(d Declaration) func(*lab, []*ticket) Call {
			return func(l *lab, ids []*ticket) Call { return Release(l.space.About("name"), d, 0, false, ids) }
		}
		for name, calls := range map[string][]func(*lab, []*ticket) Call{
			"resizes":  {resizing(PinAt(0)), release(known(4)), resizing(PinAt(1))},
			"declares": {release(declares(1, 8))},
		} {
			l := newLab(t, rdb)
			l.seed("meta layout=2")
			p := AcquireParams{TTL: time.Minute, Wait: true}
			for _, id := range []string{"me:1:c*4", "me:2:b", "me:3:a*4"} {
				l.ask(Acquire(l.space.About("name"), naming(4, TenantSpec{Name: TenantOf(id), Share: 1}), p, tickets(id)), 1)
			}
			for _, call := range calls {
				l.ask(call(l, tickets("me:1:c")), 1)
			}
			s := l.snapshot()
			assert.Equal(t, []string{"me:2:b"}, members(s.owner), name)
			assert.Empty(t, s.queue, name)
			l.checkTenants(s)
		}
	})
}

// One that becomes the first of its tenant only later has the turn of its tenant, so that it is removed and the next of them is granted.
func TestWaiterBeyondTheLimitOfItsTenantDelaysNoOtherOfIt(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		l := newLab(t, rdb)
		l.seed("meta layout=2")
		about, p := l.space.About("name"), AcquireParams{TTL: time.Minute, Wait: true}
		l.ask(Acquire(about, naming(3, TenantSpec{Name: "b", Share: 1}), p, tickets("me:1:b", "me:2:b", "me:3:b")), 3)
		l.ask(Acquire(about, naming(3, TenantSpec{Name: "a", Share: 1}), p, tickets("me:4:a", "me:5:a*3", "me:6:a", "me:7:b")), 4)
		lower := naming(3, TenantSpec{Name: "a", Share: 1, Limit: 2, After: time.Microsecond})
		l.ask(Acquire(about, lower, p, tickets("me:8:b")), 1)
		for _, id := range []string{"me:4:a", "me:1:b"} {
			l.ask(Release(about, known(3), 0, false, tickets(id)), 1)
		}
		s := l.snapshot()
		assert.Equal(t, []string{"me:2:b", "me:3:b", "me:6:a"}, members(s.owner), "a holds least")
		l.checkTenants(s)
	})
}

// A grant makes the turn of a tenant later, also for the next request of the same call. Only a call that waits can have a head start.
func TestRequestThatDoesNotWaitOvertakesNoWaiterOfItsTenant(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		for wait, want := range map[bool][]string{true: {"me:3:c", "me:5:a", "me:6:b"}, false: {"me:3:c"}} {
			l := newLab(t, rdb)
			l.seed("meta layout=2")
			p := AcquireParams{TTL: time.Minute, Wait: true}
			d := naming(3, TenantSpec{Name: "a", Share: 1})
			var last []*ticket
			for _, id := range []string{"me:1:a", "me:2:b", "me:3:c"} {
				l.ask(Acquire(l.space.About("name"), d, p, tickets(id), last...), 1+len(last))
				last = tickets(id)
			}
			l.ask(Acquire(l.space.About("name"), d, p, tickets("me:4:a*3")), 1)
			p.Wait, p.HeadStart = wait, time.Hour
			l.ask(Acquire(l.space.About("name"), d, p, tickets("me:5:a", "me:6:b")), 2)
			s := l.snapshot()
			assert.Equal(t, want, members(s.owner), "wait: %v", wait)
			l.checkTenants(s)
		}
	})
}

// With 150 permits or more nothing compared them, and what was wrong of two tenants, but right in sum, remained so.
func TestCountsOfManyPermitsDoNotStayWrong(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	about, d := l.space.About("name"), naming(ample, TenantSpec{Name: "a", Share: 1})
	for n := range 8 {
		l.ask(Acquire(about, d, AcquireParams{TTL: time.Minute}, ofTenants("me", 1+50*n, 50, 2)), 50)
	}
	records := l.rdb.HGetAll(background, l.keys[8]).Val()
	for tenant, wrong := range map[string]string{":tenant-0": " 399 399 ", ":tenant-1": " 1 1 "} {
		require.Contains(t, records[tenant], " 200 200 ")
		require.NoError(t, l.rdb.HSet(background, l.keys[8], tenant, strings.Replace(records[tenant], " 200 200 ", wrong, 1)).Err())
	}
	for lease := time.Hour; !strings.Contains(l.rdb.HGet(background, l.keys[8], ":tenant-0").Val(), " 200 200 "); lease += time.Minute { // which renews the keys
		require.Less(t, lease, 5*time.Hour)
		l.poll(ample)
		l.ask(Refresh[*ticket](about, d, lease, false, nil), 0)
	}
	l.poll(ample)
	l.checkTenants(l.snapshot())
}

// S12: the permit that was counted last is not one that is still to be counted.
func TestPermitThatWasCountedLastIsTakenAwayWhenItIsReleased(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	about, d := l.space.About("name"), naming(ample, TenantSpec{Name: "tenant-0", Share: 1})
	for n := range 8 {
		l.ask(Acquire(about, d, AcquireParams{TTL: time.Minute}, ofTenants("me", 1+50*n, 50, 2)), 50)
	}
	require.NoError(t, l.rdb.HSet(background, l.keys[8], "all", "1 9 0").Err()) // so that they are counted again
	require.True(t, l.ask(Refresh[*ticket](about, known(ample), time.Minute, false, nil), 0).More)
	all := strings.Fields(l.rdb.HGet(background, l.keys[8], "all").Val())
	require.Len(t, all, 4, "the last is the token up to which they are counted")
	counted := l.rdb.ZRangeArgs(background, redis.ZRangeArgs{Key: l.keys[0], Start: all[3], Stop: all[3], ByScore: true}).Val()
	require.Len(t, counted, 1)
	l.ask(Release(about, known(ample), 0, false, tickets(counted...)), 1)
	l.poll(ample)
	l.checkTenants(l.snapshot())
}

// While permits were counted again, tenants whose permits were not counted yet were taken for some that have nothing,
// and their limits forgotten.
func TestLimitsOfHoldersAreRememberedWhilePermitsAreCounted(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("meta layout=2")
	about, d := l.space.About("name"), known(ample)
	for first := 0; first < 500; first += MaxIDsOfTenants {
		var all []*ticket
		d.Tenants = nil
		for n := first; n < first+MaxIDsOfTenants; n++ {
			d.Tenants = append(d.Tenants, TenantSpec{Name: fmt.Sprint("tenant-", n), Share: 1, Limit: 7})
			all = append(all, &ticket{fmt.Sprintf("me:%d:tenant-%d", n, n), 1})
		}
		l.ask(Acquire(about, d, AcquireParams{TTL: time.Minute}, all), len(all))
	}
	require.NoError(t, l.rdb.HSet(background, l.keys[8], "all", "1 9 0").Err()) // so that they are
	for n := range 5 {
		l.ask(Refresh[*ticket](about, known(ample), time.Duration(1+n)*time.Hour, false, nil), 0) // the keys are renewed
	}
	l.poll(ample)
	for field, record := range l.rdb.HGetAll(background, l.keys[8]).Val() {
		assert.True(t, field == "all" || strings.Contains(record, " 1 1 1 7 "), "%s: %s", field, record)
	}
	assert.Len(t, l.rdb.HKeys(background, l.keys[8]).Val(), 501)
}
