package main

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncer is github.com/go-redsync/redsync as in its README, on one server: a mutex for each use, the default expiry (8 s)
// and the default retry delay (a random one of 50 to 250 ms). After 32 tries it starts again, until it has the lock.
type redsyncer struct {
	rdb *redis.Client
	rs  *redsync.Redsync
}

func openRedsync(j job, _ int) (contender, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	return redsyncer{rdb, redsync.New(goredis.NewPool(rdb))}, nil
}

func (r redsyncer) acquirer(name string) (acquireFunc, error) {
	return func(ctx context.Context) (acquired, error) {
		mutex := r.rs.NewMutex(name)
		err := mutex.LockContext(ctx)
		for err != nil && ctx.Err() == nil {
			err = mutex.LockContext(ctx)
		}
		return acquired{release: func(ctx context.Context) error { return unlock(ctx, mutex) }}, err
	}, nil
}

func unlock(ctx context.Context, mutex *redsync.Mutex) error {
	ok, err := mutex.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("redsync: unlock failed")
	}
	return err
}

func (r redsyncer) close() error { return r.rdb.Close() }
