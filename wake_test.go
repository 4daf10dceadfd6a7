package fairsem

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/fairsem/fairsem/internal/testclient"
)

// scriptGate is a go-redis hook that counts scripts, and that can hold back requests or replies.
type scriptGate struct {
	testclient.Hook
	mu       sync.Mutex
	requests chan struct{} // holds requests back until it is closed; nil: they pass
	replies  chan struct{}
	calls    []string // the verb of each script so far
}

func (s *scriptGate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
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

// hold holds back everything at a gate from now on, until release is called.
func (s *scriptGate) hold(gate *chan struct{}) (release func()) {
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
func (s *scriptGate) since(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls[min(n, len(s.calls)):])
}

// listenerTest has two processes that share a name: one listens, and the other causes messages. The TTL is 24 h, so only messages
// wake a waiter.
type listenerTest struct {
	t        *testing.T
	rdb      *redis.Client
	name     string
	listener *Client
	gate     *scriptGate
	other    *Permit // holds the one unit
}

func newListenerTest(t *testing.T) *listenerTest {
	t.Helper()
	e := &listenerTest{t: t, rdb: testclient.Settled(t), name: t.Name() + "-" + uuid.NewString(), gate: &scriptGate{}}
	rdb := testclient.Settled(t)
	rdb.AddHook(e.gate)
	e.listener = e.client(rdb)
	s, err := e.client(testclient.Settled(t)).Semaphore(e.name, 1)
	require.NoError(t, err)
	e.other, err = s.Acquire(t.Context(), 1)
	require.NoError(t, err)
	keys := e.listener.keyspace.Keys(e.name)
	t.Cleanup(func() { assert.NoError(t, e.rdb.Del(background, keys[:]...).Err()) })
	return e
}

func (e *listenerTest) client(rdb *redis.Client) *Client {
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

// acquire acquires with the listener.
func (e *listenerTest) acquire() <-chan outcome {
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

// await returns the outcome of acquire, which must be a permit.
func (e *listenerTest) await(done <-chan outcome) (o outcome) {
	e.t.Helper()
	select {
	case o = <-done:
	case <-time.After(10 * time.Second):
		e.t.Fatal("no message reported the grant")
	}
	require.NoError(e.t, o.err)
	return o
}

// queue is acquire, but it returns only when the position in the queue is known and the subscription is established.
func (e *listenerTest) queue() (<-chan outcome, *ticket) {
	e.t.Helper()
	seq := e.listener.lastSeq.Load() + 1
	done := e.acquire()
	t := e.ticket(seq, func(t *ticket) bool { return t.phase == waiting })
	require.Eventually(e.t, func() bool { return !e.listener.hub.Blind() }, time.Minute, time.Millisecond)
	e.settle()
	return done, t
}

// settle waits until no operation of the listener is in flight: a new subscription queries all tickets once.
func (e *listenerTest) settle() {
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
	}, time.Minute, time.Millisecond, "operations of the client remain in flight")
}

// ticket waits until a ticket of the listener satisfies a condition.
func (e *listenerTest) ticket(seq int64, is func(*ticket) bool) (found *ticket) {
	e.t.Helper()
	v, err := e.listener.stateOf(e.name)
	require.NoError(e.t, err)
	require.Eventually(e.t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		found = v.tickets[seq]
		return found != nil && is(found)
	}, time.Minute, time.Millisecond, "the ticket never satisfies the condition")
	return found
}

func (e *listenerTest) publish(payloads ...string) {
	e.t.Helper()
	_, err := e.rdb.Pipelined(background, func(pipe redis.Pipeliner) error {
		for _, p := range payloads {
			pipe.Publish(background, e.listener.keyspace.WakePrefix()+e.listener.keyspace.ClientID, p)
		}
		return nil
	})
	require.NoError(e.t, err)
}

// released calls Release until Redis confirms it: on a busy machine that can take longer than the second that Release waits.
func released(t *testing.T, p *Permit) {
	t.Helper()
	var err error
	for range 20 {
		if err = p.Release(t.Context()); !errors.Is(err, ErrUnavailable) {
			break
		}
	}
	require.NoError(t, err)
}

func (e *listenerTest) ownerKey() string { return e.listener.keyspace.Keys(e.name)[0] }

// grantedBy makes the other process release. It checks that the waiter gets the grant of Redis, and that a message alone sufficed.
func (e *listenerTest) grantedBy(done <-chan outcome, calls int) {
	e.t.Helper()
	released(e.t, e.other)
	o := e.await(done)
	token, err := e.rdb.ZScore(e.t.Context(), e.ownerKey(), o.permit.ID()).Result()
	require.NoError(e.t, err, "Redis has not granted it")
	assert.Equal(e.t, int64(token), o.permit.Token())
	assert.Empty(e.t, e.gate.since(calls), "the messages caused a query")
	released(e.t, o.permit)
}

func TestForgedMessageWithoutTheQueuePositionGrantsNothing(t *testing.T) {
	t.Parallel()
	e := newListenerTest(t)
	done, ticket := e.queue()
	calls := len(e.gate.since(0))
	seq, position := ticket.seq, ticket.position
	for _, g := range []protocol.Grant{
		grantAt(seq, position+1, 666), grantAt(seq, position-1, 666), grantAt(seq, 0, 666), grantAt(seq, -position, 666), grantAt(seq, 666, position), grantAt(seq, position+1, 0),
		grantAt(seq+1, position, 666), grantAt(-seq, position, 666), grantAt(0, 0, 0),
	} {
		e.publish(wakeMessage(e.ownerKey(), ticket.epoch, []protocol.Grant{g}))
	}
	// A message from before a loss of state: positions are restored unchanged, grants are not.
	e.publish(wakeMessage(e.ownerKey(), ticket.epoch-1, []protocol.Grant{grantAt(seq, position, 666)}))
	e.publish(wakeMessage(e.listener.keyspace.Keys("another name")[0], ticket.epoch, []protocol.Grant{grantAt(seq, position, 666)}))
	e.grantedBy(done, calls)
}

func TestForgedMessageChangesNothingForAHolder(t *testing.T) {
	t.Parallel()
	e := newListenerTest(t)
	done, ticket := e.queue()
	released(t, e.other)
	p := e.await(done).permit
	token := p.Token()
	calls := len(e.gate.since(0))
	for _, g := range []protocol.Grant{grantAt(ticket.seq, ticket.position, 666), grantAt(ticket.seq, ticket.position, 0), grantAt(ticket.seq, 0, 666)} {
		e.listener.receive(wakeMessage(e.ownerKey(), ticket.epoch, []protocol.Grant{g}))
	}
	assert.Equal(t, token, p.Token())
	require.NoError(t, p.Context().Err())
	assert.Empty(t, e.gate.since(calls))
	released(t, p)
}

func TestGarbageOnTheChannelIsIgnored(t *testing.T) {
	t.Parallel()
	e := newListenerTest(t)
	done, ticket := e.queue()
	calls := len(e.gate.since(0))
	real, key := fmt.Sprintf("%d:%d:", ticket.seq, ticket.position), fmt.Sprintf("%d %s", ticket.epoch, e.ownerKey())
	e.publish("", " ", "\x00", "\r\n", "*3\r\n$7\r\nmessage\r\n", key, " "+key, real, real+"666",
		real+"666 ", real+" "+key, real+"666: "+key, real+"6e6 "+key, real+"666, "+key,
		real+"99999999999999999999 "+key, real+"666 "+key+" ", real+"666  "+key,
		real+"666 x"+key, real+"666 "+e.ownerKey(), real+"666 1"+key, real+"666 "+e.listener.keyspace.Keys(e.name)[1])
	e.grantedBy(done, calls)
}

func TestFloodOfMessagesDoesNoHarm(t *testing.T) {
	t.Parallel()
	e := newListenerTest(t)
	first, _ := e.queue()
	second, target := e.queue()
	calls := len(e.gate.since(0))
	release := e.gate.hold(&e.gate.requests)
	defer release()

	// Half of them name the true position and report that it is lost. Only Redis can know that, so the client queries it.
	flood := make([]string, 2_000) // read within the timeout of the query that is held, also on a busy machine
	for i := range flood {
		g := grantAt(target.seq, target.position+int64(i%2), 0)
		flood[i] = wakeMessage(e.ownerKey(), target.epoch, []protocol.Grant{g})
	}
	e.publish(flood...)
	released(t, e.other)
	o := e.await(first) // its message came after the flood, and no query was needed

	// The query about the others is sent beside that.
	require.Eventually(t, func() bool { return len(e.gate.since(calls)) > 0 }, time.Minute, time.Millisecond)
	assert.Equal(t, []string{"refresh"}, e.gate.since(calls), "one query about 1000 messages")
	release()
	e.settle()
	assert.LessOrEqual(t, len(e.gate.since(calls)), 3)
	released(t, o.permit)
	o = e.await(second)
	released(t, o.permit)
}

// The grant is published while the reply WAITING is still in flight.
func TestMessageThatOvertakesTheAnswerCounts(t *testing.T) {
	t.Parallel()
	e := newListenerTest(t)
	before, _ := e.queue() // the subscription is established
	released(t, e.other)
	holder := e.await(before).permit
	e.other = holder

	release := e.gate.hold(&e.gate.replies)
	defer release()
	seq := e.listener.lastSeq.Load() + 1
	done := e.acquire()
	queue := e.listener.keyspace.Keys(e.name)[1]
	require.Eventually(t, func() bool { return e.rdb.ZCard(t.Context(), queue).Val() == 1 }, time.Minute, time.Millisecond)

	// The operator releases the unit, because the listener's own replies are held back.
	space := protocol.Keyspace{Prefix: e.listener.keyspace.Prefix, ClientID: "an operator"}
	c := protocol.Release(space.About(e.name), protocol.Declaration{Spec: protocol.LimitSpec{Limit: 1}, Nothing: true}, 0, false, []*ticket{{id: holder.ID()}})
	require.NoError(t, e.rdb.Process(t.Context(), c.Command(true)))
	e.ticket(seq, func(t *ticket) bool { return t.phase == asking && t.earlyGrant != nil && t.earlyGrant.Token != 0 })
	calls := len(e.gate.since(0))
	release()
	o := e.await(done)
	token, err := e.rdb.ZScore(t.Context(), e.ownerKey(), o.permit.ID()).Result()
	require.NoError(t, err)
	assert.Equal(t, int64(token), o.permit.Token())
	assert.Empty(t, e.gate.since(calls), "the client needed a query")
	released(t, o.permit)
	assert.ErrorIs(t, holder.Release(t.Context()), ErrLost)
}

func TestAfterAGapTheClientQueriesWhatItMissed(t *testing.T) {
	t.Parallel()
	e := newListenerTest(t)
	done, _ := e.queue()
	calls := len(e.gate.since(0))
	e.listener.gap()
	e.listener.verifyAll()
	e.settle()
	sent := e.gate.since(calls)
	assert.Equal(t, []string{"refresh"}, slices.Compact(sent), "one query for the gap, and another if the first came too early for the verification")
	e.grantedBy(done, calls+len(sent))
}

// The subscription shows a holder that its server is gone. So a client needs it before it has any waiter, and not after Close.
func TestSubscriptionStartsWithTheFirstPermit(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
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
	c, err := New(testclient.Settled(t), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	s, err := c.Semaphore(t.Name()+"-"+uuid.NewString(), 1)
	require.NoError(t, err)
	require.NoError(t, s.Do(t.Context(), 1, func(context.Context) error {
		require.Eventually(t, func() bool { return !c.hub.Blind() }, time.Minute, time.Millisecond)
		return nil
	}))
	require.NoError(t, c.Close())
	assert.Empty(t, log.String())
}

// wakeMessage builds a message as the scripts do.
func wakeMessage(ownerKey string, epoch int64, grants []protocol.Grant) string {
	var entries []string
	for _, g := range grants {
		entries = append(entries, fmt.Sprintf("%d:%d:%d", g.Seq, g.Position, g.Token))
	}
	return fmt.Sprintf("%s %d %s", strings.Join(entries, ","), epoch, ownerKey)
}

// grantAt is a grant of a ticket.
func grantAt(seq, position, token int64) protocol.Grant {
	return protocol.Grant{Seq: seq, Position: position, Token: token}
}

// receive handles a message as the client does.
func (c *Client) receive(payload string) {
	if name, epoch, grants, ok := c.keyspace.ParseWake(payload); ok {
		c.woken(name, epoch, grants)
	}
}
