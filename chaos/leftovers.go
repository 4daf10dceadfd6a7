package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxExpiry is how long the keys of a name that is no longer used may stay, as docs/operations.md says.
func maxExpiry(ttl time.Duration) time.Duration { return max(ttl+20*time.Second, 40*time.Second) }

// noExpiry is the reply of PTTL for a key that does not expire.
const noExpiry = time.Duration(-1)

// leftovers returns the keys that stay for longer. All workers must have ended.
func (d *deployment) leftovers(ttl time.Duration) (all []string, err error) {
	err = await(func() error {
		var mu sync.Mutex
		all = nil
		return d.eachPrimary(func(ctx context.Context, node redis.UniversalClient) error {
			keys := node.Scan(ctx, 0, space.Prefix+":*", 1000).Iterator()
			for keys.Next(ctx) {
				left, err := node.PTTL(ctx, keys.Val()).Result()
				if err != nil {
					return err
				}
				mu.Lock()
				switch {
				case left == noExpiry:
					all = append(all, keys.Val()+" never expires")
				case left > maxExpiry(ttl):
					all = append(all, fmt.Sprintf("%s expires in %v, at most %v are allowed", keys.Val(), left, maxExpiry(ttl)))
				}
				mu.Unlock()
			}
			return keys.Err()
		})
	})
	return all, err
}

// eachPrimary calls f for each server that has its own keys, possibly concurrently.
func (d *deployment) eachPrimary(f func(context.Context, redis.UniversalClient) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if nodes, ok := d.monitor.(*redis.ClusterClient); ok {
		return nodes.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return f(ctx, node) })
	}
	return f(ctx, d.monitor)
}
