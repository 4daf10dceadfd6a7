package fairsem

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// How a client handles messages about revoked permits and removed waiters.

// evicted delivers the message about the holder of a token, or about the waiter at a position.
func evicted(c *Client, seq, number int64) {
	c.woken("a", 1, []protocol.Grant{grantAt(seq, number, 0)})
}

func TestEvictionThatOvertakesTheReplyToTheAcquireTakesEffect(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{NoRefresh: true})[0]
		f := w.carries("acquire a: 1")
		evicted(c, 1, 10)
		f.grantAll(10)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		assert.ErrorIs(t, context.Cause(a.permit().Context()), ErrEvicted)
		w.isIdle()
	})
}

func TestPermitThatIsNeverRenewedIsQueriedForTheRestOfItsLease(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{NoRefresh: true})[0]
		w.carries("acquire a: 1").grantAll(10)
		synctest.Wait()
		end := a.hold.remaining()
		time.Sleep(time.Minute)
		evicted(c, 1, 10)
		f := w.carries("refresh a: 1")
		assert.Equal(t, 59*time.Minute+24*time.Second, f.lease(0), "rounded up")
		evicted(c, 1, 10) // while the first query is in flight
		f.answers(1, -1, 0, 1, int64(protocol.Held), 10)
		f = w.carries("refresh a: 1")
		f.answers(1, -1, 0, 1, int64(protocol.Held), 10)
		w.isIdle()
		assert.Equal(t, end-time.Minute, a.hold.remaining(), "a query extended the lease")
	})
}

func TestEvictionDuringARenewalCausesAnotherQuery(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		synctest.Wait()
		time.Sleep(time.Second + time.Millisecond)
		f := w.carries("refresh a: 1")
		evicted(c, 1, 10)
		f.answers(1, -1, 0, 1, int64(protocol.Held), 0) // the server had not evicted it yet
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		assert.ErrorIs(t, context.Cause(a.permit().Context()), ErrLost)
		assert.ErrorIs(t, a.permit().Release(t.Context()), ErrLost)
		w.isIdle()
	})
}

// When the subscription is established again, a query replaces the messages that were lost.
func TestVerifyingChecksPermitsThatAreNeverRenewed(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{NoRefresh: true})[0]
		w.carries("acquire a: 1").grantAll(10)
		synctest.Wait()
		c.verifyAll()
		f := w.carries("refresh a: 1")
		f.answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		assert.ErrorIs(t, context.Cause(a.permit().Context()), ErrEvicted)
		w.isIdle()
	})
}

func TestQueryInBackoffEndsWithTheClient(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		done := make(chan error, 1)
		go func() {
			_, err := (&Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}}).Status(t.Context())
			done <- err
		}()
		w.carries("status a:").end <- net.ErrClosed
		synctest.Wait()
		began := time.Now()
		c.goroutines.Close()
		assert.ErrorIs(t, <-done, ErrClosed)
		assert.Zero(t, time.Since(began))
	})
}

// justEnded is a context that has just ended, before its Done channel is closed.
type justEnded struct {
	context.Context
	over atomic.Bool
}

func (c *justEnded) Err() error {
	if c.over.Load() {
		return context.Canceled
	}
	return nil
}

func TestEndOfTheContextTakesPrecedenceOverASimultaneousFailure(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		ctx, done := &justEnded{Context: t.Context()}, make(chan error, 1)
		go func() {
			_, err := (&Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}}).Status(ctx)
			done <- err
		}()
		f := w.carries("status a:")
		ctx.over.Store(true)
		f.end <- net.ErrClosed
		assert.ErrorIs(t, <-done, context.Canceled)
		w.isIdle()
	})
}

// duplicates is a go-redis hook whose reply to SCAN has every key twice, as Redis may return it.
type duplicates struct{ testclient.Hook }

func (duplicates) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		keys := []string{"fairsem:{a}:meta", "fairsem:{b}:meta", "fairsem:{a}:meta", "fairsem:{}:meta", "other:{c}:meta"}
		for _, cmd := range cmds {
			if scan, ok := cmd.(*redis.ScanCmd); ok {
				scan.SetVal(slices.Concat(keys, keys), 0)
			}
		}
		return nil
	}
}

func TestListYieldsOnceANameThatScanReturnsTwice(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	rdb.AddHook(duplicates{})
	c, err := New(rdb, Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	var got []string
	for name, err := range c.List(t.Context()) {
		require.NoError(t, err)
		got = append(got, name)
	}
	assert.Equal(t, []string{"a", "b"}, got)
}

func TestExpectedWaitIsTheQueueAtItsPace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		Status
		want time.Duration
		ok   bool
	}{
		"there is room":         {Status{Limit: 3, Used: 2}, 0, true},
		"a queue":               {Status{Limit: 3, Used: 3, Waiting: 9, Pace: 2}, 5 * time.Second, true},
		"a large waiter":        {Status{Limit: 3, Used: 1, Waiting: 1, Pace: 0.5}, 4 * time.Second, true},
		"no grant yet":          {Status{Limit: 3, Used: 3, Waiting: 9}, 0, false},
		"no queue, and no room": {Status{Limit: 3, Used: 3}, 0, false},
		"a pause":               {Status{Waiting: 9, Pace: 2}, 0, false},
		"practically never":     {Status{Limit: 1, Used: 1, Waiting: 1 << 52, Pace: 1e-9}, maxExpected, true},
	} {
		got, ok := c.ExpectedWait()
		assert.Equal(t, []any{c.want, c.ok}, []any{got, ok}, name)
	}
}
