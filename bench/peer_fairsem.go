package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

// fairHouse is the README's example: one Client on one go-redis client, both with their defaults.
type fairHouse struct {
	rdb    *redis.Client
	client *fairsem.Client
	limit  int64
}

func openFairsem(j job, _ int) (house, error) {
	rdb := redis.NewClient(&redis.Options{Addr: j.Addr})
	client, err := fairsem.New(rdb, fairsem.Options{TTL: j.TTL})
	if err != nil {
		return nil, err
	}
	return &fairHouse{rdb, client, j.Limit}, nil
}

func (h *fairHouse) taker(name string) (takeFunc, error) {
	sem, err := h.client.Semaphore(name, h.limit)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (held, error) {
		permit, err := sem.Acquire(ctx, 1)
		if err != nil {
			return held{}, err
		}
		return held{give: permit.Release, token: permit.Token()}, nil
	}, nil
}

func (h *fairHouse) close() error { return errors.Join(h.client.Close(), h.rdb.Close()) }
