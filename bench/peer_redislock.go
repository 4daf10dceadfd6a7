package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislocker is github.com/bsm/redislock as its README has it. Waiting is as in its example
// "ExampleClient_Obtain_retry": LinearBackoff of 100 ms; without the example's limit of 3 tries, which
// would be an error for nearly every call under contention. The README's TTL is 100 ms; here it is
// what fairsem has by default, so that a busy machine costs nobody a lock.
type redislocker struct {
	rdb    *redis.Client
	locker *redislock.Client
}

const (
	redislockTTL   = 10 * time.Second
	redislockRetry = 100 * time.Millisecond
)

func openRedislock(j job, _ int) (house, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	return redislocker{rdb, redislock.New(rdb)}, nil
}

func (r redislocker) taker(name string) (takeFunc, error) {
	opts := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockRetry)}
	return func(ctx context.Context) (held, error) {
		lock, err := r.locker.Obtain(ctx, name, redislockTTL, opts)
		if err != nil {
			return held{}, err
		}
		return held{give: lock.Release}, nil
	}, nil
}

func (r redislocker) close() error { return r.rdb.Close() }
