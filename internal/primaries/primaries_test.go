package primaries

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script is a cluster whose queries end as the functions say, one after the other.
type script struct {
	queries []func(ctx context.Context) error
	begun   atomic.Int32
	node    *redis.Client
}

func (s *script) ForEachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error {
	if err := s.queries[s.begun.Add(1)-1](ctx); err != nil {
		return err
	}
	return fn(ctx, s.node)
}

func answers(context.Context) error { return nil }

func silent(context.Context) error {
	time.Sleep(5 * time.Second)
	return errors.New("i/o timeout")
}

func refuses(context.Context) error { return errors.New("connection refused") }

// of searches a cluster whose queries have ended when the test has.
func of(ctx context.Context, t *testing.T, queries ...func(context.Context) error) (s *script, nodes []*redis.Client, err error) {
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	s = &script{queries: queries, node: new(redis.Client)}
	nodes, err = Of(ctx, s, running.Go)
	return s, nodes, err
}

func TestClusterThatAnswersIsQueriedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, nodes, err := of(t.Context(), t, answers)
		require.NoError(t, err)
		assert.Equal(t, []*redis.Client{s.node}, nodes)
		assert.EqualValues(t, 1, s.begun.Load())
	})
}

func TestSilentNodeHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s, nodes, err := of(t.Context(), t, silent, silent, answers)
		require.NoError(t, err)
		assert.Equal(t, []*redis.Client{s.node}, nodes)
		assert.Equal(t, 2*patience, time.Since(began), "by the time of the test")
	})
}

// The test waits for the first query, too.
func TestQueryThatWaitsForAConnectionEndsWithTheSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		_, nodes, err := of(t.Context(), t, waits, answers)
		require.NoError(t, err)
		assert.Len(t, nodes, 1)
	})
}

func TestFailureCountsOnceEveryQueryHasFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, nodes, err := of(t.Context(), t, silent, refuses, silent, answers)
		require.NoError(t, err)
		assert.Equal(t, []*redis.Client{s.node}, nodes)
	})
	synctest.Test(t, func(t *testing.T) {
		s, _, err := of(t.Context(), t, refuses)
		require.EqualError(t, err, "connection refused")
		assert.EqualValues(t, 1, s.begun.Load())
	})
	synctest.Test(t, func(t *testing.T) {
		s, _, err := of(t.Context(), t, append([]func(context.Context) error{silent, refuses}, slices.Repeat([]func(context.Context) error{silent}, most-2)...)...)
		require.EqualError(t, err, "connection refused", "the first that failed")
		assert.EqualValues(t, most, s.begun.Load())
	})
}

func TestEndOfTheContextEndsTheSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*patience+1)
		defer cancel()
		s, _, err := of(ctx, t, silent, silent, silent, silent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualValues(t, 4, s.begun.Load())
	})
}
