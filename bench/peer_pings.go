package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// pinger is the floor: one PING for the acquire and one for the release, and nothing done.
type pinger struct{ rdb *redis.Client }

func openPings(j job, _ int) (house, error) {
	return pinger{redis.NewClient(&redis.Options{Addr: j.Addr})}, nil
}

func (p pinger) taker(string) (takeFunc, error) {
	ping := func(ctx context.Context) error { return p.rdb.Ping(ctx).Err() }
	return func(ctx context.Context) (held, error) { return held{give: ping}, ping(ctx) }, nil
}

func (p pinger) close() error { return p.rdb.Close() }
