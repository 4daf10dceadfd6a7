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

// How calls end without a grant: by their context, by MaxWait, or because Redis does not answer.

// asking returns all calls, on a name that the client has used or not.
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
		"List":       func(ctx context.Context) error { return listed(ctx, c) },
	}
}

func nothing(context.Context) error { return nil }

// listed returns the error of a List.
func listed(ctx context.Context, c *fairsem.Client) (last error) {
	for _, err := range c.List(ctx) {
		last = err
	}
	return last
}

// A web server once could not distinguish an unreachable Redis from a long queue.
func TestErrorDistinguishesUnreachableRedisFromALongQueue(t *testing.T) {
	w, server := privately(t)
	c := w.clientOn(w.open(func(testing.TB) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: server.Addr(), DialerRetries: 1}) // otherwise it reports the error half a second later
	}), fairsem.Options{TTL: w.ttl})
	require.NoError(t, server.Kill())
	var all sync.WaitGroup
	for name, ask := range w.asking(c) {
		all.Go(func() { // ends with its context
			ctx, cancel := context.WithTimeoutCause(t.Context(), 4*time.Second, errors.New("out of patience"))
			defer cancel()
			err := ask(ctx)
			if name != "Ping" && name != "List" { // they make one attempt
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

func TestErrorDistinguishesASilentRedisFromALongQueue(t *testing.T) {
	w, server := privately(t)
	c := w.client()
	require.NoError(t, c.Ping(t.Context()))
	require.NoError(t, server.Pause())
	for name, ask := range w.asking(c) {
		var err error
		for patience := 50 * time.Millisecond; !errors.Is(err, fairsem.ErrUnavailable) && patience < 5*time.Second; patience *= 2 { // until it is sent in time
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("out of patience"))
			err = ask(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
		}
		require.ErrorIs(t, err, fairsem.ErrUnavailable, name)
		require.ErrorContains(t, err, "out of patience", name)
	}
	require.NoError(t, server.Resume())
}

// If the units of an outer permit were revoked, the error must say that, and not only that the context was cancelled.
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
		w.eventually(func() bool { return w.status(s).Waiting == 0 }, "a position in the queue is left behind")
		w.release(holder)

		patient := s.With(fairsem.CallOptions{MaxWait: time.Hour})
		require.NoError(t, unlessLate(patient.Do(t.Context(), 1, func(ctx context.Context) error {
			_, limited := ctx.Deadline()
			assert.False(t, limited, "the work has a deadline")
			return nil
		})))
	})
}

func TestWaitFailsAtOnceIfItsGrantWouldComeTooLate(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l := w.limiter(1, time.Hour)
		require.NoError(t, l.Wait(t.Context(), 1))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		for name, wait := range map[string]func() error{
			"MaxWait":  func() error { return l.With(fairsem.CallOptions{MaxWait: 30 * time.Minute}).Wait(t.Context(), 1) },
			"deadline": func() error { return l.Wait(ctx, 1) },
		} {
			err := wait() // otherwise the test hangs
			var known *fairsem.WaitError
			require.ErrorAs(t, err, &known, name)
			assert.Greater(t, known.RetryAfter, 30*time.Minute, name)
			assert.LessOrEqual(t, known.RetryAfter, time.Hour+time.Millisecond, name)
			require.ErrorIs(t, err, fairsem.ErrNotAcquired, name)
		}
		assert.Zero(t, w.status(w.semaphore()).Waiting)
	})
}

func TestWaitWhoseGrantComesInTimeWaits(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		l := w.limiter(1, 200*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range 3 {
			require.NoError(t, l.Wait(ctx, 1))
		}
	})
}
