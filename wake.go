package fairsem

import (
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// wake is the subscription on which a client hears of its grants. A message tells which of its waiters
// were granted what. It is a hint that saves time: with every message lost, the refreshes find the
// grants.
type wake struct {
	subscription

	started atomic.Bool
}

func newWake(c *Client) *wake {
	w := &wake{subscription: subscription{
		client:  c,
		server:  c.rdb,
		channel: c.keyspace.wakePrefix() + c.keyspace.clientID,
		wanted:  func() bool { return true },
	}}
	w.handle = w.take
	return w
}

// start subscribes, once: with the first ticket that waits or holds.
func (w *wake) start() {
	if w.started.CompareAndSwap(false, true) {
		w.started.Store(w.launch())
	}
}

func (w *wake) take(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		w.client.gap()       // what was published before it, nobody has heard
		w.client.verifyAll() // nor was it to be seen whether the server stayed the same
	case *redis.Message:
		if name, epoch, grants, ok := w.client.keyspace.parseWake(m.Payload); ok {
			w.client.woken(name, epoch, grants)
		}
	}
}
