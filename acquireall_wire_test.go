package fairsem

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/protocol"
)

// AcquireAll where time and the order of requests are exact.

func requestOf(c *Client, name string, o CallOptions) Request {
	return (&Semaphore{Inspector: &Inspector{client: c, name: name, spec: protocol.LimitSpec{Limit: 5}}, opts: &o}).Request(1)
}

// holdsBoth returns the permits of a and b, as tickets 1 and 2.
func holdsBoth(t *testing.T, c *Client, w *wire, o CallOptions) *Permits {
	t.Helper()
	var p *Permits
	var err error
	go func() { p, err = AcquireAll(background, requestOf(c, "b", o), requestOf(c, "a", o)) }() // ends with the second answer
	w.carries("acquire a: 1").grantAll(10)
	w.carries("acquire b: 2").grantAll(20)
	synctest.Wait()
	require.NoError(t, err)
	return p
}

func TestMaxWaitOfARequestBoundsTheWaitForItsOwnUnits(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		var p *Permits
		var err error
		began := time.Now()
		go func() { // ends with MaxWait of c
			p, err = AcquireAll(background,
				requestOf(c, "a", CallOptions{MaxWait: time.Second}), requestOf(c, "b", CallOptions{}), requestOf(c, "c", CallOptions{MaxWait: time.Second}))
		}()
		w.carries("acquire a: 1").grantAll(10)
		w.carries("acquire b: 2").says(1, int64(protocol.Waiting), 20)
		time.Sleep(10 * time.Second)
		c.woken("b", 1, []protocol.Grant{{Seq: 2, Position: 20, Token: 30}})
		w.carries("acquire c: 3").says(1, int64(protocol.Waiting), 40)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Nil(t, p)
		require.ErrorIs(t, err, ErrNotAcquired)
		assert.Equal(t, 11*time.Second, time.Since(began))
	})
}

func TestPermitsAreReleasedInTheReverseOrderInAtMostASecondForAll(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		p := holdsBoth(t, c, w, CallOptions{})
		began := time.Now()
		err := p.Release(background) // nothing is answered
		assert.Equal(t, releaseWait, time.Since(began))
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorContains(t, err, `release "a"`)
		require.ErrorContains(t, err, `release "b"`)
		for order := []string{"release b: 2", "release a: 1"}; len(order) > 0; { // in one pipeline, unless the first leaves before the second is there
			f := w.next()
			require.NotNil(t, f)
			sent := f.contents()
			require.Equal(t, order[:min(len(sent), len(order))], sent)
			f.grantAll(0)
			order = order[len(sent):]
		}
		assert.NoError(t, p.Release(background))
	})
}

// A done ctx does not keep a deferred Release from waiting, and one that ends while it waits ends the wait for all.
func TestReleaseOfPermitsEndsWithItsContextUnlessThatWasDone(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		p := holdsBoth(t, c, w, CallOptions{})
		ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, p.Release(ctx), context.DeadlineExceeded)
		assert.Equal(t, 100*time.Millisecond, time.Since(began))
		began = time.Now()
		require.ErrorIs(t, p.Release(ctx), ErrUnavailable)
		assert.Equal(t, releaseWait, time.Since(began))
	})
}

// The monotonic clock stands still during a suspension.
func TestFirstCheckOfPermitsAfterASuspensionFindsThemLost(t *testing.T) {
	onMachine(t, 10*time.Second, func(t *testing.T, c *Client, w *wire, m *clock.Simulated) {
		p := holdsBoth(t, c, w, CallOptions{NoRefresh: true})
		ctx := p.Context()
		require.NoError(t, ctx.Err())
		m.Suspend(9 * time.Second)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		require.ErrorIs(t, p.Release(background), ErrLost)
	})
}
