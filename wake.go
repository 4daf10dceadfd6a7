package fairsem

import (
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// wake is the subscription for a client's grants. A message lists which of its waiters were granted what. It is a hint that
// saves time: if every message is lost, refreshes find the grants.
type wake struct {
	subscription

	started atomic.Bool
}

func newWake(c *Client) *wake {
	w := &wake{subscription: subscription{
		client:  c,
		server:  c.rdb,
		channel: c.keyspace.WakePrefix() + c.keyspace.ClientID,
		wanted:  func() bool { return true },
	}}
	w.handle = w.handleMessage
	return w
}

// start subscribes once, with the first ticket that waits or holds.
func (w *wake) start() {
	if w.started.CompareAndSwap(false, true) {
		w.started.Store(w.launch())
	}
}

func (w *wake) handleMessage(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		w.client.gap()       // earlier messages may have been missed
		w.client.verifyAll() // until now a change of the server could go unnoticed
	case *redis.Message:
		if name, epoch, grants, ok := w.client.keyspace.ParseWake(m.Payload); ok {
			w.client.woken(name, epoch, grants)
		}
	}
}
