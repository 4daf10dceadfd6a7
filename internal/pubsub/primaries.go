package pubsub

import (
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Messages come from only one node of a cluster. So each primary that has a name in use gets a subscription to a channel
// without messages: it shows when that node goes away.

// Watch makes sure that the primary of a name is watched. Without a cluster it does nothing.
func (h *Hub) Watch(name string) {
	if h.cluster != nil {
		h.watch(name)
	}
}

// watch makes sure that the primary of a name is watched, and returns it; nil if it is not known. To find it go-redis may have to query a
// node, so no lock is held meanwhile.
func (h *Hub) watch(name string) *redis.Client {
	node, err := h.cluster.MasterForKey(h.goroutines.Context, h.keyspace.Key(name, protocol.Owner))
	if err != nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.needed[node] = true
	if h.watched[node] {
		return node
	}
	s := &subscription{
		hub:     h,
		place:   func() (subscriber, string) { return node, "" },
		channel: h.keyspace.WatchChannel(),
		node:    node.Options().Addr,
		wanted:  func() bool { return h.needs(node) },
		handle:  func(message any) { h.handleWatch(node, message) },
	}
	h.watched[node] = s.start()
	return node
}

// needs reports whether a node stores any name; a node without names is no longer watched. Names move, and a primary can be
// replaced silently, so it watches the present primary of every name.
func (h *Hub) needs(node *redis.Client) bool {
	h.mu.Lock()
	delete(h.needed, node)
	h.mu.Unlock()
	for _, name := range h.hooks.Names() {
		h.watch(name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	is := h.needed[node] // also by a name that has come meanwhile
	if !is {
		delete(h.watched, node)
	}
	return is
}

// handleWatch verifies all names on a node when its subscription is established: before that, a change of the server could
// go unnoticed.
func (h *Hub) handleWatch(node *redis.Client, message any) {
	if _, established := message.(*redis.Subscription); !established {
		return
	}
	for _, name := range h.hooks.Names() {
		if h.watch(name) == node {
			h.hooks.Verify(name)
		}
	}
}
