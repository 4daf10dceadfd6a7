package fairsem_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// as returns s for calls of a tenant.
func as(s *fairsem.Semaphore, tenant string, change ...func(*fairsem.CallOptions)) *fairsem.Semaphore {
	o := fairsem.CallOptions{Tenant: tenant}
	for _, c := range change {
		c(&o)
	}
	return s.With(o)
}

func share(n int64) func(*fairsem.CallOptions) { return func(o *fairsem.CallOptions) { o.Share = n } }

func tenantLimit(n int64) func(*fairsem.CallOptions) {
	return func(o *fairsem.CallOptions) { o.TenantLimit = n }
}

// group are calls of a tenant, in the order in which they were made.
type group struct {
	calls []*call
	held  []*fairsem.Permit
}

// joins makes so many calls of a tenant, all of which hold or wait.
func (w *world) joins(s *fairsem.Semaphore, n int) *group {
	w.t.Helper()
	c := &group{}
	for range n {
		before := w.status(s)
		c.calls = append(c.calls, acquire(w.t.Context(), s, 1))
		w.eventually(func() bool {
			now := w.status(s)
			return now.Waiting+now.Holders == before.Waiting+before.Holders+1
		}, "the call neither holds nor waits")
	}
	return c
}

// takes waits until the first calls of a group are granted, n in all.
func (w *world) takes(c *group, n int) {
	w.t.Helper()
	for i := len(c.held); i < n; i++ {
		c.held = append(c.held, w.granted(c.calls[i]))
	}
}

// gives releases a permit of a group.
func (w *world) gives(c *group) {
	w.t.Helper()
	w.release(c.held[0])
	c.held, c.calls = c.held[1:], c.calls[1:]
}

// ends releases everything, as it is granted.
func (w *world) ends(all ...*group) {
	for left := true; left; {
		left = false
		for _, c := range all {
			if len(c.calls) > 0 && !c.calls[0].waits() {
				w.takes(c, 1)
				w.gives(c)
			}
			left = left || len(c.calls) > 0
		}
	}
}

// used returns the units that each tenant holds.
func (w *world) used(s *fairsem.Semaphore) map[string]int64 {
	w.t.Helper()
	all := make(map[string]int64)
	for tenant, err := range s.Tenants(w.t.Context()) {
		require.NoError(w.t, err)
		all[tenant.Name] = tenant.Used
	}
	return all
}

// S12
func TestTenantsShareALimitHoweverManyCallsOfEachWait(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 4
		noisy := w.joins(as(w.semaphore(), "noisy"), 12)
		w.takes(noisy, 4)
		quiet := w.joins(as(w.semaphore(), "quiet"), 3)
		for n := range 2 {
			w.gives(noisy)
			w.takes(quiet, n+1)
		}
		s := w.semaphore()
		assert.Equal(t, map[string]int64{"noisy": 2, "quiet": 2}, w.used(s))
		w.gives(quiet) // each holds the same after its release, but for one unit
		w.takes(quiet, 2)
		assert.Equal(t, map[string]int64{"noisy": 2, "quiet": 2}, w.used(s))
		w.ends(noisy, quiet)
	})
}

func TestTenantWithTwiceTheShareGetsTwiceTheUnits(t *testing.T) {
	w := onRedis(t)
	w.limit = 6
	small := w.joins(as(w.semaphore(), "small"), 12)
	w.takes(small, 6)
	large := w.joins(as(w.semaphore(), "large", share(2)), 8)
	for n := range 4 {
		w.gives(small)
		w.takes(large, n+1)
	}
	w.gives(small)
	w.takes(small, 2)
	assert.Equal(t, map[string]int64{"small": 2, "large": 4}, w.used(w.semaphore()))
	w.ends(small, large)
}

func TestTenantThatIsAloneGetsEverything(t *testing.T) {
	w := onRedis(t)
	w.limit = 3
	alone := w.joins(as(w.semaphore(), "alone"), 5)
	w.takes(alone, 3)
	w.ends(alone)
}

func TestTenantAtItsLimitHoldsUpNobodyElse(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		bounded := w.joins(as(w.semaphore(), "bounded", tenantLimit(1)), 3)
		other := w.joins(as(w.semaphore(), "other"), 2)
		w.takes(other, 2)
		assert.Equal(t, map[string]int64{"bounded": 1, "other": 2}, w.used(w.semaphore()))
		w.ends(bounded, other)
	})
}

// The newest declaration stands, as for limits.
func TestTenantLimitThatIsRaisedGrantsToItsWaiters(t *testing.T) {
	w := onRedis(t)
	w.limit = 3
	s := w.semaphore()
	bounded := w.joins(as(s, "bounded", tenantLimit(1)), 2)
	w.takes(bounded, 1)
	more := w.joins(as(s, "bounded", tenantLimit(3)), 1)
	w.takes(bounded, 2)
	w.takes(more, 1)
	w.ends(bounded, more)
	w.awaitsDeclaration("bounded")
	p := w.must(as(w.semaphore(), "bounded", tenantLimit(2)).Acquire(t.Context(), 1))
	for tenant, err := range s.Tenants(t.Context()) {
		require.NoError(t, err)
		assert.Equal(t, fairsem.Tenant{Name: "bounded", Share: 1, Limit: 2, Used: 1, Holders: 1}, tenant)
	}
	w.release(p)
}

// awaitsDeclaration waits until what was declared of a tenant is older than what another client declares. A client takes its first call for
// executed as soon as it was written, so the time of a later declaration is too late by what that took.
func (w *world) awaitsDeclaration(tenant string) {
	w.t.Helper()
	record := strings.Fields(w.rdb.HGet(w.t.Context(), w.key("tenants"), ":"+tenant).Val())
	require.Len(w.t, record, 7)
	declared, err := strconv.ParseInt(record[5], 10, 64)
	require.NoError(w.t, err)
	w.eventually(func() bool { return w.rdb.Time(w.t.Context()).Val().UnixMicro() > declared }, "the time of the declaration has not come")
}

func TestTryAcquireOfATenantSucceedsWhenItWouldBeNext(t *testing.T) {
	w := onRedis(t)
	w.limit = 4
	s := w.semaphore()
	first := w.must(as(s, "first").Acquire(t.Context(), 3))
	ctx, cancel := context.WithCancel(t.Context())
	waits := w.queue(ctx, as(w.semaphore(), "first"), 2)
	_, err := as(s, "first").TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired, "a call of the same tenant waits")
	p := w.must(as(s, "second").TryAcquire(t.Context(), 1)) // it holds nothing, so it is before the other
	_, err = as(s, "third").TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired, "nothing is free")
	cancel()
	<-waits.done
	w.release(first)
	w.release(p)
}

// Where a process used handles of two limits on a name, it took the third of these calls for a repetition of the first.
func TestShareIsWhatTheLastCallDeclaresWhateverLimitItDeclares(t *testing.T) {
	w := onRedis(t)
	c := w.client()
	ten, twenty := w.of(c, 10), w.of(c, 20)
	for _, call := range []struct {
		s     *fairsem.Semaphore
		share int64
	}{{ten, 1}, {twenty, 2}, {ten, 1}} {
		p := w.must(as(call.s, "a", share(call.share)).Acquire(t.Context(), 1))
		for tenant, err := range ten.Tenants(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, call.share, tenant.Share)
		}
		defer w.release(p)
	}
}

// SetLimit refused it before its turn if the call before it was granted the last unit.
func TestCallForMoreThanASmallerLimitIsRefusedWhenItsTenantIsNext(t *testing.T) {
	w := onRedis(t)
	w.limit = 4
	s := w.semaphore()
	w.release(w.must(s.Acquire(t.Context(), 1))) // a server that was just started grants nothing at first
	w.pin(s, 0)
	first := w.queue(t.Context(), as(s, "b"), 1)
	large := w.queue(t.Context(), as(s, "b"), 4)
	other := w.queue(t.Context(), as(s, "a"), 1)
	w.pin(s, 1)
	held := w.granted(first)
	require.Equal(t, int64(2), w.status(s).Waiting, "a holds nothing, so it is next")
	w.release(held)
	held = w.granted(other)
	require.True(t, large.waits())
	w.release(held)
	<-large.done
	assert.ErrorIs(t, large.err, fairsem.ErrExceedsLimit)
}

// A head start is for the queue. Where tenants share the name, one that does not wait overtook the calls of its tenant.
func TestTryAcquireWithAHeadStartOvertakesNoWaiterOfItsTenant(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		for _, o := range []fairsem.CallOptions{{}, {Tenant: "a"}} {
			s := w.semaphore().With(o)
			held := w.must(s.Acquire(t.Context(), 1))
			waiter := w.queue(t.Context(), s, 3)
			o.HeadStart = time.Hour
			_, err := s.With(o).TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, fairsem.ErrNotAcquired)
			w.release(held)
			w.release(w.granted(waiter))
		}
	})
}

func TestMaxQueueCountsTheCallsOfTheTenant(t *testing.T) {
	w := onRedis(t)
	s := w.semaphore()
	held := w.must(s.Acquire(t.Context(), 1))
	many := w.joins(as(s, "many"), 3)
	short := as(s, "few", func(o *fairsem.CallOptions) { o.MaxQueue = 1 })
	few := w.joins(short, 1)
	_, err := short.Acquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrQueueFull)
	assert.Contains(t, err.Error(), `tenant "few"`)
	w.release(held)
	w.ends(many, few)
}

// Errors come before anything is sent: nothing listens at that address.
func TestTenantsThatCanNeverWorkAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	c, err := fairsem.New(rdb, fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	s, err := c.Semaphore("a", 10)
	require.NoError(t, err)
	for why, o := range map[string]fairsem.CallOptions{
		"Tenant":            {Tenant: strings.Repeat("x", 129)},
		"Share -1":          {Share: -1},
		"Share 1000001":     {Share: 1_000_001},
		"TenantLimit -1":    {TenantLimit: -1},
		"TenantLimit 90071": {TenantLimit: 1 << 53},
	} {
		_, err := s.With(o).Acquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrInvalid, why)
		assert.Contains(t, err.Error(), why)
	}
	_, err = as(s, "small", tenantLimit(2)).TryAcquire(t.Context(), 3)
	require.ErrorIs(t, err, fairsem.ErrExceedsLimit)
	assert.Contains(t, err.Error(), `TenantLimit 2 of tenant "small"`)
}

// The limit of the name was said to be that of the tenant.
func TestErrExceedsLimitOfATenantSaysWhichLimit(t *testing.T) {
	w := onRedis(t)
	w.limit = 2
	s := w.semaphore()
	_, err := as(s, "acme").Acquire(t.Context(), 3)
	wrong(t, err, fairsem.ErrExceedsLimit, "3 is more than the limit 2 of the name")
	assert.NotContains(t, err.Error(), "acme")
	held := w.must(as(w.semaphore(), "acme", tenantLimit(1)).Acquire(t.Context(), 1)) // a newer declaration
	_, err = as(s, "acme").Acquire(t.Context(), 2)
	wrong(t, err, fairsem.ErrExceedsLimit, `of the name or of tenant "acme": the limit in force is lower than the one this call declares`)
	w.release(held)
}

// The pace of a name is that of all its tenants: a quiet one was said to wait for the queue of a noisy one.
func TestExpectedWaitIsNotKnownForTheCallsOfATenant(t *testing.T) {
	w := onRedis(t)
	s := w.semaphore()
	wait, known := w.status(s).ExpectedWait()
	assert.Equal(t, []any{time.Duration(0), true}, []any{wait, known})
	for _, o := range []fairsem.CallOptions{{Tenant: "quiet"}, {Share: 2}, {TenantLimit: 1}} {
		_, known = w.status(s.With(o)).ExpectedWait()
		assert.False(t, known, "%+v", o)
		_, known = w.status(s.With(o).With(fairsem.CallOptions{})).ExpectedWait()
		assert.True(t, known, "other options replace it")
	}
	st, err := w.mutex().With(fairsem.CallOptions{Tenant: "quiet"}).Status(t.Context())
	require.NoError(t, err)
	_, known = st.ExpectedWait()
	assert.False(t, known, "a lock")
}

// Any bytes are a name, and no two names are the same tenant.
func TestTenantsWithAnyNameAreKeptApart(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		names := []string{"", "a", "a:", ":a", "a:b", "\x00", "a\x00", "\xff", "{x}", "#", "é", "all", strings.Repeat("x", 128)}
		w.limit = int64(len(names))
		s := w.semaphore()
		var held []*fairsem.Permit
		for _, name := range names {
			held = append(held, w.must(as(s, name, tenantLimit(1)).TryAcquire(t.Context(), 1)))
		}
		used := w.used(s)
		var tickets []string
		for ticket, err := range s.Holders(t.Context()) {
			require.NoError(t, err)
			tickets = append(tickets, ticket.Tenant)
		}
		assert.Equal(t, names, tickets)
		for _, name := range names {
			assert.Equal(t, int64(1), used[name], "%q", name)
		}
		assert.Len(t, used, len(names))
		for _, p := range held {
			w.release(p)
		}
	})
}

func TestMutexIsHandedFromTenantToTenant(t *testing.T) {
	w := onRedis(t)
	m := w.mutex()
	one, two := m.With(fairsem.CallOptions{Tenant: "one"}), m.With(fairsem.CallOptions{Tenant: "two"})
	held := w.must(one.Lock(t.Context()))
	var order []string
	done := make(chan string)
	for _, who := range []struct {
		name string
		m    *fairsem.Mutex
	}{{"one", one}, {"one", one}, {"two", two}} {
		before, err := m.Status(t.Context())
		require.NoError(t, err)
		go func() { // ends with the lock
			err := unlessLate(who.m.Do(t.Context(), func(context.Context) error { done <- who.name; return nil }))
			assert.NoError(t, err)
			done <- ""
		}()
		w.eventually(func() bool {
			now, err := m.Status(t.Context())
			return err == nil && now.Waiting == before.Waiting+1
		}, "the call does not wait")
	}
	w.release(held)
	for len(order) < 6 {
		order = append(order, <-done)
	}
	assert.Equal(t, []string{"two", "one", "one"}, slices.DeleteFunc(order, func(s string) bool { return s == "" }))
}

func TestWaitingWriterBlocksTheReadersOfItsTenantUntilItIsNext(t *testing.T) {
	w := onRedis(t)
	m, err := w.client().RWMutex(w.name)
	require.NoError(t, err)
	one, two := m.With(fairsem.CallOptions{Tenant: "one"}), m.With(fairsem.CallOptions{Tenant: "two"})
	reader := w.must(one.RLock(t.Context()))
	written := make(chan error)
	go func() { written <- one.Do(t.Context(), func(context.Context) error { return nil }) }() // ends with the lock
	w.eventually(func() bool {
		now, err := m.Status(t.Context())
		return err == nil && now.Waiting == 1
	}, "the writer does not wait")
	_, err = one.TryRLock(t.Context())
	require.ErrorIs(t, err, fairsem.ErrNotAcquired)
	passes := w.must(two.TryRLock(t.Context())) // its tenant holds less than that of the writer
	w.release(reader)
	_, err = two.TryRLock(t.Context())
	require.ErrorIs(t, err, fairsem.ErrNotAcquired, "the writer is next")
	w.release(passes)
	require.NoError(t, unlessLate(<-written))
}

func TestLimiterSharesItsUnitsBetweenTenants(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l := w.limiter(5, time.Hour)
		w.take(l, 1)
		one := l.With(fairsem.CallOptions{Tenant: "one", TenantLimit: 2})
		for range 2 {
			assert.True(t, w.allow(one, 1).Allowed)
		}
		d := w.allow(one, 1)
		assert.False(t, d.Allowed, "it was granted as much as it may have")
		assert.InDelta(t, time.Hour, d.RetryAfter, float64(time.Minute), "its own grants have to expire")
		assert.True(t, w.allow(l.With(fairsem.CallOptions{Tenant: "two"}), 2).Allowed, "it holds up nobody else")
	})
}

func TestWeightedOfATenantIsOneOfItsOwn(t *testing.T) {
	w := onRedis(t)
	w.limit = 4
	all := w.weighted()
	one, two := all.With(fairsem.CallOptions{Tenant: "one", TenantLimit: 3}), all.With(fairsem.CallOptions{Tenant: "two"})
	require.NoError(t, one.Acquire(t.Context(), 3))
	assert.False(t, one.TryAcquire(1), "it has as much as it may have")
	assert.True(t, two.TryAcquire(1))
	assert.Panics(t, func() { two.Release(2) }, "it releases what it acquired")
	one.Release(3)
	two.Release(1)
	w.eventually(func() bool { s, err := all.Status(t.Context()); return err == nil && s.Used == 0 }, "units are left")
}

// As in x/sync, where n is more than the size.
func TestWeightedCallForMoreThanTheTenantLimitOfItsHandleSendsNothingAndWaitsForItsContext(t *testing.T) {
	t.Parallel()
	all, err := offlineClient(t).Weighted("a", 5)
	require.NoError(t, err)
	w := all.With(fairsem.CallOptions{Tenant: "small", TenantLimit: 2})
	assert.False(t, w.TryAcquire(3))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	assert.Equal(t, context.Canceled, w.Acquire(endsWhenWaitedFor{ctx, cancel}, 3))
}

// endsWhenWaitedFor is a context that ends when a call waits for its end.
type endsWhenWaitedFor struct {
	context.Context
	cancel func()
}

func (c endsWhenWaitedFor) Done() <-chan struct{} {
	c.cancel()
	return c.Context.Done()
}

func TestEventsAndTicketsSayWhoseTheyAre(t *testing.T) {
	w := onRedis(t)
	c, d := w.observed(w.connect())
	s := as(w.of(c, 1), "acme")
	p := w.must(s.Acquire(t.Context(), 1))
	waits := w.queue(t.Context(), s, 1)
	for ticket, err := range s.Waiters(t.Context()) {
		require.NoError(t, err)
		assert.Equal(t, "acme", ticket.Tenant)
		assert.True(t, strings.HasSuffix(ticket.ID, ":acme"))
	}
	w.release(p)
	w.release(w.granted(waits))
	var tenants []string
	for _, e := range w.finish(c, d) {
		switch e := e.(type) {
		case fairsem.GrantedEvent:
			tenants = append(tenants, "granted "+e.Tenant)
		case fairsem.ReleasedEvent:
			tenants = append(tenants, "released "+e.Tenant)
		case fairsem.WaitStartedEvent:
			tenants = append(tenants, "waits "+e.Tenant)
		}
	}
	slices.Sort(tenants)
	assert.Equal(t, []string{"granted acme", "granted acme", "released acme", "released acme", "waits acme"}, tenants)
}

// State that Redis forgot is restored with its tenants, their shares and their limits.
func TestTenantsAreRestoredAfterALossOfAllState(t *testing.T) {
	w, _ := agedServer(t)
	w.ttl, w.grace = 9*time.Second, 6*time.Second // a client finds the loss at its next renewal, within a third of the lease
	w.limit = 3
	big := w.joins(as(w.semaphore(), "big", share(2)), 4)
	w.takes(big, 3)
	small := w.joins(as(w.semaphore(), "small", tenantLimit(1)), 2)
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	s := w.semaphore()
	want := map[string]fairsem.Tenant{
		"big":   {Name: "big", Share: 2, Used: 3, Holders: 3, Waiting: 1},
		"small": {Name: "small", Share: 1, Limit: 1, Waiting: 2},
	}
	w.eventually(func() bool {
		got := make(map[string]fairsem.Tenant)
		for tenant, err := range s.Tenants(t.Context()) {
			require.NoError(t, err)
			tenant.OldestWait = 0
			got[tenant.Name] = tenant
		}
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, "not everything is restored")
	w.gives(big)
	w.takes(small, 1)
	w.gives(big)
	w.takes(big, 2)
	w.ends(big, small)
}
