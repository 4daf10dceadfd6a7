package fairsemriver_test

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemriver"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// A job from a PostgreSQL on loopback, one at a time, without and with a limit, and a pair without a job.
func BenchmarkJob(b *testing.B) {
	s := worldtest.Unreached(b, nil)
	b.Run("bare", func(b *testing.B) { benchmarkJob(b, nil) })
	b.Run("limited", func(b *testing.B) { benchmarkJob(b, s) })
	b.Run("pair", func(b *testing.B) { worldtest.BenchmarkPair(b, s) })
}

func benchmarkJob(b *testing.B, limit *fairsem.Semaphore) {
	pool, schema, err := open(b.Context())
	require.NoError(b, err)
	defer pool.Close()
	done := make(chan struct{}, b.N)
	config := configOf(schema, map[string]int{river.QueueDefault: 1}, func(context.Context, *river.Job[job]) error {
		done <- struct{}{}
		return nil
	})
	config.FetchCooldown = time.Millisecond // the least
	if limit != nil {
		limited, err := fairsemriver.Middleware(limit, fairsemriver.Options{})
		require.NoError(b, err)
		config.Middleware = []rivertype.Middleware{limited}
	}
	c, err := river.NewClient(riverpgxv5.New(pool), config)
	require.NoError(b, err)
	jobs := make([]river.InsertManyParams, b.N)
	for i := range jobs {
		jobs[i].Args = job{}
	}
	_, err = c.InsertManyFast(b.Context(), jobs)
	require.NoError(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	require.NoError(b, c.Start(b.Context()))
	for range b.N {
		<-done
	}
	b.StopTimer()
	require.NoError(b, c.Stop(context.WithoutCancel(b.Context())))
}

// The cost of a job beside its work and a pair of acquire and release.
func TestEachJobMakesAtMostTwentyAllocationsOfItsOwn(t *testing.T) {
	cost := worldtest.NewCost(t)
	limited, err := fairsemriver.Middleware(cost.Limit, fairsemriver.Options{MaxWait: time.Minute})
	require.NoError(t, err)
	row := new(rivertype.JobRow)
	n := cost.Allocations(t, func() {
		require.NoError(t, limited.Work(t.Context(), row, func(context.Context) error { return nil }))
	})
	assert.LessOrEqual(t, n, 20.0)
}
