package main

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

var rateContenders = []string{fairWaits, fairAllows, redisRates}

func TestRateContendersGrantNoFasterThanTheirLimit(t *testing.T) {
	b := sharedBench(t)
	const limit, per = 10, 100 * time.Millisecond
	for _, contender := range rateContenders {
		t.Run(contender, func(t *testing.T) {
			w, err := newWorker(job{
				Contender: contender, Addr: b.server.addr(), Key: t.Name(), Goroutines: 4, Names: 1, Limit: limit, Per: per, Journal: true,
			})
			require.NoError(t, err)
			began := time.Now()
			o := w.run(window{now(), now() + int64(3*per)})
			windows := int(time.Since(began)/per) + 2 // the burst of GCRA counts as one more
			require.NoError(t, w.contender.close())

			assert.Zero(t, o.Failures, o.Failure)
			assert.Len(t, o.Records, o.Calls)
			assert.Greater(t, o.Calls, limit, "no call is granted after the first window")
			assert.LessOrEqual(t, o.Calls, windows*limit)
		})
	}
}

func TestRedisRateContenderWaitsAfterARefusal(t *testing.T) {
	b := sharedBench(t)
	const per = 200 * time.Millisecond
	h, err := open(job{Contender: redisRates, Addr: b.server.addr(), Limit: 2, Per: per}, 1)
	require.NoError(t, err)
	acquire, err := h.acquirer(t.Name())
	require.NoError(t, err)
	began := time.Now()
	for range 3 {
		got, err := acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, got.release(t.Context()))
	}
	assert.GreaterOrEqual(t, time.Since(began), per/2-time.Millisecond, "two at once, and then one every half window")
	require.NoError(t, h.close())
	_, err = acquire(t.Context())
	assert.ErrorIs(t, err, redis.ErrClosed)
}

func TestWaitOfTheRedisRateContenderEndsWithItsContext(t *testing.T) {
	b := sharedBench(t)
	h, err := open(job{Contender: redisRates, Addr: b.server.addr(), Limit: 1, Per: time.Hour}, 1)
	require.NoError(t, err)
	acquire, err := h.acquirer(uuid.NewString()) // units that another run of this test used up would be missing for an hour
	require.NoError(t, err)
	_, err = acquire(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = acquire(ctx)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, h.close())
}

func TestRateIsMeasuredForEveryContender(t *testing.T) {
	b := sharedBench(t)
	var s *section
	var err error
	missing := []string{"not measured yet"}
	for hung := time.Now().Add(time.Minute); len(missing) > 0 && time.Now().Before(hung); { // a stall may use up a run
		s, err = rates(t.Context(), b)
		require.NoError(t, err)
		missing = missing[:0]
		for _, x := range s.Series {
			for _, column := range s.Columns {
				if len(x.values(column)) == 0 && (x.Label != redisRates || column != "by server") {
					missing = append(missing, column+" of "+x.Label)
				}
			}
		}
	}
	assert.Empty(t, missing)
	for _, target := range s.Targets {
		assert.NotNil(t, target.Value, target.Text)
	}
	assert.True(t, s.Targets[0].Reached)
}

func TestMaxInWindowFindsTheFullestWindowWhereverItBegins(t *testing.T) {
	assert.Equal(t, 3, maxInWindow([]int64{1, 10, 15, 20, 40}, 10))
	assert.Equal(t, 2, maxInWindow([]int64{1, 10, 15, 20, 40}, 9))
	assert.Equal(t, 1, maxInWindow([]int64{1}, 10))
	assert.Zero(t, maxInWindow(nil, 10))
}

func TestRateFiguresSeparateTheFirstWindowFromTheRest(t *testing.T) {
	second := int64(time.Second)
	r := run{job: job{Limit: 2, Per: time.Second}, window: window{0, 3 * second}, outcomes: []outcome{{Records: []record{
		{0, second / 2, second / 2}, {0, second, second}, {0, second * 5 / 4, second * 5 / 4},
		{0, second * 2, second * 2}, {0, second * 5, second * 5}, {0, 0, second},
	}}}}
	f := rateFigures(r)
	assert.Equal(t, 3.0, f["first"])
	assert.Equal(t, 3.0, f["window"], "both ends of a window belong to it")
	assert.InDelta(t, 1/1.5, f["steady"], 0.001, "one in the remaining second and a half")
	assert.Equal(t, 1.0, f["failed"])
	assert.NotContains(t, f, "most")
}

// The observer sees every grant of a limiter, and reports a window with too many.
func TestWindowAboveTheLimitIsAnError(t *testing.T) {
	process := redistest.NewServer(t)
	b := sharedBench(t)
	b.server = &server{process: process, rdb: process.Client()}
	j := job{Key: t.Name(), Names: 1, Limit: 2, Per: 100 * time.Millisecond}
	for what, c := range map[string]struct {
		tokens []float64
		calls  int
		want   figures
		err    error
	}{
		"as many as the limit": {[]float64{1, 50_000, 100_002, 150_001}, 4, figures{"by server": 2, "over": 0}, nil},
		"one too many":         {[]float64{1, 50_000, 100_000}, 3, nil, errOverLimit},
		"some were not seen":   {[]float64{1}, 3, figures{"unseen": 2}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			key := ownerKey(j)
			require.NoError(t, b.server.empty(t.Context()))
			w := observeGrants(t.Context(), b, j)
			for i, token := range c.tokens {
				member := redis.Z{Score: token, Member: string(rune('a' + i))}
				require.NoError(t, b.server.rdb.ZAdd(t.Context(), key, member).Err())
			}
			f, err := w.figures(t.Context(), run{outcomes: []outcome{{Calls: c.calls}}})
			require.ErrorIs(t, err, c.err)
			if err == nil {
				assert.Equal(t, c.want, f)
			}
		})
	}
}

func TestMeterCountsScripts(t *testing.T) {
	process := redistest.NewServer(t)
	s := &server{process: process, rdb: process.Client()}
	m, err := s.meter(t.Context())
	require.NoError(t, err)
	loaded, err := s.rdb.ScriptLoad(t.Context(), "return 1").Result()
	require.NoError(t, err)
	require.NoError(t, s.rdb.Eval(t.Context(), "return 2", nil).Err())
	for range 2 {
		require.NoError(t, s.rdb.EvalSha(t.Context(), loaded, nil).Err())
	}
	_, scripts, err := m.spent(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3.0, scripts)
}
