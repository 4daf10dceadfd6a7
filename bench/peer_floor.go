package main

import (
	"context"
	_ "embed" // of the scripts
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/protocol"
)

var (
	//go:embed floor_acquire.lua
	floorAcquireText string
	//go:embed floor_release.lua
	floorReleaseText string

	floorAcquire, floorRelease = redis.NewScript(floorAcquireText), redis.NewScript(floorReleaseText)
)

// floorer is no library, but the least that two scripts can do for a permit with a lease and a fencing token under a limit:
// 3 keys, 3 arguments, and one comparison instead of all checks. It shows the lower bound. A caller that does not fit fails
// at once, because there is no queue. Nothing renews or removes a lease, reads a declared limit, or notices a loss of state.
type floorer struct {
	rdb   *redis.Client
	space protocol.Keyspace
	limit int64
	seq   atomic.Int64
}

const (
	floorTTL   = 10 * time.Second // as fairsem's
	floorKeys  = time.Hour        // until the keys expire
	floorState = "1"              // a client's knowledge of a name; only the comparison matters
)

func openFloor(j job, _ int) (contender, error) {
	space := protocol.Keyspace{Prefix: "floor", ClientID: protocol.NewClientID()}
	return &floorer{rdb: redis.NewClient(&redis.Options{Addr: j.Addr}), space: space, limit: j.Limit}, nil
}

func (f *floorer) acquirer(name string) (acquireFunc, error) {
	keys := []string{f.space.Key(name, protocol.Owner), f.space.Key(name, protocol.Timeout), f.space.Key(name, protocol.Meta)}
	expiry := time.Now().Add(floorKeys)
	_, err := f.rdb.TxPipelined(context.Background(), func(tx redis.Pipeliner) error {
		tx.HSet(context.Background(), keys[2], "state", floorState, "limit", f.limit, "last", 0, "granted", 0, "epoch", 1, "until", expiry.UnixMilli())
		return tx.PExpireAt(context.Background(), keys[2], expiry).Err()
	})
	return func(ctx context.Context) (acquired, error) { return f.acquire(ctx, keys) }, err
}

// errFull means that the units are in use.
var errFull = errors.New("floor: the limit is reached, and it has no queue")

func (f *floorer) acquire(ctx context.Context, keys []string) (acquired, error) {
	id := f.space.TicketID(f.seq.Add(1), "", false)
	reply, err := floorAcquire.Run(ctx, f.rdb, keys, floorState, floorTTL.Milliseconds(), id).Int64Slice()
	if err != nil {
		return acquired{}, err
	}
	if len(reply) != 2 {
		return acquired{}, errFull
	}
	release := func(ctx context.Context) error {
		reply, err := floorRelease.Run(ctx, f.rdb, keys, floorState, id).Int64Slice()
		if err == nil && (len(reply) != 2 || reply[0] != 1) {
			err = fmt.Errorf("floor: %s was not released", id)
		}
		return err
	}
	return acquired{release: release, token: reply[0]}, nil
}

func (f *floorer) close() error { return f.rdb.Close() }
