package fairsem

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// wake is the subscription on which a client hears of its grants. A message tells which of its waiters
// were granted what. It is a hint that saves time: with every message lost, the refreshes find the
// grants.
type wake struct {
	subscription

	started bool // guarded by mu
	doubted bool // somebody looks whether anything comes in; guarded by mu
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
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = w.started || w.client.crew.launch(subscriptions, w.run)
}

func (w *wake) take(message any) {
	switch m := message.(type) {
	case *redis.Subscription:
		w.client.gap()   // what was published before it, nobody has heard
		w.client.doubt() // nor was it to be seen whether the server stayed the same
	case *redis.Message:
		if name, epoch, grants, ok := w.client.keyspace.parseWake(m.Payload); ok {
			w.client.woken(name, epoch, grants)
		}
	}
}

// doubt is called when a grant was found that no message told of. The message may be on its way; if
// the connection gives no sign of life soon, it is replaced.
func (w *wake) doubt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.doubted || w.current == nil {
		return
	}
	sub, since := w.current, time.Now()
	w.doubted = w.client.crew.launch(subscriptions, func() { // ends after a pause, or with the crew
		_ = sub.Ping(w.client.crew.ctx) // a failure is silence
		_ = w.client.crew.sleep(background, answerTime/2)
		w.judge(sub, since)
	})
}

func (w *wake) judge(sub *redis.PubSub, since time.Time) {
	w.mu.Lock()
	deaf := w.heard.Before(since)
	w.doubted = false
	w.mu.Unlock()
	if deaf {
		w.failed(errDeaf)
		_ = sub.Close() // listen returns, run subscribes again
	}
}
