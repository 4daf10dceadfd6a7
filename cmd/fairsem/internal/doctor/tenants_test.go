package doctor

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

const acme = "ac\x1bme \xff"

// occupyShared has two tenants use a name of 5 units: acme holds 3 with a share of 3 and waits for 2, the nameless one holds 1.
func occupyShared(t *testing.T, rdb redis.UniversalClient, prefix, name string) (nameless, heavy string) {
	t.Helper()
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: prefix, TTL: time.Hour, Grace: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // some tests break the permits to be released
	sem, err := client.Semaphore(name, 5)
	require.NoError(t, err)
	of := sem.With(fairsem.CallOptions{Tenant: acme, Share: 3, TenantLimit: 5})
	three, err := of.Acquire(t.Context(), 3)
	require.NoError(t, err)
	one, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	go func() { _, _ = of.Acquire(t.Context(), 2) }() // ends with the test, or with the client
	require.Eventually(t, func() bool {
		return rdb.ZCard(t.Context(), protocol.Keyspace{Prefix: prefix}.Key(name, protocol.Queue)).Val() == 1
	}, time.Minute, time.Millisecond)
	return one.ID(), three.ID()
}

func TestEveryFaultOfTenantsIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	const written = `'ac\x1bme \xff'`
	for what, c := range map[string]struct {
		spoil   func(*broken)
		problem string
		want    State
		says    string
	}{
		"too many units": {func(b *broken) {
			b.account(func(fields []string) { fields[1] = "4" })
		}, "tenant", Fail, "tenants that hold something else than is counted, so their shares are wrong: 1, the first " + written + ", with 3 units in 1 permit, counted as 4 in 1"},
		"too few permits": {func(b *broken) {
			b.account(func(fields []string) { fields[2] = "0" })
		}, "tenant", Fail, "with 3 units in 1 permit, counted as 3 in 0"},
		"another generation counts as nothing": {func(b *broken) {
			b.account(func(fields []string) { fields[0] = "99" })
		}, "tenant", Fail, "with 3 units in 1 permit, counted as 0 in 0"},
		"no record": {func(b *broken) {
			b.do("HDEL", b.key("tenants"), ":"+acme)
		}, "tenant", Fail, "counted as 0 in 0"},
		"a record of nobody": {func(b *broken) {
			b.do("HSET", b.key("tenants"), ":nobody", b.generation()+" 2 1 1 0 0 100000000000000")
		}, "tenant", Fail, "the first nobody, with 0 units in 0 permits, counted as 2 in 1"},
		"a wrong sum": {func(b *broken) {
			b.do("HSET", b.key("tenants"), "all", b.generation()+" 9 0")
		}, "tenant-sum", Warn, "4 units in use are counted as 9 for all tenants"},
		"no sum": {func(b *broken) {
			b.do("HDEL", b.key("tenants"), "all")
		}, "tenant-sum", Warn, "4 units in use are counted as 0 for all tenants"},
		"a waiter without a lane": {func(b *broken) {
			b.do("DEL", b.key("lanes")) // also that of nobody, which an earlier attempt has left
			b.do("ZADD", b.key("lanes"), 0, "0:00000000000001x:1")
		}, "lane", Fail, "waiters that are missing in the queue of their tenant: 1, the first "},
		"a lane of nobody": {func(b *broken) {
			b.do("ZADD", b.key("lanes"), 0, "0:00000000000001x:1")
		}, "lane-surplus", Fail, "that are no waiters, which can hold up others: 1"},
		"no turn": {func(b *broken) {
			b.do("DEL", b.key("turns"))
		}, "turn", Fail, "tenants whose turn never comes although they wait: 1, the first " + written},
		"a late turn": {func(b *broken) {
			turn := b.rdb.ZRange(b.t.Context(), b.key("turns"), 0, 0).Val()[0]
			b.do("ZADD", b.key("turns"), 7, turn)
		}, "turn-late", Warn, "tenants whose turn is not where the units that they hold put it: 1, the first " + written},
		"lanes for ever": {func(b *broken) {
			b.do("PERSIST", b.key("lanes"))
		}, "immortal", Fail, "wrote them: lanes"},
		"tenants that end early": {func(b *broken) {
			b.do("PEXPIRE", b.key("tenants"), 600_000)
		}, "expiry", Fail, "would lose its holder: tenants"},
		"three other types": {func(b *broken) {
			for _, kind := range []string{"lanes", "turns", "tenants"} {
				b.do("DEL", b.key(kind))
				b.do("SET", b.key(kind), "x", "EX", 100)
			}
		}, "type", Fail, "so every call fails: lanes, turns, tenants"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := meet(t, "redis://"+s.Addr(), usual())
			b := &broken{t: t, rdb: s.Client(), p: p, name: what + " \x1b[31m\n\u202e}:owner", now: time.Now()}
			b.light, b.heavy = occupyShared(t, b.rdb, p.Prefix, b.name)
			require.Len(t, p.runs(t, "semaphores"), 1)

			var found Finding
			require.Eventually(t, func() bool { // a living client queries its entries once, which corrects some of them, or a part
				c.spoil(b)
				all := p.runs(t, "semaphores")
				i := slices.IndexFunc(all, func(f Finding) bool { return f.Details["problem"] == c.problem })
				if i >= 0 {
					found = all[i]
				}
				return i >= 0
			}, time.Minute, 10*time.Millisecond, "no finding has the problem %q", c.problem)
			assert.Equal(t, c.want, found.State)
			assert.Contains(t, found.Message, c.says)
			assert.NotEmpty(t, found.Advice)
			var out bytes.Buffer
			Page{Out: &out}.Show(found)
			assert.Equal(t, 2, strings.Count(out.String(), "\n"), "one line, and what to do")
			assert.NotContains(t, out.String(), "\x1b")
		})
	}
}

// account changes the record of acme.
func (b *broken) account(change func(fields []string)) {
	b.t.Helper()
	record, err := b.rdb.HGet(b.t.Context(), b.key("tenants"), ":"+acme).Result()
	require.NoError(b.t, err)
	fields := strings.Fields(record)
	change(fields)
	b.do("HSET", b.key("tenants"), ":"+acme, strings.Join(fields, " "))
}

// generation is the one of the records that count.
func (b *broken) generation() string {
	b.t.Helper()
	generation, _, _ := strings.Cut(b.rdb.HGet(b.t.Context(), b.key("tenants"), "all").Val(), " ")
	require.NotEmpty(b.t, generation)
	return generation
}

func TestWhileTenantsAreCountedAgainNothingIsCompared(t *testing.T) {
	t.Parallel()
	assert.Len(t, accounts{complete: true, wrong: 1, sum: 3, units: 4}.judge(), 2)
	assert.Empty(t, accounts{complete: true, counting: true, wrong: 1, sum: 3, units: 4}.judge())
	assert.Empty(t, accounts{wrong: 1, sum: 3, units: 4}.judge(), "there are too many")
	a, err := decodeAccounts([]any{int64(1), int64(1), "-1", "0", []any{int64(0)}, []any{int64(0), nil}, int64(0), []any{int64(0)}, []any{int64(0)}})
	require.NoError(t, err)
	assert.Equal(t, accounts{complete: true, counting: true, sum: -1}, a)
	_, err = decodeAccounts([]any{int64(1)})
	assert.ErrorIs(t, err, errReply)
}

// The advice comes true.
func TestTheNextCallCorrectsTheSumOfTenants(t *testing.T) {
	t.Parallel()
	s := redistest.SharedServer(t)
	p := meet(t, "redis://"+s.Addr(), usual())
	b := &broken{t: t, rdb: s.Client(), p: p, name: "n"}
	occupyShared(t, b.rdb, p.Prefix, b.name)
	client, err := fairsem.New(b.rdb, fairsem.Options{Prefix: p.Prefix})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	sem, err := client.Semaphore(b.name, 5)
	require.NoError(t, err)
	for _, spoil := range []func(){
		func() {
			b.account(func(fields []string) { fields[1] = "9" })
			b.do("HSET", b.key("tenants"), "all", b.generation()+" 9 0") // last: a record that a call has corrected meanwhile is of no count
		},
		func() { b.do("ZADD", b.key("lanes"), 0, "0:00000000000001x:1") },
		func() { b.do("DEL", b.key("lanes"), b.key("turns")) },
	} {
		found := false
		for range 20 { // a call of the waiter may have corrected it before doctor looked
			spoil()
			if found = len(p.runs(t, "semaphores")) > 1; found {
				break
			}
		}
		assert.True(t, found)
		_, err = sem.TryAcquire(t.Context(), 5)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		all := p.runs(t, "semaphores")
		assert.Len(t, all, 1, fmt.Sprint(all))
	}
}
