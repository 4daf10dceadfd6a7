package inspect_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// newClient is one on a server of the test's own.
func newClient(t *testing.T) *fairsem.Client {
	t.Helper()
	return newClientOn(t, redistest.NewServer(t).Client())
}

func newClientOn(t *testing.T, rdb redis.UniversalClient) *fairsem.Client {
	t.Helper()
	client, err := fairsem.New(rdb, fairsem.Options{Label: "me", TTL: 10 * time.Minute}) // nothing is renewed meanwhile
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

func acquire(t *testing.T, client *fairsem.Client, name string, limit, weight int64) *fairsem.Permit {
	t.Helper()
	sem, err := client.Semaphore(name, limit)
	require.NoError(t, err)
	p, err := sem.Acquire(t.Context(), weight)
	require.NoError(t, err)
	return p
}

func TestAllNamesAreThereInOrderWithTheirLimits(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	for i := range 100 { // more than are asked about at once
		acquire(t, client, fmt.Sprintf("n%03d", 99-i), int64(i+1), 1)
	}
	seen, err := inspect.Scan(t.Context(), client, func(string) bool { return true })
	require.NoError(t, err)
	require.Empty(t, seen.Unreadable)
	require.Len(t, seen.Statuses, 100)
	for i, s := range seen.Statuses {
		assert.Equal(t, fmt.Sprintf("n%03d", i), s.Name)
		assert.Equal(t, int64(100-i), s.Limit)
		assert.Equal(t, int64(1), s.Used)
	}
}

// Of more than 1,000 only the first that a scan found were read, so some of the tenants that hold the most were missing.
func TestTenantsThatHoldTheMostAreFoundAmongMany(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s, err := client.Semaphore("n", 1_000_000)
	require.NoError(t, err)
	var group errgroup.Group
	var all []*fairsem.Permit
	var mu sync.Mutex
	for i := range 1100 {
		group.Go(func() error {
			p, err := s.With(fairsem.CallOptions{Tenant: fmt.Sprintf("t%04d", i)}).Acquire(t.Context(), int64(1+i))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, p)
			return err
		})
	}
	require.NoError(t, group.Wait())
	found, err := inspect.QueryTenantsUpTo(t.Context(), client, "n", 10, math.MaxInt)
	require.NoError(t, err)
	require.Len(t, found.All, 10)
	for i, tenant := range found.All {
		assert.Equal(t, int64(1100-i), tenant.Used)
	}
	assert.Equal(t, int64(1090), found.More)
	assert.False(t, found.Unread)
	of, err := inspect.TenantsOf(t.Context(), client, []fairsem.Status{{Name: "n", Used: 1}}, time.Minute)
	require.NoError(t, err)
	assert.Len(t, of["n"].All, 1000)
	assert.True(t, of["n"].Unread)
	for read, more := range map[int]int64{1099: 1089, 1100: 1090, 1101: 1090} {
		found, err = inspect.QueryTenantsUpTo(t.Context(), client, "n", 10, read)
		require.NoError(t, err)
		assert.Equal(t, more, found.More)
		assert.Equal(t, read < 1100, found.Unread, "there are 1100, and %d are read", read)
	}
	for _, p := range all {
		require.NoError(t, p.Release(t.Context()))
	}
}

// Entries of tenants that hold nothing were read without a bound, for each poll.
func TestTenantsThatThereIsNoTimeToReadAreUnread(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	acquire(t, client, "n", 7, 1)
	of, err := inspect.TenantsOf(t.Context(), client, []fairsem.Status{{Name: "n", Used: 1}, {Name: "idle"}}, 0)
	require.NoError(t, err)
	assert.Equal(t, map[string]inspect.Tenants{"n": {Unread: true}}, of)
}

func TestQueriesDeclareNoLimitAndLeaveNothing(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s, err := client.Inspect("nobody").Status(t.Context())
	require.NoError(t, err)
	assert.False(t, s.Exists)
	seen, err := inspect.Scan(t.Context(), client, func(string) bool { return true })
	require.NoError(t, err)
	assert.Empty(t, seen.Statuses)
	assert.Empty(t, seen.Unreadable)

	acquire(t, client, "n", 7, 1)
	s, err = client.Inspect("n").Status(t.Context())
	require.NoError(t, err)
	assert.True(t, s.Exists)
	assert.Equal(t, int64(7), s.Limit)
}

func TestDetailIsBoundedAndCountsTheRest(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	for range 5 {
		acquire(t, client, "n", 5, 1)
	}
	sem, err := client.Semaphore("n", 5)
	require.NoError(t, err)
	for i := range 3 {
		go func() { _, _ = sem.Acquire(t.Context(), 1) }() // ends with the test's context
		require.Eventually(t, func() bool {
			s, err := sem.Status(t.Context())
			return err == nil && s.Waiting == int64(i+1)
		}, time.Minute, time.Millisecond)
	}
	d, err := inspect.QueryDetail(t.Context(), client, "n", 2)
	require.NoError(t, err)
	assert.Len(t, d.Holders, 2)
	assert.Len(t, d.Waiters, 2)
	assert.Equal(t, int64(3), d.MoreHolders)
	assert.Equal(t, int64(1), d.MoreWaiters)
	assert.Equal(t, "me", d.Holders[0].Label)

	d, err = inspect.QueryDetail(t.Context(), client, "n", 10)
	require.NoError(t, err)
	assert.Len(t, d.Holders, 5)
	assert.Len(t, d.Waiters, 3)
	assert.Zero(t, d.MoreHolders+d.MoreWaiters)
}

// An expired holder is listed until a script removes it, but not counted.
func TestAnExpiredHolderHidesNoneOfThoseThatAreLeftOut(t *testing.T) {
	t.Parallel()
	rdb := redistest.NewServer(t).Client()
	client := newClientOn(t, rdb)
	expired := acquire(t, client, "n", 3, 1)
	for range 2 {
		acquire(t, client, "n", 3, 1)
	}
	require.NoError(t, rdb.ZAdd(t.Context(), protocol.DefaultKeyspace.Key("n", protocol.Timeout), redis.Z{Score: 1, Member: expired.ID()}).Err())
	d, err := inspect.QueryDetail(t.Context(), client, "n", 1)
	require.NoError(t, err)
	require.Equal(t, expired.ID(), d.Holders[0].ID)
	assert.Equal(t, int64(2), d.MoreHolders)
}

func TestTheRateIsGrantsASecondSinceThePreviousQuery(t *testing.T) {
	t.Parallel()
	var r inspect.Rates
	at := time.Now()
	assert.Empty(t, r.Add(at, []fairsem.Status{{Name: "a", Granted: 100}}), "nothing to compare with")
	at = at.Add(2 * time.Second)
	assert.Equal(t, map[string]float64{"a": 5}, r.Add(at, []fairsem.Status{{Name: "a", Granted: 110}, {Name: "b", Granted: 3}}))
	at = at.Add(time.Second)
	rates := r.Add(at, []fairsem.Status{{Name: "a", Granted: 4}, {Name: "b", Granted: 3}})
	assert.Equal(t, map[string]float64{"a": 4, "b": 0}, rates, "Redis forgot a and counts it from the start")
	assert.Empty(t, r.Add(at, nil))
	assert.Empty(t, r.Add(at.Add(time.Second), []fairsem.Status{{Name: "a", Granted: 9}}), "it was gone in between")
}
