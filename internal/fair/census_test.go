package fair

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// refusal refuses one script call: the one before which so many are sent, if that is not negative.
type refusal struct {
	testclient.Hook
	left atomic.Int64
}

type refused struct{}

func (refused) Error() string { return "NOPERM" }
func (refused) RedisError()   {}

func (h *refusal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" || h.left.Add(-1) != -1 {
			return next(ctx, cmds)
		}
		for _, c := range cmds {
			c.SetErr(refused{})
		}
		return refused{}
	}
}

// Units that others release are of no use to it.
func TestWaiterBeyondTheLimitOfItsTenantCountsForThatTenantAlone(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	handle := func(o fairsem.CallOptions) *fairsem.Semaphore {
		s, err := server.Client(fairsem.Options{}).Semaphore("a", 9)
		require.NoError(t, err)
		return s.With(o)
	}
	acquire := func(s *fairsem.Semaphore, n int64) (client string) {
		p, err := s.Acquire(t.Context(), n)
		require.NoError(t, err)
		return protocol.ClientOf(p.ID())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiters sync.WaitGroup
	defer waiters.Wait()
	defer cancel()
	await := func(s *fairsem.Semaphore, n int64) {
		before, err := s.Status(t.Context())
		require.NoError(t, err)
		waiters.Go(func() { _, _ = s.Acquire(ctx, n) })
		require.Eventually(t, func() bool {
			now, err := s.Status(t.Context())
			return err == nil && now.Waiting == before.Waiting+1
		}, time.Minute, time.Millisecond)
	}
	plain, batch, heavy := handle(fairsem.CallOptions{}), fairsem.CallOptions{Tenant: "batch", TenantLimit: 2}, fairsem.CallOptions{Tenant: "heavy", TenantLimit: 3}
	one, other, third := handle(batch), handle(batch), handle(heavy)
	me, first, last := acquire(plain, 2), acquire(one, 1), acquire(third, 2)
	second := acquire(other, 1)
	await(other, 1)
	await(third, 2)

	now, err := take(t.Context(), plain.Inspector, "")
	require.NoError(t, err)
	assert.Equal(t, map[string]Process{me: {2, 0}, first: {1, 0}, second: {1, 0}, last: {2, 0}}, now.All)
	assert.Equal(t, int64(9), now.Limit)

	now, err = take(t.Context(), one.Inspector, "batch")
	require.NoError(t, err)
	assert.Equal(t, map[string]Process{first: {1, 0}, second: {1, 1}}, now.All)
	assert.Equal(t, []int64{2, 2}, []int64{now.Limit, now.Used})

	await(plain, 9)
	now, err = take(t.Context(), third.Inspector, "heavy")
	require.NoError(t, err)
	assert.Equal(t, map[string]Process{me: {2, 9}, first: {1, 0}, second: {1, 0}, last: {2, 2}}, now.All)
}

func TestCensusThatLacksAnAnswerIsAnError(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	c := server.Client(fairsem.Options{})
	s, err := c.Semaphore("a", 1)
	require.NoError(t, err)
	_, err = s.Acquire(t.Context(), 1)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _, _ = s.Acquire(ctx, 1) }() // ends with ctx
	require.Eventually(t, func() bool { now, err := s.Status(t.Context()); return err == nil && now.Waiting == 1 }, time.Minute, time.Millisecond)

	rdb, h := server.Redis(), &refusal{}
	rdb.AddHook(h)
	observer, err := fairsem.New(rdb, fairsem.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, observer.Close()) }()
	h.left.Store(100)
	now, err := take(t.Context(), observer.Inspect("a"), "") // the server has the scripts then
	require.NoError(t, err)
	require.Len(t, now.All, 1)
	for i := range 4 { // Status, Tenants, Waiters and Holders
		h.left.Store(int64(i))
		_, err := take(t.Context(), observer.Inspect("a"), "")
		require.ErrorContains(t, err, "NOPERM", "question %d", i)
	}
}
