package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

// fairsemContender is the example of the README: one Client on one go-redis client, both with their defaults.
type fairsemContender struct {
	rdb    *redis.Client
	client *fairsem.Client
	limit  int64
}

func openFairsem(j job, _ int) (contender, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	client, err := fairsem.New(rdb, fairsem.Options{TTL: j.TTL})
	if err != nil {
		return nil, err
	}
	return &fairsemContender{rdb, client, j.Limit}, nil
}

func (h *fairsemContender) acquirer(name string) (acquireFunc, error) {
	sem, err := h.client.Semaphore(name, h.limit)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (acquired, error) {
		permit, err := sem.Acquire(ctx, 1)
		if err != nil {
			return acquired{}, err
		}
		return acquired{release: permit.Release, token: permit.Token()}, nil
	}, nil
}

func (h *fairsemContender) close() error { return errors.Join(h.client.Close(), h.rdb.Close()) }
