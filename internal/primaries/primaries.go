// Package primaries finds the primaries of a cluster while some of its nodes are silent.
package primaries

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cluster is the part of a client of a cluster that finds them.
type Cluster interface {
	ForEachMaster(ctx context.Context, fn func(ctx context.Context, node *redis.Client) error) error
}

const (
	// patience is how long one query may take before another one begins.
	patience = 250 * time.Millisecond
	// most is how many queries begin. With two of three nodes silent, one call in 600 finds no other among 16.
	most = 16
)

// answer is what one query found.
type answer struct {
	nodes []*redis.Client
	err   error
}

// Of returns a client of each primary, in no particular order. For that go-redis queries the nodes one after the other, any of them first,
// and waits for a silent one until its time-outs end. So Of begins another query after a while, which mostly begins with another node, and
// returns the first answer. The error is the first one, once all queries have failed, or that of ctx.
//
// Of calls start for each query, which is to run it in a goroutine. It may still run when Of returns, until the time-outs end.
func Of(ctx context.Context, cluster Cluster, start func(query func())) ([]*redis.Client, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // of queries that wait for a connection
	answers := make(chan answer, most)
	begin := func() { start(func() { answers <- query(ctx, cluster) }) }
	begin()
	next := time.NewTicker(patience)
	defer next.Stop()
	var failed error
	for begun, ended := 1, 0; ended < begun; {
		select {
		case a := <-answers:
			if a.err == nil {
				return a.nodes, nil
			}
			failed = cmp.Or(failed, a.err)
			ended++
		case <-next.C:
			if begun < most {
				begin()
				begun++
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, failed
}

// Go is a start for a caller that does not wait for the queries that have not ended.
func Go(query func()) { go query() } // ends with the time-outs of go-redis at the latest

func query(ctx context.Context, cluster Cluster) (a answer) {
	var mu sync.Mutex
	a.err = cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		a.nodes = append(a.nodes, node)
		return nil
	})
	return a
}
