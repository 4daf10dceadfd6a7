package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
	"github.com/fairsem/fairsem/internal/gate"
)

type job struct{}

func newRunner(t *testing.T, o Options[job, gate.Limit]) *Runner[job, gate.Limit] {
	t.Helper()
	r, err := New(o)
	require.NoError(t, err)
	return r
}

func nothing(context.Context) error { return nil }

func semaphore(t *testing.T, c *fairsem.Client, name string) *fairsem.Semaphore {
	t.Helper()
	s, err := c.Semaphore(name, 1)
	require.NoError(t, err)
	return s
}

// The job holds a permit of its first limit, whose end ends the context of the second wait. Its work has not begun.
func TestJobThatWaitsForItsSecondLimitIsRescheduledWhenTheFirstEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end   func(*testing.T, *fairsemtest.Server, *fairsem.Client, *fairsem.Semaphore)
		is    error
		least time.Duration
	}{
		"the client is closed": {func(t *testing.T, _ *fairsemtest.Server, c *fairsem.Client, _ *fairsem.Semaphore) {
			assert.NoError(t, c.Close())
		}, fairsem.ErrClosed, time.Second},
		"it is evicted": {func(t *testing.T, _ *fairsemtest.Server, _ *fairsem.Client, s *fairsem.Semaphore) { evictAll(t, s) }, fairsem.ErrEvicted, time.Second},
		"an outage":     {func(_ *testing.T, server *fairsemtest.Server, _ *fairsem.Client, _ *fairsem.Semaphore) { server.Down() }, fairsem.ErrLost, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := fairsemtest.NewServer(t)
				client := server.Client(fairsem.Options{})
				first, second := semaphore(t, client, "a"), semaphore(t, client, "b")
				_, err := second.Acquire(t.Context(), 1)
				require.NoError(t, err)
				inner := newRunner(t, Options[job, gate.Limit]{Limit: second, MaxWait: time.Hour})
				var delay time.Duration
				done := make(chan error, 1)
				go func() { // ends with the first permit
					_, err := newRunner(t, Options[job, gate.Limit]{Limit: first}).Run(t.Context(), job{}, func(ctx context.Context) (err error) {
						delay, err = inner.Run(ctx, job{}, nothing)
						return err
					})
					done <- err
				}()
				synctest.Wait()
				test.end(t, server, client, first)
				require.ErrorIs(t, <-done, test.is)
				assert.GreaterOrEqual(t, delay, test.least)
			})
		})
	}
}

func evictAll(t *testing.T, s *fairsem.Semaphore) {
	for held, err := range s.Holders(t.Context()) {
		assert.NoError(t, err)
		assert.NoError(t, s.Evict(t.Context(), held.ID))
	}
}

func TestErrorOfWorkUnderTwoLimitsNamesTheOneWhosePermitEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fairsemtest.NewServer(t).Client(fairsem.Options{})
		limits := map[string]*fairsem.Semaphore{"a": semaphore(t, client, "a"), "b": semaphore(t, client, "b")}
		for name, evicted := range limits {
			_, err := newRunner(t, Options[job, gate.Limit]{Limit: limits["a"]}).Run(t.Context(), job{}, func(ctx context.Context) error {
				_, err := newRunner(t, Options[job, gate.Limit]{Limit: limits["b"]}).Run(ctx, job{}, func(ctx context.Context) error {
					evictAll(t, evicted)
					<-ctx.Done()
					return ctx.Err()
				})
				return err
			})
			require.EqualError(t, err, `context canceled, because the permit of "`+name+`" ended: fairsem: permit lost: evicted`)
		}
	})
}

func TestWorkThatEndsWithTheClientSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fairsemtest.NewServer(t).Client(fairsem.Options{})
		s := semaphore(t, client, "a")
		delay, err := newRunner(t, Options[job, gate.Limit]{Limit: s}).Run(t.Context(), job{}, func(ctx context.Context) error {
			require.NoError(t, client.Close())
			<-ctx.Done()
			return ctx.Err()
		})
		assert.Zero(t, delay)
		require.ErrorIs(t, err, context.Canceled)
		assert.EqualError(t, err, `context canceled, because the permit of "a" ended: fairsem: permit released: client closed`)
	})
}

// A job whose deadline ends the wait has failed, and there is no time to store that it was rescheduled.
func TestJobThatDoesNotWaitInTheQueueWaitsForAnAnswerForHalfOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		s := semaphore(t, server.Client(fairsem.Options{}), "a")
		l, err := server.Client(fairsem.Options{}).Limiter("b", 1, time.Hour)
		require.NoError(t, err)
		server.Down()
		for _, limit := range []gate.Limit{s, l} {
			runner := newRunner(t, Options[job, gate.Limit]{Limit: limit, MaxWait: gate.NoWait})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			delay, err := runner.Run(ctx, job{}, nothing)
			assert.ErrorIs(t, err, fairsem.ErrUnavailable, limit.Name())
			assert.GreaterOrEqual(t, delay, 10*time.Second, limit.Name())
			deadline, _ := ctx.Deadline()
			assert.Equal(t, time.Second/2, time.Until(deadline), limit.Name())
		}
	})
}

// endsLate is a context that ends when the call for a permit has returned, before anything asks for its error.
type endsLate struct{ context.Context }

func (endsLate) Err() error { return context.Canceled }

// River counts an attempt of a job that it stops, unless the error is that of the context.
func TestJobThatIsStoppedWhenItsWaitHasEndedFailsWithTheErrorOfTheContext(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{time.Second, gate.NoWait} {
		synctest.Test(t, func(t *testing.T) {
			client := fairsemtest.NewServer(t).Client(fairsem.Options{})
			s := semaphore(t, client, "a")
			_, err := s.Acquire(t.Context(), 1) // Close releases it
			require.NoError(t, err)
			runner := newRunner(t, Options[job, gate.Limit]{Limit: s, MaxWait: wait})
			delay, err := runner.Run(endsLate{t.Context()}, job{}, nothing)
			assert.Zero(t, delay)
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, fairsem.ErrNotAcquired, "and it says why the job had no permit")
		})
	}
}

// The MaxWait of a handle is for calls that can do something else instead.
func TestJobThatStaysKeepsItsPositionPastTheMaxWaitOfItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fairsemtest.NewServer(t).Client(fairsem.Options{})
		s := semaphore(t, client, "a")
		lock, err := client.Mutex("b")
		require.NoError(t, err)
		held, err := fairsem.AcquireAll(t.Context(), s.Request(1), lock.Request())
		require.NoError(t, err)
		limiter, err := client.Limiter("c", 1, 10*time.Minute)
		require.NoError(t, err)
		require.NoError(t, limiter.Wait(t.Context(), 1))

		short := fairsem.CallOptions{MaxWait: time.Second}
		done := make(chan error)
		for _, limit := range []gate.Limit{s.With(short), lock.With(short), limiter.With(short)} {
			runner := newRunner(t, Options[job, gate.Limit]{Limit: limit, MustStay: func(context.Context) bool { return true }})
			go func() { // ends when the permits are released
				_, err := runner.Run(t.Context(), job{}, nothing)
				done <- err
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, limit := range []gate.Limit{s, lock, limiter} {
			st, err := limit.Status(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(1), st.Waiting, limit.Name())
			assert.InDelta(t, time.Minute, st.OldestWait, float64(time.Second), limit.Name())
		}
		require.NoError(t, held.Release(t.Context()))
		for range 3 {
			assert.NoError(t, <-done)
		}
	})
}
