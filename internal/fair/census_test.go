package fair

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

// refusal refuses one script call: the one before which so many are sent, if that is not negative.
type refusal struct {
	redis.Hook
	left atomic.Int64
}

type refused struct{}

func (refused) Error() string { return "NOPERM" }
func (refused) RedisError()   {}

func (h *refusal) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *refusal) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
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

func TestCensusThatLacksAnAnswerIsAnError(t *testing.T) {
	t.Parallel()
	server := fairsemtest.NewServer(t)
	c := server.Client(fairsem.Options{})
	s, err := c.Semaphore("a", 1)
	require.NoError(t, err)
	p, err := s.Acquire(t.Context(), 1)
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
	now, err := Take(t.Context(), observer.Inspect("a")) // the server has the scripts then
	require.NoError(t, err)
	require.Len(t, now.All, 1)
	for i := range 3 { // Status, Waiters and Holders
		h.left.Store(int64(i))
		_, err := Take(t.Context(), observer.Inspect("a"))
		require.ErrorContains(t, err, "NOPERM", "question %d", i)
	}
	require.NoError(t, p.Release(t.Context()))
}
