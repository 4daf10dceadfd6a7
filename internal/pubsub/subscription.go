package pubsub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/goroutines"
)

// subscription is a connection that is kept open for messages, and to notice at once when the server goes away: a client
// that only holds permits would not notice that for long.
//
// It is a plain subscription in a cluster, too: sharded ones end silently when a slot moves.
type subscription struct {
	hub     *Hub
	place   func() (server subscriber, node string) // where it subscribes; the node that has the slot of its channel, if that may change
	channel string
	node    string            // address of the cluster node that it watches; "": it receives grants
	wanted  func() bool       // called before each connection and in silence; false: it ends
	handle  func(message any) // called with everything that is received

	mu       sync.Mutex
	received time.Time // when anything was received last
	down     time.Time // when anything was received before it failed; zero: it works, or was never tried
	blind    bool      // the server could go away unnoticed; counted in Hub.blind
	end      func()    // ends the connection that there is now; nil: there was none yet

	visited map[string]bool // nodes that had the slot; only the goroutine of run uses it
}

// subscriber is a go-redis client of one server or of several.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

const (
	// answerTime is how long a live subscription may take to answer a PING.
	answerTime = time.Second
	// After this much silence at most, a subscription is checked with a PING.
	maxSilence = 10 * time.Second
	// A subscription that fails is tried again after the first pause, and then after twice the pause each time, up to
	// the last, or up to the longest where Redis refused it.
	firstPause   = 100 * time.Millisecond
	lastPause    = time.Second
	longestPause = 10 * time.Second
)

var (
	errSubscriptionSilent = errors.New("no sign of life")
	errServerReplaced     = errors.New("another server is in charge now")
)

// start starts the subscription. It reports false if the client is closed.
func (s *subscription) start() bool {
	s.setBlind(true)
	started := s.hub.goroutines.Start(goroutines.Subscriptions, s.run)
	if !started {
		s.setBlind(false)
	}
	return started
}

// run ends when the subscription is no longer wanted, or when the client's goroutines end.
func (s *subscription) run() {
	defer s.setBlind(false)
	s.visited = map[string]bool{"": true} // "" is not known
	for pause := firstPause; s.wanted(); {
		began := time.Now()
		err := failure.Discreet(s.listen())
		if err == nil {
			return
		}
		last, forbidden := lastPause, failure.Forbidden(err)
		if forbidden {
			last = longestPause
		}
		blinded := s.setBlind(!forbidden)             // a right may be missing for ever: no reason to keep verifying
		if blinded || s.lastReceived().After(began) { // else it is the same failure as before
			s.hub.Reload()
			s.hub.hooks.VerifyAll()
			pause = firstPause
		}
		s.failed(err)
		if errors.Is(err, errServerReplaced) {
			continue
		}
		if s.hub.goroutines.Sleep(context.Background(), pause) != nil {
			return
		}
		pause = min(2*pause, last)
	}
}

// setBlind records whether the server could go away unnoticed, and reports whether that begins now.
func (s *subscription) setBlind(is bool) (begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begins = is && !s.blind
	switch {
	case begins:
		s.hub.blind.Add(1)
	case !is && s.blind:
		s.hub.blind.Add(-1)
	}
	s.blind = is
	return begins
}

// listen subscribes and handles messages, until the connection fails. It returns nil if the subscription is no
// longer wanted or the client is closed. go-redis does not notice a half-open connection, so listen answers silence with a
// PING, and further silence with an error.
func (s *subscription) listen() error {
	ctx, cancel := context.WithCancel(s.hub.goroutines.Context)
	defer cancel()
	s.setEnd(cancel)
	server, node := s.place()
	s.visited[node] = true
	sub := server.Subscribe(ctx, s.channel)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // go-redis does not honour ctx while it reads
	due := true                                                // an answer to SUBSCRIBE or to a PING is due
	for {
		message, err := sub.ReceiveTimeout(ctx, s.timeout(due))
		switch {
		case s.hub.goroutines.Context.Err() != nil:
			return nil
		case ctx.Err() != nil:
			return errServerReplaced
		case err == nil:
			due = false
			s.receive(message)
		case !isTimeout(err):
			return err
		case due:
			return errSubscriptionSilent
		case !s.wanted():
			return nil
		case s.hasMoved():
			return errServerReplaced
		default:
			due = true
			if err := sub.Ping(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// hasMoved reports whether a node has the slot that never had it. A node that has it again is left alone: where the nodes do not agree on
// their addresses, the answer changes with the node that is asked.
func (s *subscription) hasMoved() bool {
	_, node := s.place()
	return !s.visited[node]
}

func (s *subscription) setEnd(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
}

// leave ends the connection that there is now, for one to another server.
func (s *subscription) leave() {
	s.mu.Lock()
	end := s.end
	s.mu.Unlock()
	if end != nil {
		end()
	}
}

// timeout is how long silence is normal: if there were no dead connections, it could be unlimited.
func (s *subscription) timeout(due bool) time.Duration {
	if due {
		return answerTime
	}
	return min(max(s.hub.ttl, answerTime), maxSilence)
}

func (s *subscription) receive(message any) {
	s.mu.Lock()
	s.received = time.Now()
	s.mu.Unlock()
	_, established := message.(*redis.Subscription)
	if established {
		s.established()
	}
	s.handle(message)
	if established {
		s.setBlind(false) // not before everything that may have changed unnoticed is verified
	}
}

// failed reports the first failure since the subscription was established, or ever. Its end at Close is not a failure.
func (s *subscription) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down.IsZero() || s.hub.goroutines.Context.Err() != nil {
		return
	}
	if s.down = s.received; s.received.IsZero() {
		s.down = time.Now()
	}
	s.hub.hooks.Disconnected(s.channel, s.node, err)
}

// established reports that the subscription works again.
func (s *subscription) established() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down.IsZero() {
		s.hub.hooks.Reconnected(s.channel, s.node, time.Since(s.down))
		s.down = time.Time{}
	}
}

func (s *subscription) lastReceived() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
