package pubsub

import "github.com/redis/go-redis/v9"

// Start subscribes to the client's grants, once: with the first ticket that waits or holds. A message lists the grants
// to the client's waiters. It is a hint that saves time: if every message is lost, refreshes find the grants.
func (h *Hub) Start() {
	if h.wake.Load() != nil {
		return
	}
	if s := h.grants(); h.wake.CompareAndSwap(nil, s) {
		s.start()
	}
}

// Resubscribe is called when another server has answered. Outside a cluster that has replaced the one before, which may live on for a
// while, as after a planned failover: what grants anything now sends its messages from the new one.
func (h *Hub) Resubscribe() {
	if s := h.wake.Load(); s != nil && h.cluster == nil {
		s.leave()
	}
}

func (h *Hub) grants() *subscription {
	channel := h.keyspace.WakePrefix() + h.keyspace.ClientID
	return &subscription{
		hub:     h,
		place:   func() (subscriber, string) { return h.owner(channel) },
		channel: channel,
		wanted:  func() bool { return true },
		handle:  h.handleWake,
	}
}

// owner returns the node of a cluster that has the slot of a channel, and its address. Messages reach all nodes, but not one that was
// removed from the cluster and lives on.
func (h *Hub) owner(channel string) (subscriber, string) {
	if h.cluster == nil {
		return h.rdb, ""
	}
	node, err := h.cluster.MasterForKey(h.goroutines.Context, channel)
	if err != nil {
		return h.rdb, ""
	}
	return node, node.Options().Addr
}

func (h *Hub) handleWake(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		h.hooks.Gap()       // earlier messages may have been missed
		h.hooks.VerifyAll() // until now a change of the server could go unnoticed
	case *redis.Message:
		if name, epoch, grants, ok := h.keyspace.ParseWake(m.Payload); ok {
			h.hooks.Woken(name, epoch, grants)
		}
	}
}
