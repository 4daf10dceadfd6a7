package fairsem

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// cluster is a client of a cluster, however it is wrapped.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

// masters are the primaries of a cluster that store something of this client. Messages come from only one of them, so each
// has a subscription to a channel without messages: it shows when that node goes away.
type masters struct {
	client *Client

	mu      sync.Mutex
	watched map[*redis.Client]bool
}

func newMasters(c *Client) *masters {
	return &masters{client: c, watched: make(map[*redis.Client]bool)}
}

// watch makes sure that the primary of a name is watched, and returns it. It returns nil if none is known, as without a
// cluster.
func (m *masters) watch(v *nameState) *redis.Client {
	if m.client.cluster == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watchLocked(v)
}

func (m *masters) watchLocked(v *nameState) *redis.Client {
	c := m.client
	node, err := c.cluster.MasterForKey(c.goroutines.Context, v.pipeline.key)
	if err != nil || m.watched[node] {
		return node
	}
	s := &subscription{
		client:  c,
		server:  node,
		channel: c.keyspace.WatchChannel(),
		node:    node.Options().Addr,
		wanted:  func() bool { return m.needs(node) },
		handle:  func(message any) { m.handleMessage(node, message) },
	}
	m.watched[node] = s.launch()
	return node
}

// needs reports whether a node stores any name; a node without names is no longer watched. Names move, and a primary can be
// replaced silently, so it watches the present primary of every name.
func (m *masters) needs(node *redis.Client) (is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.client.everyState() {
		is = m.watchLocked(v) == node || is
	}
	if !is {
		delete(m.watched, node)
	}
	return is
}

// handleMessage verifies all names on a node when its subscription is established: before that, a change of the server
// could go unnoticed.
func (m *masters) handleMessage(node *redis.Client, message any) {
	if _, established := message.(*redis.Subscription); !established {
		return
	}
	for _, v := range m.client.everyState() {
		if m.watch(v) == node {
			v.verify()
		}
	}
}
