package main

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncer is github.com/go-redsync/redsync as its README has it, on one server: a mutex for each
// use, default expiry (8 s) and default retry delay (50 to 250 ms at random). Its 32 tries are begun
// again until it has the lock.
type redsyncer struct {
	rdb *redis.Client
	rs  *redsync.Redsync
}

func openRedsync(j job, _ int) (house, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	return redsyncer{rdb, redsync.New(goredis.NewPool(rdb))}, nil
}

func (r redsyncer) taker(name string) (takeFunc, error) {
	return func(ctx context.Context) (held, error) {
		mutex := r.rs.NewMutex(name)
		err := mutex.LockContext(ctx)
		for err != nil && ctx.Err() == nil {
			err = mutex.LockContext(ctx)
		}
		return held{give: func(ctx context.Context) error { return unlock(ctx, mutex) }}, err
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
