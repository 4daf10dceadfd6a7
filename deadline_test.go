package fairsem_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// How calls end that do not get what they ask for: by their context, by MaxWait, and by a Redis that says nothing.

// asking are all ways to ask of a name that the client has used, or not.
func (w *world) asking(c *fairsem.Client) map[string]func(context.Context) error {
	w.t.Helper()
	s := w.of(c, 1)
	l, err := c.Limiter(w.name+"-rate", 1, time.Second)
	require.NoError(w.t, err)
	return map[string]func(context.Context) error{
		"Acquire":    func(ctx context.Context) error { _, err := s.Acquire(ctx, 1); return err },
		"TryAcquire": func(ctx context.Context) error { _, err := s.TryAcquire(ctx, 1); return err },
		"Do":         func(ctx context.Context) error { return s.Do(ctx, 1, nothing) },
		"Allow":      func(ctx context.Context) error { _, err := l.Allow(ctx, 1); return err },
		"Wait":       func(ctx context.Context) error { return l.Wait(ctx, 1) },
		"Status":     func(ctx context.Context) error { _, err := s.Status(ctx); return err },
		"Ping":       c.Ping,
	}
}

func nothing(context.Context) error { return nil }

// A web server could not tell Redis that is away from a long queue.
func TestRedisThatIsAwayIsNotTakenForALongQueue(t *testing.T) {
	w, server := privately(t)
	c := w.clientOn(w.open(func(testing.TB) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1}) // or it keeps for half a second what it knows
	}), fairsem.Options{TTL: w.ttl})
	require.NoError(t, server.Kill())
	var all sync.WaitGroup
	for name, ask := range w.asking(c) {
		all.Go(func() { // ends with its context
			ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errors.New("out of patience"))
			defer cancel()
			err := ask(ctx)
			if name != "Ping" { // which asks once
				assert.ErrorIs(t, err, context.DeadlineExceeded, name)
				assert.ErrorContains(t, err, "out of patience", name)
			}
			assert.ErrorIs(t, err, fairsem.ErrUnavailable, name)
			assert.ErrorContains(t, err, "connection refused", name)
		})
	}
	all.Wait()
	require.NoError(t, server.Restart())
	w.release(w.must(w.of(c, 1).Acquire(t.Context(), 1)))
}

func TestSilentRedisIsNotTakenForALongQueue(t *testing.T) {
	w, server := privately(t)
	c := w.client()
	require.NoError(t, c.Ping(t.Context()))
	require.NoError(t, server.Pause())
	for name, ask := range w.asking(c) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := ask(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.ErrorIs(t, err, fairsem.ErrUnavailable, name)
	}
	require.NoError(t, server.Resume())
}

// The units of an outer permit were taken away: that is why, and not that somebody cancelled.
func TestErrorOfACallHasTheCauseOfItsContext(t *testing.T) {
	w := onRedis(t)
	w.limit = 2
	s := w.semaphore()
	outer, other := w.must(s.Acquire(t.Context(), 1)), w.must(s.Acquire(t.Context(), 1))
	waiter := w.queue(outer.Context(), s, 2)
	require.NoError(t, s.Evict(t.Context(), outer.ID()))
	<-waiter.done
	require.ErrorIs(t, waiter.err, context.Canceled)
	require.ErrorIs(t, waiter.err, fairsem.ErrEvicted)
	_, err := s.TryAcquire(outer.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrEvicted, "before anything was sent")
	w.release(other)
}

func TestMaxWaitEndsTheWaitAndNotTheWork(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		holder := w.must(s.Acquire(t.Context(), 1))
		brief := s.With(fairsem.CallOptions{MaxWait: 20 * time.Millisecond})
		_, err := brief.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, brief.Do(t.Context(), 1, nothing), fairsem.ErrNotAcquired)
		w.eventually(func() bool { return w.status(s).Waiting == 0 }, "a place in line is left behind")
		w.release(holder)

		patient := s.With(fairsem.CallOptions{MaxWait: time.Hour})
		require.NoError(t, patient.Do(t.Context(), 1, func(ctx context.Context) error {
			_, limited := ctx.Deadline()
			assert.False(t, limited, "the work has a deadline")
			return nil
		}))
	})
}

func TestWaitFailsAtOnceIfItsTurnComesTooLate(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l := w.limiter(1, time.Hour)
		require.NoError(t, l.Wait(t.Context(), 1))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		for name, wait := range map[string]func() error{
			"MaxWait":  func() error { return l.With(fairsem.CallOptions{MaxWait: 30 * time.Minute}).Wait(t.Context(), 1) },
			"deadline": func() error { return l.Wait(ctx, 1) },
		} {
			err := wait() // or the test hangs
			var known *fairsem.WaitError
			require.ErrorAs(t, err, &known, name)
			assert.Greater(t, known.RetryAfter, 30*time.Minute, name)
			assert.LessOrEqual(t, known.RetryAfter, time.Hour+time.Millisecond, name)
			require.ErrorIs(t, err, fairsem.ErrNotAcquired, name)
		}
		assert.Zero(t, w.status(w.semaphore()).Waiting)
	})
}

func TestWaitWhoseTurnComesInTimeWaitsInLine(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l := w.limiter(1, 200*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 {
			require.NoError(t, l.Wait(ctx, 1))
		}
	})
}
