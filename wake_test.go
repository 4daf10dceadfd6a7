package fairsem

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// sluice is a go-redis hook that counts scripts, and that can hold back requests or replies.
type sluice struct {
	mu       sync.Mutex
	requests chan struct{} // closed to let them pass; nil: they pass
	replies  chan struct{}
	calls    []string // the verb of each script so far
}

func (s *sluice) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *sluice) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *sluice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.mu.Lock()
		requests, replies := s.requests, s.replies
		for _, c := range cmds {
			if script := scriptOf(c); script != nil {
				s.calls = append(s.calls, script.Verb)
			}
		}
		s.mu.Unlock()
		if requests != nil {
			<-requests
		}
		err := next(ctx, cmds)
		if replies != nil {
			<-replies
		}
		return err
	}
}

// hold holds back what comes from now on, until release is called.
func (s *sluice) hold(gate *chan struct{}) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*gate = make(chan struct{})
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(*gate)
		*gate = nil
	})
}

// since returns the scripts after the first n.
func (s *sluice) since(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls[min(n, len(s.calls)):])
}

// ears are two processes that share a name: one listens, and the other causes messages. With a TTL of 24 h only messages wake
// a waiter.
type ears struct {
	t        *testing.T
	rdb      *redis.Client
	name     string
	listener *Client
	sluice   *sluice
	other    *Permit // holds the one unit
}

func newEars(t *testing.T) *ears {
	t.Helper()
	e := &ears{t: t, rdb: redistest.SettledClient(t), name: t.Name() + "-" + uuid.NewString(), sluice: &sluice{}}
	rdb := redistest.SettledClient(t)
	rdb.AddHook(e.sluice)
	e.listener = e.client(rdb)
	s, err := e.client(redistest.SettledClient(t)).Semaphore(e.name, 1)
	require.NoError(t, err)
	e.other, err = s.Acquire(t.Context(), 1)
	require.NoError(t, err)
	keys := e.listener.keyspace.Keys(e.name)
	t.Cleanup(func() { assert.NoError(t, e.rdb.Del(background, keys[:]...).Err()) })
	return e
}

func (e *ears) client(rdb *redis.Client) *Client {
	e.t.Helper()
	c, err := New(rdb, Options{TTL: maxTTL})
	require.NoError(e.t, err)
	e.t.Cleanup(func() { assert.NoError(e.t, c.Close()) })
	return c
}

// outcome is the result of an Acquire.
type outcome struct {
	permit *Permit
	err    error
}

// ask acquires with the listener.
func (e *ears) ask() <-chan outcome {
	e.t.Helper()
	s, err := e.listener.Semaphore(e.name, 1)
	require.NoError(e.t, err)
	done := make(chan outcome, 1)
	go func() { // ends with Acquire, which every test waits for
		p, err := s.Acquire(e.t.Context(), 1)
		done <- outcome{p, err}
	}()
	return done
}

// await returns the outcome of ask, which must be a permit.
func (e *ears) await(done <-chan outcome) (o outcome) {
	e.t.Helper()
	select {
	case o = <-done:
	case <-time.After(10 * time.Second):
		e.t.Fatal("nobody told it of its grant")
	}
	require.NoError(e.t, o.err)
	return o
}

// queue is ask that returns when the position in the queue is known and the subscription is established.
func (e *ears) queue() (<-chan outcome, *ticket) {
	e.t.Helper()
	seq := e.listener.lastSeq.Load() + 1
	done := e.ask()
	t := e.ticket(seq, func(t *ticket) bool { return t.phase == waiting })
	require.Eventually(e.t, func() bool { return !e.listener.hub.Blind() }, 10*time.Second, time.Millisecond)
	e.settle()
	return done, t
}

// settle waits until no operation of the listener is in flight: a new subscription queries all tickets once.
func (e *ears) settle() {
	e.t.Helper()
	v, err := e.listener.stateOf(e.name)
	require.NoError(e.t, err)
	require.Eventually(e.t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, t := range v.tickets {
			if t.busy || t.recheck {
				return false
			}
		}
		return v.verifySince.IsZero()
	}, 10*time.Second, time.Millisecond, "the client does not come to rest")
}

// ticket waits until a ticket of the listener is as it should be.
func (e *ears) ticket(seq int64, is func(*ticket) bool) (found *ticket) {
	e.t.Helper()
	v, err := e.listener.stateOf(e.name)
	require.NoError(e.t, err)
	require.Eventually(e.t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		found = v.tickets[seq]
		return found != nil && is(found)
	}, 10*time.Second, time.Millisecond, "the ticket does not get there")
	return found
}

func (e *ears) publish(payloads ...string) {
	e.t.Helper()
	_, err := e.rdb.Pipelined(background, func(pipe redis.Pipeliner) error {
		for _, p := range payloads {
			pipe.Publish(background, e.listener.keyspace.WakePrefix()+e.listener.keyspace.ClientID, p)
		}
		return nil
	})
	require.NoError(e.t, err)
}

func (e *ears) ownerKey() string { return e.listener.keyspace.Keys(e.name)[0] }

// grantedBy makes the other process release, and checks that the waiter gets what Redis granted, by a message alone.
func (e *ears) grantedBy(done <-chan outcome, calls int) {
	e.t.Helper()
	require.NoError(e.t, e.other.Release(e.t.Context()))
	o := e.await(done)
	token, err := e.rdb.ZScore(e.t.Context(), e.ownerKey(), o.permit.ID()).Result()
	require.NoError(e.t, err, "it was granted nothing")
	assert.Equal(e.t, int64(token), o.permit.Token())
	assert.Empty(e.t, e.sluice.since(calls), "the messages made it ask")
	require.NoError(e.t, o.permit.Release(e.t.Context()))
}

func TestForgedMessageWithoutTheQueuePositionGrantsNothing(t *testing.T) {
	t.Parallel()
	e := newEars(t)
	done, ticket := e.queue()
	calls := len(e.sluice.since(0))
	seq, place := ticket.seq, ticket.position
	for _, g := range []protocol.Grant{
		grantAt(seq, place+1, 666), grantAt(seq, place-1, 666), grantAt(seq, 0, 666), grantAt(seq, -place, 666), grantAt(seq, 666, place), grantAt(seq, place+1, 0),
		grantAt(seq+1, place, 666), grantAt(-seq, place, 666), grantAt(0, 0, 0),
	} {
		e.publish(wakeMessage(e.ownerKey(), ticket.epoch, []protocol.Grant{g}))
	}
	// A message from before a loss of state: positions are restored unchanged, grants are not.
	e.publish(wakeMessage(e.ownerKey(), ticket.epoch-1, []protocol.Grant{grantAt(seq, place, 666)}))
	e.publish(wakeMessage(e.listener.keyspace.Keys("another name")[0], ticket.epoch, []protocol.Grant{grantAt(seq, place, 666)}))
	e.grantedBy(done, calls)
}

func TestForgedMessageChangesNothingForAHolder(t *testing.T) {
	t.Parallel()
	e := newEars(t)
	done, ticket := e.queue()
	require.NoError(t, e.other.Release(t.Context()))
	p := e.await(done).permit
	token := p.Token()
	calls := len(e.sluice.since(0))
	for _, g := range []protocol.Grant{grantAt(ticket.seq, ticket.position, 666), grantAt(ticket.seq, ticket.position, 0), grantAt(ticket.seq, 0, 666)} {
		e.listener.receive(wakeMessage(e.ownerKey(), ticket.epoch, []protocol.Grant{g}))
	}
	assert.Equal(t, token, p.Token())
	require.NoError(t, p.Context().Err())
	assert.Empty(t, e.sluice.since(calls))
	require.NoError(t, p.Release(t.Context()))
}

func TestGarbageOnTheChannelIsIgnored(t *testing.T) {
	t.Parallel()
	e := newEars(t)
	done, ticket := e.queue()
	calls := len(e.sluice.since(0))
	real, key := fmt.Sprintf("%d:%d:", ticket.seq, ticket.position), fmt.Sprintf("%d %s", ticket.epoch, e.ownerKey())
	e.publish("", " ", "\x00", "\r\n", "*3\r\n$7\r\nmessage\r\n", key, " "+key, real, real+"666",
		real+"666 ", real+" "+key, real+"666: "+key, real+"6e6 "+key, real+"666, "+key,
		real+"99999999999999999999 "+key, real+"666 "+key+" ", real+"666  "+key,
		real+"666 x"+key, real+"666 "+e.ownerKey(), real+"666 1"+key, real+"666 "+e.listener.keyspace.Keys(e.name)[1])
	e.grantedBy(done, calls)
}

func TestFloodOfMessagesDoesNoHarm(t *testing.T) {
	t.Parallel()
	e := newEars(t)
	first, _ := e.queue()
	second, target := e.queue()
	calls := len(e.sluice.since(0))
	release := e.sluice.hold(&e.sluice.requests)
	defer release()

	// Half of them name the true position and say that it is lost. Only Redis should know that, so the client queries it.
	flood := make([]string, 10_000)
	for i := range flood {
		g := grantAt(target.seq, target.position+int64(i%2), 0)
		flood[i] = wakeMessage(e.ownerKey(), target.epoch, []protocol.Grant{g})
	}
	e.publish(flood...)
	require.NoError(t, e.other.Release(t.Context()))
	o := e.await(first) // its message came after the flood, and no query was needed
	assert.Equal(t, []string{"refresh"}, e.sluice.since(calls), "one question about 5000 messages")
	release()
	e.settle()
	assert.LessOrEqual(t, len(e.sluice.since(calls)), 3)
	require.NoError(t, o.permit.Release(t.Context()))
	o = e.await(second)
	require.NoError(t, o.permit.Release(t.Context()))
}

// The grant is published while the answer WAITING is still in flight.
func TestMessageThatOvertakesTheAnswerCounts(t *testing.T) {
	t.Parallel()
	e := newEars(t)
	before, _ := e.queue() // the subscription is established
	require.NoError(t, e.other.Release(t.Context()))
	holder := e.await(before).permit
	e.other = holder

	release := e.sluice.hold(&e.sluice.replies)
	defer release()
	seq := e.listener.lastSeq.Load() + 1
	done := e.ask()
	queue := e.listener.keyspace.Keys(e.name)[1]
	require.Eventually(t, func() bool { return e.rdb.ZCard(t.Context(), queue).Val() == 1 }, 10*time.Second, time.Millisecond)

	// The operator releases the unit, because the listener's own replies are held back.
	space := protocol.Keyspace{Prefix: e.listener.keyspace.Prefix, ClientID: "an operator"}
	c := protocol.Release(space.About(e.name), protocol.Declaration{Spec: protocol.LimitSpec{Limit: 1}, Nothing: true}, 0, false, []*ticket{{id: holder.ID()}})
	require.NoError(t, e.rdb.Process(t.Context(), c.Command(true)))
	e.ticket(seq, func(t *ticket) bool { return t.phase == asking && t.earlyGrant.Token != 0 })
	calls := len(e.sluice.since(0))
	release()
	o := e.await(done)
	token, err := e.rdb.ZScore(t.Context(), e.ownerKey(), o.permit.ID()).Result()
	require.NoError(t, err)
	assert.Equal(t, int64(token), o.permit.Token())
	assert.Empty(t, e.sluice.since(calls), "it had to ask")
	require.NoError(t, o.permit.Release(t.Context()))
	assert.ErrorIs(t, holder.Release(t.Context()), ErrLost)
}

func TestAfterAGapTheClientQueriesWhatItMissed(t *testing.T) {
	t.Parallel()
	e := newEars(t)
	done, _ := e.queue()
	calls := len(e.sluice.since(0))
	e.listener.gap()
	e.listener.verifyAll()
	e.settle()
	asked := e.sluice.since(calls)
	assert.Equal(t, []string{"refresh"}, slices.Compact(asked), "once for the gap, and once more if that was too early for the doubt")
	e.grantedBy(done, calls+len(asked))
}

// It shows a holder that the server went away, so it is needed before any waiter; and no longer after Close.
func TestSubscriptionStartsWithTheFirstPermit(t *testing.T) {
	t.Parallel()
	rdb := redistest.SettledClient(t)
	c, err := New(rdb, Options{})
	require.NoError(t, err)
	channel := c.keyspace.WakePrefix() + c.keyspace.ClientID
	subscribed := func() bool { return rdb.PubSubNumSub(t.Context(), channel).Val()[channel] == 1 }
	s, err := c.Semaphore(t.Name()+"-"+uuid.NewString(), 1)
	require.NoError(t, err)
	require.ErrorIs(t, s.Do(t.Context(), 2, func(context.Context) error { return nil }), ErrExceedsLimit)
	assert.False(t, subscribed(), "no permit and no waiter")
	require.NoError(t, s.Do(t.Context(), 1, func(context.Context) error {
		require.Eventually(t, subscribed, time.Minute, time.Millisecond)
		return nil
	}))
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return !subscribed() }, time.Minute, time.Millisecond)
}

func TestSubscriptionThatEndsWithItsClientIsNotReportedAsLost(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c, err := New(redistest.SettledClient(t), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	s, err := c.Semaphore(t.Name()+"-"+uuid.NewString(), 1)
	require.NoError(t, err)
	require.NoError(t, s.Do(t.Context(), 1, func(context.Context) error {
		require.Eventually(t, func() bool { return !c.hub.Blind() }, 10*time.Second, time.Millisecond)
		return nil
	}))
	require.NoError(t, c.Close())
	assert.Empty(t, log.String())
}

// wakeMessage builds a message as the scripts do.
func wakeMessage(ownerKey string, epoch int64, grants []protocol.Grant) string {
	var notes []string
	for _, g := range grants {
		notes = append(notes, fmt.Sprintf("%d:%d:%d", g.Seq, g.Position, g.Token))
	}
	return fmt.Sprintf("%s %d %s", strings.Join(notes, ","), epoch, ownerKey)
}

// grantAt is a grant of a ticket.
func grantAt(seq, position, token int64) protocol.Grant {
	return protocol.Grant{Seq: seq, Position: position, Token: token}
}

// receive is what the client does with a message.
func (c *Client) receive(payload string) {
	if name, epoch, grants, ok := c.keyspace.ParseWake(payload); ok {
		c.woken(name, epoch, grants)
	}
}
