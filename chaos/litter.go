package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// stays is how long the keys of a name that is not used any more stay at most, as docs/operations.md says.
func stays(ttl time.Duration) time.Duration { return max(ttl+20*time.Second, 40*time.Second) }

// never is what PTTL says of a key that does not expire.
const never = time.Duration(-1)

// litter returns the keys that stay for longer. It is for when all workers have ended.
func (r *rig) litter(ttl time.Duration) (all []string, err error) {
	err = await(func() error {
		var mu sync.Mutex
		all = nil
		return r.eachMaster(func(ctx context.Context, node redis.UniversalClient) error {
			keys := node.Scan(ctx, 0, "fairsem:*", 1000).Iterator()
			for keys.Next(ctx) {
				left, err := node.PTTL(ctx, keys.Val()).Result()
				if err != nil {
					return err
				}
				mu.Lock()
				switch {
				case left == never:
					all = append(all, keys.Val()+" never expires")
				case left > stays(ttl):
					all = append(all, fmt.Sprintf("%s expires in %v, at most %v are allowed", keys.Val(), left, stays(ttl)))
				}
				mu.Unlock()
			}
			return keys.Err()
		})
	})
	return all, err
}

// eachMaster calls f for each server that has keys of its own, perhaps at once.
func (r *rig) eachMaster(f func(context.Context, redis.UniversalClient) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if nodes, ok := r.monitor.(*redis.ClusterClient); ok {
		return nodes.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return f(ctx, node) })
	}
	return f(ctx, r.monitor)
}
