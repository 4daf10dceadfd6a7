package fairsemasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemasynq"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// A task from a queue on loopback, one at a time, without and with a limit, and a pair without a task.
func BenchmarkTask(b *testing.B) {
	s := worldtest.Unreached(b, nil)
	b.Run("bare", func(b *testing.B) { benchmarkTask(b, nil) })
	b.Run("limited", func(b *testing.B) { benchmarkTask(b, s) })
	b.Run("pair", func(b *testing.B) { worldtest.BenchmarkPair(b, s) })
}

func benchmarkTask(b *testing.B, limit *fairsem.Semaphore) {
	redis := asynq.RedisClientOpt{Addr: redistest.SharedServer(b).Addr()}
	queue := b.Name() + uuid.NewString()
	config := configOf(1, queue)
	mux := asynq.NewServeMux()
	if limit != nil {
		limited, err := fairsemasynq.Middleware(&config, limit, fairsemasynq.Options{})
		require.NoError(b, err)
		mux.Use(limited)
	}
	done := make(chan struct{}, b.N)
	mux.HandleFunc("job", func(context.Context, *asynq.Task) error { done <- struct{}{}; return nil })
	enqueue(redis, b.N, "job", asynq.Queue(queue))
	server := asynq.NewServer(redis, config)
	b.ReportAllocs()
	b.ResetTimer()
	require.NoError(b, server.Start(mux))
	for range b.N {
		<-done
	}
	b.StopTimer()
	server.Shutdown()
	inspector := asynq.NewInspector(redis)
	require.NoError(b, inspector.DeleteQueue(queue, true))
	require.NoError(b, inspector.Close())
}

// The cost of a task beside its handling and a pair of acquire and release.
func TestEachTaskMakesAtMostTwentyAllocationsOfItsOwn(t *testing.T) {
	cost := worldtest.NewCost(t)
	var config asynq.Config
	limited, err := fairsemasynq.Middleware(&config, cost.Limit, fairsemasynq.Options{MaxWait: time.Minute})
	require.NoError(t, err)
	ctx := config.BaseContext()
	handler := limited(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	task := asynq.NewTask("job", nil)
	n := cost.Allocations(t, func() { require.NoError(t, handler.ProcessTask(ctx, task)) })
	assert.LessOrEqual(t, n, 20.0)
}
