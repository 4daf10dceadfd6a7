package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redisRater is github.com/go-redis/redis_rate: GCRA with a burst of as much as a period allows, like its PerSecond. It has no
// call that waits. The example in its README calls once. A refusal contains RetryAfter, "the time until the next request will
// be permitted", so a caller sleeps for that time and calls again.
type redisRater struct {
	rdb     *redis.Client
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func openRedisRate(j job, _ int) (contender, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	limit := redis_rate.Limit{Rate: int(j.Limit), Burst: int(j.Limit), Period: j.Per}
	return redisRater{rdb, redis_rate.NewLimiter(rdb), limit}, nil
}

func (r redisRater) acquirer(name string) (acquireFunc, error) {
	return untilAllowed(func(ctx context.Context) (bool, time.Duration, error) {
		answer, err := r.limiter.Allow(ctx, name, r.limit)
		if err != nil {
			return false, 0, err
		}
		return answer.Allowed > 0, answer.RetryAfter, nil
	}), nil
}

func (r redisRater) close() error { return r.rdb.Close() }
