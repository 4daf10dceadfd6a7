package fairsem

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscription is a connection that is kept open for what comes in unasked: messages and, at once, the
// end of the server, which a client that only holds would not notice for long.
//
// A plain one also in a cluster: sharded ones end silently when a slot moves.
type subscription struct {
	client  *Client
	server  subscriber
	channel string
	node    string            // of a cluster, that is watched; "": grants are heard of
	wanted  func() bool       // is asked before each connection and in silence; false: this was the last time
	handle  func(message any) // is called with all that comes in

	mu    sync.Mutex
	heard time.Time // when anything came in last
	down  time.Time // when anything did before it failed; zero: it stands, or was never tried
	blind bool      // the server could go away without this being seen; counted in Client.unseen
}

// subscriber is a go-redis client, of one server or of several.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

const (
	// answerTime is what a live subscription may take to answer a PING.
	answerTime = time.Second
	// A silent subscription is asked for a sign of life after this long at the latest.
	maxSilence = 10 * time.Second
	// A subscription that fails is tried again after the first pause, and each time after twice as
	// long, up to the last, or the longest where Redis refused it.
	firstPause   = 100 * time.Millisecond
	lastPause    = time.Second
	longestPause = 10 * time.Second
)

var errSubscriptionSilent = errors.New("no sign of life")

// launch runs it. False: the client is closed.
func (s *subscription) launch() bool {
	s.setBlind(true)
	launched := s.client.goroutines.start(subscriptions, s.run)
	if !launched {
		s.setBlind(false)
	}
	return launched
}

// run ends when it is not wanted any more, or with the crew, whose goroutine it is.
func (s *subscription) run() {
	defer s.setBlind(false)
	for pause := firstPause; s.wanted(); {
		began := time.Now()
		err := s.listen()
		if err == nil {
			return
		}
		last, forbidden := lastPause, forbids(err)
		if forbidden {
			last = longestPause
		}
		blinded := s.setBlind(!forbidden)          // a right may be missing for ever, which is no reason to ask all the time
		if blinded || s.lastHeard().After(began) { // else it is the same trouble as before
			s.client.reload()
			s.client.verifyAll()
			pause = firstPause
		}
		s.failed(err)
		if s.client.goroutines.sleep(background, pause) != nil {
			return
		}
		pause = min(2*pause, last)
	}
}

// forbids reports whether err is what Redis says to a user who lacks a right.
func forbids(err error) bool { return refused(err) && !transient(err) }

// setBlind notes whether the server could go away without this being seen, and reports whether that is new.
func (s *subscription) setBlind(is bool) (begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begins = is && !s.blind
	switch {
	case begins:
		s.client.unseen.Add(1)
	case !is && s.blind:
		s.client.unseen.Add(-1)
	}
	s.blind = is
	return begins
}

// listen subscribes and handles what comes in until the connection is no good any more; nil: until it is
// not needed any more. go-redis does not notice a connection that is only half open, so silence is
// answered with a PING, and more silence with a new connection.
func (s *subscription) listen() error {
	ctx := s.client.goroutines.ctx
	sub := s.server.Subscribe(ctx, s.channel)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // go-redis does not honour ctx while it reads
	owed := true                                               // an answer: to the SUBSCRIBE, or to a PING
	for {
		message, err := sub.ReceiveTimeout(ctx, s.timeout(owed))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			owed = false
			s.hear(message)
		case !isTimeout(err):
			return err
		case owed:
			return errSubscriptionSilent
		case !s.wanted():
			return nil
		default:
			owed = true
			if err := sub.Ping(ctx); err != nil {
				return err
			}
		}
	}
}

// patience is how long silence is normal: without end, were it not for dead connections.
func (s *subscription) timeout(owed bool) time.Duration {
	if owed {
		return answerTime
	}
	return min(max(s.client.ttl, answerTime), maxSilence)
}

func (s *subscription) hear(message any) {
	s.mu.Lock()
	s.heard = time.Now()
	s.mu.Unlock()
	if _, stands := message.(*redis.Subscription); stands {
		s.stands()
		s.setBlind(false)
	}
	s.handle(message)
}

// failed tells of the first failure after the subscription stood, or ever. The end at Close is none.
func (s *subscription) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down.IsZero() || s.client.goroutines.ctx.Err() != nil {
		return
	}
	if s.down = s.heard; s.heard.IsZero() {
		s.down = time.Now()
	}
	s.client.events.disconnected(s.channel, s.node, err)
}

// stands tells that the subscription is there again.
func (s *subscription) stands() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down.IsZero() {
		s.client.events.reconnected(s.channel, s.node, time.Since(s.down))
		s.down = time.Time{}
	}
}

func (s *subscription) lastHeard() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
