package protocol

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// renewAll renews ids with the plain script, of which the first hold, and those that it misses with the full one. It reports false if
// the plain one declined, and has changed nothing.
func (l *lab) renewAll(k Known, lease time.Duration, holding int, ids []*ticket) (Reply, bool) {
	l.t.Helper()
	before := l.dump()
	got := l.run(PlainRefresh(l.space.About("name"), k, lease, holding, ids))
	require.NoError(l.t, got.err)
	if PlainRefreshScript.Declined(got.numbers) {
		assert.Equal(l.t, before, l.dump(), "a call that was declined")
		return Reply{}, false
	}
	r, err := DecodeRenewed(got.numbers, k, holding, len(ids))
	require.NoError(l.t, err, "%v", got.numbers)
	for i, result := range r.Results {
		if result.State == Gone {
			one := l.ask(Refresh(l.space.About("name"), known(3), lease, false, ids[i:i+1]), 1)
			r.Results[i], r.Next = one.Results[0], one.Next
		}
	}
	return r, true
}

// described is a reply and the state of a name. A plain renewal does not repeat the numbers that its caller knows.
func (l *lab) described(r Reply) string {
	for i := range r.Results {
		r.Results[i].Number = 0
	}
	s := l.snapshot()
	slices.SortFunc(s.timeout, func(a, b redis.Z) int { return cmp.Compare(a.Member.(string), b.Member.(string)) })
	s.mustExpire(l.t)
	return strings.Join([]string{r.String(), fmt.Sprint(r.Waiters, r.Plain), s.String(), s.lifetimes()}, "\n")
}

func TestPlainRefreshDoesWhatRefreshDoes(t *testing.T) {
	t.Parallel()
	const queue = "owner you:1=4 me:1=5 | queue me:2=6 you:2=7 me:3=8 | timeout you:1=20s me:1=20s me:2=20s you:2=30s me:3=20s | counter 8" +
		" | meta declared=2 layout=2 since=7 until=80s plain=2+"
	const idle = "owner you:1=4 me:1=5 | timeout you:1=20s me:1=20s | counter 8 | meta declared=2 layout=2 since=7 until=80s plain=2"
	for name, c := range map[string]struct {
		seed         string
		holds, waits string
		answers      bool
	}{
		"a holder and waiters":              {seed: queue, holds: "me:1", waits: "me:2 me:3", answers: true},
		"a holder, beside waiters":          {seed: queue, holds: "me:1", answers: true},
		"waiters":                           {seed: queue, waits: "me:2 me:3", answers: true},
		"a holder of a name without queue":  {seed: idle, holds: "me:1", answers: true},
		"nobody":                            {seed: queue, answers: true},
		"a waiter that holds by now":        {seed: queue, waits: "me:1 me:2", answers: true},
		"a holder that waits":               {seed: queue, holds: "me:2", waits: "me:3", answers: true},
		"an unknown one between two":        {seed: queue, waits: "me:2 me:9 me:3", answers: true},
		"only unknown ones":                 {seed: queue, holds: "me:8", waits: "me:9", answers: true},
		"one that was evicted":              {seed: strings.Replace(queue, "me:3=8 | ", " | ", 1), waits: "me:2 me:3", answers: true},
		"one twice":                         {seed: queue, waits: "me:2 me:2", answers: true},
		"keys that must last longer":        {seed: strings.Replace(queue, "80s", "40s", 1), holds: "me:1", waits: "me:2", answers: true},
		"keys of a pinned limit":            {seed: strings.Replace(queue, "80s", "40s pinned=2", 1), holds: "me:1", waits: "me:2", answers: true},
		"above a limit that was lowered":    {seed: strings.NewReplacer("declared=2", "declared=1", "plain=2", "plain=1").Replace(queue), holds: "me:1", answers: true},
		"one whose lease has ended":         {seed: strings.Replace(queue, "me:3=20s", "me:3=-10s", 1), waits: "me:2 me:3"},
		"beside one whose lease has ended":  {seed: strings.Replace(queue, "you:1=20s", "you:1=-10s", 1), waits: "me:2"},
		"beside a tombstone that has ended": {seed: strings.Replace(queue, "timeout", "timeout you:9=-10s", 1), waits: "me:2"},
		"one without a deadline":            {seed: strings.Replace(queue, " me:3=20s", "", 1), waits: "me:2 me:3"},
		"all without deadlines":             {seed: strings.Replace(idle, "timeout you:1=20s me:1=20s | ", "", 1), holds: "me:1"},
		"beside a unit that is free":        {seed: strings.NewReplacer(" me:1=5", "", " me:1=20s", "").Replace(queue), waits: "me:2 me:3"},
		"of a name that is not plain":       {seed: strings.Replace(queue, " plain=2+", "", 1), waits: "me:2"},
		"of a name with numbers":            {seed: strings.Replace(idle, "plain=2", "numbered=1 plain=2#", 1), holds: "me:1"},
		"with a number from the future":     {seed: strings.Replace(queue, "counter 8", "counter 8000000000000000", 1), waits: "me:2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holds, waits := strings.Fields(c.holds), strings.Fields(c.waits)
			ids := tickets(append(holds, waits...)...)
			var outcomes [2]string
			for i := range outcomes {
				l := newLab(t, testclient.Settled(t))
				l.seed(c.seed)
				r, answered := Reply{}, false
				if i == 0 {
					r, answered = l.renewAll(seededKnown, time.Minute, len(holds), ids)
					assert.Equal(t, c.answers, answered, "whether the plain script answers")
				}
				if !answered {
					r = l.ask(Refresh(l.space.About("name"), known(2), time.Minute, len(waits) == 0, ids), len(ids))
				}
				outcomes[i] = ranked(l.described(r))
			}
			assert.Equal(t, outcomes[1], outcomes[0])
		})
	}
}

// Random renewals on a name with a queue, shared by tenants or not, of ids that are mostly what their client takes them for.
func TestRandomRenewalsHaveTheSameOutcomeWithAPlainScript(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	for name, d := range map[string]Declaration{
		"no tenants": known(3), "tenants": naming(3, TenantSpec{Name: "tenant-0", Share: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dice, answers := seeded(t, 0), 0
			steps := walks(t, 100, 30, func(int) {
				all := ofTenants("me", 1, 4+dice.IntN(30), 3)
				var labs [2]*lab
				for i := range labs {
					labs[i] = newLab(t, rdb)
					labs[i].seed("meta layout=2")
					labs[i].ask(Acquire(labs[i].space.About("name"), d, AcquireParams{TTL: walkTTL, Wait: true}, all), len(all))
				}
				ids, holding := drawRenewal(dice, all, members(labs[0].snapshot().owner))
				renewed, answered := labs[0].renewAll(seededKnown, 2*walkTTL, holding, ids)
				if answered {
					answers++
				}
				full := labs[1].ask(Refresh(labs[1].space.About("name"), known(3), 2*walkTTL, false, ids), len(ids))
				require.Equal(t, ranked(labs[1].described(full)), ranked(labs[0].described(renewed)), "the first %d of %v hold", holding, ids)
			})
			assert.Equal(t, steps, answers, "how many calls the plain script has answered")
		})
	}
}

// drawRenewal returns some ids, and how many of them hold, except that one may be taken for what it is not.
func drawRenewal(dice *rand.Rand, all []*ticket, holders []string) (ids []*ticket, holding int) {
	ids = slices.Clone(all)
	dice.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ids = ids[:1+dice.IntN(len(ids))]
	slices.SortStableFunc(ids, func(a, b *ticket) int { return slices.Index(holders, b.id) - slices.Index(holders, a.id) })
	for holding < len(ids) && slices.Contains(holders, ids[holding].id) {
		holding++
	}
	return ids, max(0, min(len(ids), holding+dice.IntN(3)-1))
}

// A renewal needs no memory, so a full server does not end leases.
func TestPlainRefreshWorksOnAFullServer(t *testing.T) {
	t.Parallel()
	l := newLab(t, redistest.NewServer(t).Client())
	l.seed("owner you:1=4 | queue me:2=6 | timeout you:1=20s me:2=20s | counter 8 | meta declared=1 layout=2 since=7 until=80s plain=1+")
	_, answered := l.renewAll(seededKnown, time.Minute, 0, tickets("me:2")) // a full server refuses to cache it
	require.True(t, answered)
	require.NoError(t, l.rdb.ConfigSet(background, "maxmemory", "1").Err())
	t.Cleanup(func() { assert.NoError(t, l.rdb.ConfigSet(background, "maxmemory", "0").Err()) })
	_, answered = l.renewAll(seededKnown, time.Hour, 0, tickets("me:2"))
	assert.True(t, answered)
	assert.Greater(t, l.rdb.ZScore(background, l.keys[2], "me:2").Val(), float64(l.now().Add(50*time.Minute).UnixMilli()))
}

// V8: the more entries a name has, the longer each id takes.
func TestPlainRefreshLeavesTheIDsOfVeryManyEntriesToRefresh(t *testing.T) {
	t.Parallel()
	l := newLab(t, testclient.Settled(t))
	l.seed("owner you:1=4 | timeout you:1=20s | counter 8 | meta declared=1 layout=2 since=7 until=80s plain=1+")
	const many = 20_000
	deadline := float64(l.now().Add(time.Hour).UnixMilli())
	var others []redis.Z
	for i := range many {
		others = append(others, redis.Z{Score: deadline, Member: fmt.Sprint("me:", 2+i)})
	}
	for some := range slices.Chunk(others, 5000) {
		require.NoError(t, l.rdb.ZAdd(background, l.keys[2], some...).Err())
	}
	declined := func() bool {
		got := l.run(PlainRefresh(l.space.About("name"), seededKnown, time.Minute, 1, tickets("you:1")))
		require.NoError(t, got.err)
		return PlainRefreshScript.Declined(got.numbers)
	}
	assert.True(t, declined())
	require.NoError(t, l.rdb.ZRemRangeByRank(background, l.keys[2], -1, -1).Err())
	assert.False(t, declined())
}

func TestRenewalsAreDecodedOnlyIfTheReplyIsSound(t *testing.T) {
	t.Parallel()
	r, err := DecodeRenewed([]int64{20, 4, 2, 1, 4}, seededKnown, 2, 4)
	require.NoError(t, err)
	assert.Equal(t, []Result{{State: Gone}, {State: Held}, {State: Waiting}, {State: Gone}}, r.Results)
	assert.Equal(t, []any{20 * time.Millisecond, int64(4), PlainWithQueue, int64(seededEpoch), seededKnown.Since},
		[]any{r.Next, r.Waiters, r.Plain, r.Epoch, r.Since})
	for _, raw := range [][]int64{nil, {20, 4}, {MaxWait + 1, 4, 2}, {20, 4, 2, 0}, {20, 4, 2, 5}, {20, 4, 2, 1, -1}} {
		_, err := DecodeRenewed(raw, seededKnown, 2, 4)
		assert.ErrorIs(t, err, ErrReply, "%v", raw)
	}
}
