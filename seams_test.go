package fairsem

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

var background = context.Background()

// Cases in which several parts of the client interact.

func TestEvictionOfAGrantThatIsBeingConfirmedTakesEffect(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{NoRefresh: true})[0]
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 10)
		synctest.Wait()
		c.woken("a", 1, []protocol.Grant{grantAt(1, 10, 20)})
		f := w.carries("refresh a: 1")
		evicted(c, 1, 20) // after Redis had answered the query
		f.answers(1, -1, 0, 1, int64(protocol.Held), 20)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(a.permit().Context()), ErrEvicted)
		w.isIdle()
	})
}

func TestAcquireReturnsAnEvictionThatComesBeforeTheCallerGetsThePermit(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		reported := recordEvents(c)
		slow := func() error { time.Sleep(time.Second); return nil }
		done := acquires(&slowCaller{Context: t.Context(), meanwhile: slow}, c, CallOptions{})
		w.carries("acquire a: 1").grantAll(10)
		synctest.Wait()
		evicted(c, 1, 10)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		time.Sleep(2 * time.Second)
		w.isIdle()
		assert.ErrorIs(t, (<-done).err, ErrEvicted)
		assert.Len(t, reported(), 1)
	})
}

func TestEvictThatIsSentAgainReportsSuccess(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		s := &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}}
		done := make(chan error, 1)
		evict := func() { done <- s.Evict(t.Context(), "x:1") }
		go evict()
		w.carries("evict a: 1").end <- net.ErrClosed
		time.Sleep(time.Second)
		w.carries("evict a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		w.carries("set").end <- nil
		require.NoError(t, <-done)
		go evict()
		w.carries("evict a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		require.ErrorIs(t, <-done, ErrNotFound, "another call evicted it")
	})
}

// lostReply is a go-redis hook that loses the reply to the first eviction.
type lostReply struct {
	testclient.Hook
	lost atomic.Bool
}

func (h *lostReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			if scriptOf(c) == protocol.EvictScript && c.Err() == nil && !h.lost.Swap(true) {
				c.(protocol.Numbers).SetVal(nil)
				c.SetErr(net.ErrClosed)
				err = net.ErrClosed
			}
		}
		return err
	}
}

func TestEvictWhoseAnswerIsLostReportsSuccess(t *testing.T) {
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		hook := &lostReply{}
		rdb.AddHook(hook)
		c, err := New(rdb, Options{})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		s, err := c.Semaphore(uuid.NewString(), 1)
		require.NoError(t, err)
		p, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, s.Evict(t.Context(), p.ID()))
		assert.True(t, hook.lost.Load())
		<-p.Context().Done()
		assert.ErrorIs(t, context.Cause(p.Context()), ErrEvicted)
		assert.ErrorIs(t, s.Evict(t.Context(), p.ID()), ErrNotFound)
	})
}

func TestRateLimitReportsNoGrantThatDoesNotCount(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		reported := recordEvents(c)
		s := &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5, Window: time.Minute}}}
		a, err := c.ask(t.Context(), s, 1, true, time.Now())
		require.NoError(t, err)
		w.carries("acquire a: 1").grantAll(10)
		synctest.Wait()
		require.True(t, a.hold.claim(nil))
		a.state.close() // between the two steps of await
		assert.False(t, a.state.removeRateGrant(a))
		assert.Empty(t, reported())
	})
}

// slowPrimaries is a cluster whose primaries reply late.
type slowPrimaries struct {
	*redis.ClusterClient
	node   *redis.Client
	called func()
	resume chan struct{}
}

func (s slowPrimaries) ForEachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	s.called()
	<-s.resume
	return f(ctx, s.node)
}

func TestCanceledListReadsNothingThatIsStillWritten(t *testing.T) {
	t.Parallel()
	node, rdb := redis.NewClient(&redis.Options{}), redis.NewClusterClient(&redis.ClusterOptions{})
	t.Cleanup(func() { assert.NoError(t, errors.Join(node.Close(), rdb.Close())) })
	ctx, cancel := context.WithCancelCause(t.Context())
	primaries := slowPrimaries{rdb, node, nil, make(chan struct{})}
	primaries.called = sync.OnceFunc(func() { // a scan may ask again
		cancel(errors.New("enough"))
		close(primaries.resume)
	})
	c, err := New(primaries, Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	var last error
	for _, err := range c.List(ctx) {
		last = err
	}
	assert.Error(t, last)
}

// onBoth runs a test on a real server and on miniredis.
func onBoth(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Parallel()
	testclient.OnBoth(t, test)
}
