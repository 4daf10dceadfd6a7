package fairsem

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// cluster is a client of one, however it is wrapped.
type cluster interface {
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
}

// masters are the nodes of a cluster that have something of this client. Messages come by one of them
// only, so each has a subscription on which nobody speaks: it shows when that node goes away.
type masters struct {
	client *Client

	mu      sync.Mutex
	watched map[*redis.Client]bool
}

func newMasters(c *Client) *masters {
	return &masters{client: c, watched: make(map[*redis.Client]bool)}
}

// watch sees to it that the master of a name is watched, and returns it; nil: none is known, as where
// there is no cluster.
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
	node, err := c.cluster.MasterForKey(c.goroutines.ctx, v.pipeline.key)
	if err != nil || m.watched[node] {
		return node
	}
	s := &subscription{
		client:  c,
		server:  node,
		channel: c.keyspace.watchChannel(),
		node:    node.Options().Addr,
		wanted:  func() bool { return m.needs(node) },
		handle:  func(message any) { m.take(node, message) },
	}
	m.watched[node] = s.launch()
	return node
}

// needs reports whether a node has any name; one that has none is watched no more. Names move, and a
// master can be replaced in silence, so it looks where all of them are by now.
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

// take doubts what a node has when its subscription stands: before that nobody saw whether it stayed
// the same.
func (m *masters) take(node *redis.Client, message any) {
	if _, stands := message.(*redis.Subscription); !stands {
		return
	}
	for _, v := range m.client.everyState() {
		if m.watch(v) == node {
			v.verify()
		}
	}
}
