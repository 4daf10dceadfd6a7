package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislocker is github.com/bsm/redislock as in its README. It waits as in its example "ExampleClient_Obtain_retry", with a
// LinearBackoff of 100 ms, but without the example's limit of 3 tries, which would be an error for nearly every call under
// contention. The README's TTL is 100 ms. Here it is fairsem's default, so that no lock is lost on a busy machine.
type redislocker struct {
	rdb    *redis.Client
	locker *redislock.Client
}

const (
	redislockTTL   = 10 * time.Second
	redislockRetry = 100 * time.Millisecond
)

func openRedislock(j job, _ int) (contender, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	return redislocker{rdb, redislock.New(rdb)}, nil
}

func (r redislocker) acquirer(name string) (acquireFunc, error) {
	opts := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockRetry)}
	return func(ctx context.Context) (acquired, error) {
		lock, err := r.locker.Obtain(ctx, name, redislockTTL, opts)
		if err != nil {
			return acquired{}, err
		}
		return acquired{release: lock.Release}, nil
	}, nil
}

func (r redislocker) close() error { return r.rdb.Close() }
