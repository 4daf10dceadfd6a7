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

	mu      sync.Mutex
	current *redis.PubSub
	heard   time.Time // when anything came in last
	down    time.Time // when anything did before it failed; zero: it stands, or was never tried
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
	// long, up to the last.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

var errDeaf = errors.New("no sign of life")

// run ends when it is not wanted any more, or with the crew, whose goroutine it is.
func (s *subscription) run() {
	for pause := firstPause; s.wanted(); pause = min(2*pause, lastPause) {
		began := time.Now()
		err := s.listen()
		if err == nil {
			return
		}
		if s.lastHeard().After(began) { // else it is the same trouble as before
			s.client.noteBreak()
			s.client.doubt()
			pause = firstPause
		}
		s.failed(err)
		if s.client.crew.sleep(background, pause) != nil {
			return
		}
	}
}

// listen subscribes and handles what comes in until the connection is no good any more; nil: until it is
// not needed any more. go-redis does not notice a connection that is only half open, so silence is
// answered with a PING, and more silence with a new connection.
func (s *subscription) listen() error {
	ctx := s.client.crew.ctx
	sub := s.server.Subscribe(ctx, s.channel)
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })() // go-redis does not honour ctx while it reads
	s.use(sub)
	pinged := false
	for {
		message, err := sub.ReceiveTimeout(ctx, s.patience(pinged))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pinged = false
			s.hear(message)
		case !isTimeout(err):
			return err
		case pinged:
			return errDeaf
		case !s.wanted():
			return nil
		default:
			pinged = true
			if err := sub.Ping(ctx); err != nil {
				return err
			}
		}
	}
}

// patience is how long silence is normal: without end, were it not for dead connections.
func (s *subscription) patience(pinged bool) time.Duration {
	if pinged {
		return answerTime
	}
	return min(max(s.client.ttl, answerTime), maxSilence)
}

func (s *subscription) use(sub *redis.PubSub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = sub
}

func (s *subscription) hear(message any) {
	s.mu.Lock()
	s.heard = time.Now()
	s.mu.Unlock()
	if _, stands := message.(*redis.Subscription); stands {
		s.stands()
	}
	s.handle(message)
}

// failed tells of the first failure after the subscription stood, or ever. The end at Close is none.
func (s *subscription) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down.IsZero() || s.client.crew.ctx.Err() != nil {
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
