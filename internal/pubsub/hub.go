// Package pubsub receives events that Redis sends without a request: messages of grants, and the end of connections. It knows no
// tickets: it passes the events to hooks.
package pubsub

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/primaries"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Hooks are the functions that a Hub calls, from any goroutine. None may wait.
type Hooks struct {
	Woken     func(name string, epoch int64, grants []protocol.Grant) // a message of grants
	Gap       func()                                                  // messages may have been lost
	VerifyAll func()                                                  // another server may have replaced that of any name
	Verify    func(name string)                                       // the same, for one name
	Names     func() []string                                         // the names in use, whose servers are watched

	Disconnected func(channel, node string, err error)
	Reconnected  func(channel, node string, silent time.Duration)
}

// Cluster is a client of a cluster, or a type that embeds one.
type Cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
	primaries.Cluster
}

// Hub has the subscriptions of a client: one for its grants, and in a cluster one to each primary that has a name in use.
type Hub struct {
	rdb        redis.UniversalClient
	cluster    Cluster // nil: not a cluster
	keyspace   protocol.Keyspace
	ttl        time.Duration
	goroutines *goroutines.Group
	hooks      Hooks

	wake  atomic.Pointer[subscription] // to the grants; nil before Start
	blind atomic.Int32                 // how many servers could go away unnoticed

	mu      sync.Mutex
	watched map[*redis.Client]bool // there is a subscription
	needed  map[*redis.Client]bool // a name was found there, since the subscription last asked
}

// New returns a Hub that does nothing until Start is called. g ends its subscriptions. c is rdb, if that is a cluster.
func New(rdb redis.UniversalClient, c Cluster, k protocol.Keyspace, ttl time.Duration, g *goroutines.Group, hooks Hooks) *Hub {
	h := &Hub{rdb: rdb, cluster: c, keyspace: k, ttl: ttl, goroutines: g, hooks: hooks}
	h.watched, h.needed = make(map[*redis.Client]bool), make(map[*redis.Client]bool)
	return h
}

// Blind reports whether a server could go away unnoticed.
func (h *Hub) Blind() bool { return h.blind.Load() > 0 }

// Reload is called when a connection broke. In a cluster another node may have replaced that server, which go-redis by
// itself finds out late.
func (h *Hub) Reload() {
	if h.cluster != nil {
		h.cluster.ReloadState(h.goroutines.Context)
	}
}
