package inspect

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/primaries"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/scan"
)

// Bounds on the search for other prefixes: it is for a hint.
const (
	prefixesLimit = 2 * time.Second
	prefixesMost  = 3   // that are named
	prefixesAsked = 100 // of a server that may turn out to be another program's
)

// OtherPrefixes returns up to three prefixes of semaphores on a server, sorted, for a caller that found none with the
// prefix own. It scans keys for two seconds at most, in a tenth of the server's time, so it may miss some among millions
// of keys. It returns none if there are semaphores with the prefix own, and none to a user without the right to scan keys
// or to read those of others.
func OtherPrefixes(ctx context.Context, rdb redis.UniversalClient, own string) []string {
	ctx, cancel := context.WithTimeout(ctx, prefixesLimit)
	defer cancel()
	found := make(chan string)
	go func() { // ends with ctx and the time-outs of go-redis; not waited for beyond ctx
		defer close(found)
		var nodes []*redis.Client // of a cluster that does not say: none
		switch rdb := rdb.(type) {
		case *redis.ClusterClient:
			nodes, _ = primaries.Of(ctx, rdb, primaries.Go)
		case *redis.Client:
			nodes = append(nodes, rdb)
		}
		var scans sync.WaitGroup
		for _, node := range nodes {
			scans.Go(func() { _ = scanPrefixes(ctx, node, found) }) // the prefixes found by then are good
		}
		scans.Wait()
	}()
	others := make(map[string]bool)
	sorted := func() []string { return slices.Sorted(maps.Keys(others)) }
	for len(others) < prefixesMost {
		select {
		case prefix, more := <-found:
			switch {
			case !more:
				return sorted()
			case prefix == own:
				return nil
			}
			others[prefix] = true
		case <-ctx.Done():
			return sorted()
		}
	}
	return sorted()
}

// scanPrefixes sends the prefixes of semaphores on one server. A key that looks like one of a name may be another program's.
func scanPrefixes(ctx context.Context, node *redis.Client, found chan<- string) error {
	asked := make(map[string]bool)
	return scan.New(node, scan.Share).Each(ctx, protocol.AnyKey(protocol.Meta), "hash", func(keys []string) error {
		for _, key := range keys {
			space, _, kind, ok := protocol.ParseKey(key)
			if !ok || kind != protocol.Meta || asked[space.Prefix] || len(asked) >= prefixesAsked {
				continue
			}
			asked[space.Prefix] = true
			err := node.HGet(ctx, key, protocol.MetaLayout).Err()
			if failure.IsMissing(err) { // another program's, or gone
				continue
			}
			if err != nil {
				return err // a user who may not read this may not read others either, and each try is noted in ACL LOG
			}
			select {
			case found <- space.Prefix:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}
