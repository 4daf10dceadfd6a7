package main

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// redisRater is github.com/go-redis/redis_rate: GCRA, with a burst of as much as a period allows, which is what
// its PerSecond makes. It has no call that waits. Its README asks once; what it documents of a refusal is
// RetryAfter, "the time until the next request will be permitted", so a caller sleeps for that and asks again.
type redisRater struct {
	rdb     *redis.Client
	limiter *redis_rate.Limiter
	limit   redis_rate.Limit
}

func openRedisRate(j job, _ int) (house, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	limit := redis_rate.Limit{Rate: int(j.Limit), Burst: int(j.Limit), Period: j.Per}
	return redisRater{rdb, redis_rate.NewLimiter(rdb), limit}, nil
}

func (r redisRater) taker(name string) (takeFunc, error) {
	return untilAllowed(func(ctx context.Context) (bool, time.Duration, error) {
		answer, err := r.limiter.Allow(ctx, name, r.limit)
		if err != nil {
			return false, 0, err
		}
		return answer.Allowed > 0, answer.RetryAfter, nil
	}), nil
}

func (r redisRater) close() error { return r.rdb.Close() }
