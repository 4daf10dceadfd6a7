package fairsem

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// wake is the client's one subscription. A message tells which of its waiters were granted what. It
// is a hint that saves time: with every message lost, the refreshes find the grants. It also shows at
// once when the server goes away, which a client that only holds would not notice for long.
//
// One plain subscription also in a cluster: sharded ones end silently when a slot moves.
type wake struct {
	client  *Client
	channel string
	outage  outage

	ctx     context.Context // ends at close
	cancel  context.CancelFunc
	stopped chan struct{}

	mu      sync.Mutex
	started bool
	current *redis.PubSub
	heard   time.Time   // when anything came in last
	doubted *time.Timer // looks whether anything came in since; nil: no doubt
}

const (
	// answerTime is what a live subscription may take to answer a PING.
	answerTime = time.Second
	// A silent subscription is asked for a sign of life after this long at the latest.
	maxSilence = 10 * time.Second
	// A subscription that fails is tried again after the first pause, and each time after twice as
	// long, up to the last.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

var errDeaf = errors.New("no sign of life")

func newWake(c *Client) *wake {
	w := &wake{
		client:  c,
		channel: c.keyspace.wakePrefix() + c.keyspace.clientID,
		stopped: make(chan struct{}),
	}
	w.outage = outage{events: c.events, channel: w.channel}
	w.ctx, w.cancel = context.WithCancel(background)
	return w
}

// start subscribes, once: with the first ticket that waits or holds.
func (w *wake) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started || w.ctx.Err() != nil {
		return
	}
	w.started = true
	go w.run() // ends at close, which waits for stopped
}

// close ends the subscription and waits for its goroutine.
func (w *wake) close() {
	w.mu.Lock()
	w.cancel()
	started, sub := w.started, w.current
	if w.doubted != nil {
		w.doubted.Stop()
	}
	w.mu.Unlock()
	if sub != nil {
		_ = sub.Close() // it is at its end anyway
	}
	if started {
		<-w.stopped
	}
}

func (w *wake) run() {
	defer close(w.stopped)
	for pause := firstPause; w.ctx.Err() == nil; pause = min(2*pause, lastPause) {
		began := time.Now()
		err := w.listen()
		if w.lastHeard().After(began) { // else it is the same trouble as before
			w.client.noteBreak()
			w.client.doubt()
			pause = firstPause
		}
		w.failed(err)
		_ = sleep(w.ctx, pause) // its end is the loop's
	}
}

// listen subscribes and handles what comes in until the connection is no good any more. go-redis
// does not notice a connection that is only half open, so silence is answered with a PING, and more
// silence with a new connection.
func (w *wake) listen() error {
	sub := w.client.rdb.Subscribe(w.ctx, w.channel)
	defer sub.Close()
	if !w.use(sub) {
		return w.ctx.Err()
	}
	pinged := false
	for {
		message, err := sub.ReceiveTimeout(w.ctx, w.patience(pinged))
		switch {
		case err == nil:
			pinged = false
			w.handle(message)
		case !isTimeout(err):
			return err
		case pinged:
			return errDeaf
		default:
			pinged = true
			if err := sub.Ping(w.ctx); err != nil {
				return err
			}
		}
	}
}

// patience is how long silence is normal: without end, were it not for dead connections.
func (w *wake) patience(pinged bool) time.Duration {
	if pinged {
		return answerTime
	}
	return min(max(w.client.ttl, answerTime), maxSilence)
}

// use makes sub the one that doubt and close know. False: the client is closed.
func (w *wake) use(sub *redis.PubSub) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return false
	}
	w.current = sub
	return true
}

func (w *wake) lastHeard() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard
}

// failed tells of the first failure after the subscription stood, or ever. Its end at close is none.
func (w *wake) failed(err error) {
	if w.ctx.Err() == nil {
		w.outage.begin(w.lastHeard(), err)
	}
}

func (w *wake) handle(message any) {
	w.mu.Lock()
	w.heard = time.Now()
	w.mu.Unlock()
	switch m := message.(type) {
	case *redis.Subscription:
		w.outage.end()
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
	if w.doubted != nil || w.current == nil || w.ctx.Err() != nil {
		return
	}
	sub, since := w.current, time.Now()
	w.doubted = time.AfterFunc(answerTime/2, func() { w.judge(sub, since) })
	w.client.crew.launch(func() { _ = sub.Ping(w.ctx) }) // a failure is silence: judge sees it
}

func (w *wake) judge(sub *redis.PubSub, since time.Time) {
	w.mu.Lock()
	deaf := w.heard.Before(since)
	w.doubted = nil
	w.mu.Unlock()
	if deaf {
		w.failed(errDeaf)
		_ = sub.Close() // listen returns, run subscribes again
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
