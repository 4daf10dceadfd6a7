package fairsemriver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemriver"
)

func TestJobHoldsItsUnitsUntilItsWorkerReturns(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(3)
	used := make(chan int64, 1)
	w.serve(s, fairsemriver.Options{Weight: func(context.Context, *rivertype.JobRow) int64 { return 2 }}, func(context.Context, *river.Job[job]) error {
		used <- w.Status(s).Used
		return nil
	})
	id := w.insert("a", 1)
	assert.Equal(t, int64(2), <-used)
	w.EventuallyUsed(s, 0)
	w.done(id)
}

func TestRescheduledJobIsNoFailureHoweverOften(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	w.config = func(c *river.Config) { c.ErrorHandler = noErrors{w} }
	w.serve(s, fairsemriver.Options{MaxWait: fairsemriver.NoWait}, new(counted).work)
	id := w.insert("a", 1) // the first attempt is the last, if it counts
	for range 2 {
		got := <-w.rescheduled
		assert.ErrorIs(t, got.err, fairsem.ErrNotAcquired)
		assert.GreaterOrEqual(t, got.delay, time.Second)
	}
	release()
	w.done(id)
}

// noErrors is an ErrorHandler that must not be called.
type noErrors struct{ *world }

func (n noErrors) HandleError(_ context.Context, _ *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	n.Errorf("an error: %v", err)
	return nil
}

func (n noErrors) HandlePanic(_ context.Context, _ *rivertype.JobRow, p any, _ string) *river.ErrorHandlerResult {
	n.Errorf("a panic: %v", p)
	return nil
}

// A job that waits when its client stops was not begun.
func TestJobThatWaitsWhenItsClientStopsIsStillAvailable(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	w.config = func(c *river.Config) { c.ErrorHandler = noErrors{w} }
	c := w.serve(s, fairsemriver.Options{MaxWait: time.Hour}, new(counted).work)
	id := w.insert("a", 1)
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the job does not wait")
	require.NoError(t, c.StopAndCancel(t.Context()))
	assert.Zero(t, w.job(id, rivertype.JobStateAvailable).Attempt)
	assert.Empty(t, w.rescheduled, "it is available at once")
	w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "it keeps its position in the queue")
	release()
	w.serve(s, fairsemriver.Options{}, new(counted).work)
	w.done(id)
}

// Stop cancels nothing, so a job that River has fetched may still get its permit.
func TestStopWaitsForJobsThatWait(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	var calls counted
	c := w.serve(s, fairsemriver.Options{MaxWait: time.Hour}, calls.work)
	id := w.insert("a", 1)
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the job does not wait")
	stopping, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Stop(stopping), context.Canceled)
	assert.Equal(t, int64(1), w.Status(s).Waiting)
	release()
	<-c.Stopped()
	w.done(id)
	assert.Equal(t, int64(1), calls.Load())
}

func TestSoftStopTimeoutHasJobsThatWaitAvailableAgain(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	w.config = func(c *river.Config) { c.ErrorHandler, c.SoftStopTimeout = noErrors{w}, time.Millisecond }
	c := w.serve(s, fairsemriver.Options{MaxWait: time.Hour}, new(counted).work)
	id := w.insert("a", 1)
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the job does not wait")
	require.NoError(t, c.Stop(t.Context()))
	assert.Zero(t, w.job(id, rivertype.JobStateAvailable).Attempt)
	w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "it keeps its position in the queue")
}

func TestJobThatIsCancelledWhileItWaitsLeavesTheQueue(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	c := w.serve(s, fairsemriver.Options{MaxWait: time.Hour}, new(counted).work)
	id := w.insert("a", 1)
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the job does not wait")
	_, err := c.JobCancel(t.Context(), id)
	require.NoError(t, err)
	w.job(id, rivertype.JobStateCancelled)
	assert.Empty(t, w.rescheduled)
	w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "it keeps its position in the queue")
}

// River counts the time of a job from when its worker is called.
func TestWaitIsNoPartOfTheTimeoutOfAJob(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	w.config = func(c *river.Config) { c.JobTimeout = 10 * time.Second }
	deadlines := make(chan time.Time, 1)
	w.serve(s, fairsemriver.Options{MaxWait: time.Hour}, func(ctx context.Context, _ *river.Job[job]) error {
		deadline, _ := ctx.Deadline()
		deadlines <- deadline
		return nil
	})
	id := w.insert("a", 1)
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the job does not wait")
	released := time.Now()
	release()
	assert.GreaterOrEqual(t, (<-deadlines).Sub(released), 10*time.Second)
	w.done(id)
}

func TestDelayOfALimiterIsTheTimeUntilItsTurn(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 1, time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 1))
	w.serve(limiter, fairsemriver.Options{}, new(counted).work)
	id := w.insert("a", 1)
	got := <-w.rescheduled
	assert.ErrorAs(t, got.err, new(*fairsem.WaitError))
	assert.Greater(t, got.delay, 55*time.Minute)
	assert.LessOrEqual(t, got.delay, 75*time.Minute, "a quarter more, so that not all come back at once")
	row := w.job(id, rivertype.JobStateScheduled)
	assert.Zero(t, row.Attempt)
	assert.InDelta(t, got.delay.Minutes(), time.Until(row.ScheduledAt).Minutes(), 2)
}

func TestLimiterLetsJobsThroughAndHoldsNothing(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 3, time.Hour)
	require.NoError(t, err)
	w.serve(limiter, fairsemriver.Options{}, new(counted).work)
	for range 3 {
		w.done(w.insert("a", 1))
	}
	w.insert("a", 1)
	<-w.rescheduled
}

func TestOutageOfRedisLetsNothingThroughAndJobsAreLaterDone(t *testing.T) {
	w := newWorld(t)
	server := w.outage()
	s := w.Semaphore(1)
	w.Occupy(s, 1)()
	require.NoError(t, server.Kill())
	var calls counted
	c := w.serve(s, fairsemriver.Options{MaxWait: 300 * time.Millisecond}, calls.work)
	id := w.insert("a", 1)
	got := <-w.rescheduled
	assert.ErrorIs(t, got.err, fairsem.ErrUnavailable)
	assert.GreaterOrEqual(t, got.delay, 10*time.Second)
	assert.Zero(t, w.job(id, rivertype.JobStateScheduled).Attempt)
	assert.Zero(t, calls.Load())
	require.NoError(t, server.Restart())
	_, err := c.JobRetry(t.Context(), id)
	require.NoError(t, err)
	w.done(id)
}

func TestLostPermitEndsTheContextOfTheJobAndIsTheReasonOfItsError(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	causes := make(chan error, 1)
	w.serve(s, fairsemriver.Options{}, func(ctx context.Context, _ *river.Job[job]) error {
		assert.NoError(t, ctx.Err())
		w.Evict(s)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	id := w.insert("a", 1)
	assert.ErrorIs(t, <-causes, fairsem.ErrLost)
	row := w.job(id, rivertype.JobStateDiscarded)
	require.Len(t, row.Errors, 1)
	assert.Contains(t, row.Errors[0].Error, "context canceled")
	assert.Contains(t, row.Errors[0].Error, fmt.Sprintf("the permit of %q ended", w.LimitName))
}

func TestErrorOfTheWorkerPassesThrough(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	w.serve(s, fairsemriver.Options{}, func(ctx context.Context, _ *river.Job[job]) error {
		w.Evict(s)
		<-ctx.Done()
		return errors.New("of the worker")
	})
	row := w.job(w.insert("a", 1), rivertype.JobStateDiscarded)
	require.Len(t, row.Errors, 1)
	assert.Equal(t, "of the worker", row.Errors[0].Error)
}

func TestWorkerThatPanicsReleases(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	w.serve(s, fairsemriver.Options{}, func(context.Context, *river.Job[job]) error {
		assert.Equal(t, int64(1), w.Status(s).Used)
		panic("a worker")
	})
	row := w.job(w.insert("a", 1), rivertype.JobStateDiscarded)
	require.Len(t, row.Errors, 1)
	assert.Equal(t, "a worker", row.Errors[0].Error)
	w.EventuallyUsed(s, 0)
}

func TestLimitFollowsFromTheJobAndItsArguments(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	busy, err := client.Semaphore(w.LimitName+"busy", 1)
	require.NoError(t, err)
	defer w.Occupy(busy, 1)()
	w.serve(nil, fairsemriver.Options{
		MaxWait: fairsemriver.NoWait,
		LimitOf: func(_ context.Context, row *rivertype.JobRow) (fairsemriver.Limit, error) {
			var args job
			if err := json.Unmarshal(row.EncodedArgs, &args); err != nil || row.Kind != "job" || row.Queue != river.QueueDefault {
				return nil, fmt.Errorf("%s in %s: %w", row.Kind, row.Queue, err)
			}
			switch args.Text {
			case "none":
				return nil, errors.New("no limit for it")
			case "nil":
				return nil, nil
			case "panics":
				panic("no limit")
			}
			return client.Semaphore(w.LimitName+args.Text, 1)
		},
	}, new(counted).work)
	idle := w.insert("idle", 1)
	for text, want := range map[string]string{
		"none": "no limit for it", "nil": "there is no limit", "panics": "no limit", strings.Repeat("x", 600): fairsem.ErrInvalid.Error(),
	} {
		row := w.job(w.insert(text, 1), rivertype.JobStateDiscarded)
		require.Len(t, row.Errors, 1)
		assert.Contains(t, row.Errors[0].Error, want)
	}
	w.insert("busy", 1)
	<-w.rescheduled
	w.done(idle)
}

// Trying again does not help.
func TestJobThatWeighsMoreThanItsLimitFails(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	w.serve(s, fairsemriver.Options{Weight: func(context.Context, *rivertype.JobRow) int64 { return 3 }}, new(counted).work)
	row := w.job(w.insert("a", 1), rivertype.JobStateDiscarded)
	require.Len(t, row.Errors, 1)
	assert.Contains(t, row.Errors[0].Error, "exceeds the limit")
	assert.Empty(t, w.rescheduled)
}

func TestMutexLetsOneJobThroughAtATime(t *testing.T) {
	w := newWorld(t)
	lock, err := w.Client().Mutex(w.LimitName)
	require.NoError(t, err)
	running := make(chan struct{}, 1)
	w.serve(lock, fairsemriver.Options{MaxWait: time.Minute}, func(context.Context, *river.Job[job]) error {
		select {
		case running <- struct{}{}:
		default:
			t.Error("two at once")
		}
		<-running
		return nil
	})
	var ids []int64
	for range 20 {
		ids = append(ids, w.insert("a", 1))
	}
	for _, id := range ids {
		w.done(id)
	}
}

// limitedWorker has a limit of its own, beside workers without one.
type limitedWorker struct {
	river.WorkerDefaults[job]
	limited rivertype.WorkerMiddleware
	counted
}

func (l *limitedWorker) Middleware(*rivertype.JobRow) []rivertype.WorkerMiddleware {
	return []rivertype.WorkerMiddleware{l.limited}
}

func (l *limitedWorker) Work(ctx context.Context, j *river.Job[job]) error { return l.work(ctx, j) }

func TestWorkerCanHaveALimitOfItsOwn(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	limited, err := fairsemriver.Middleware(s, fairsemriver.Options{MaxWait: time.Minute})
	require.NoError(t, err)
	w.config = func(c *river.Config) {
		c.Workers = river.NewWorkers()
		river.AddWorker(c.Workers, &limitedWorker{limited: limited})
	}
	w.start(nil)
	id := w.insert("a", 1)
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the job does not wait")
	release()
	w.done(id)
}

func TestMiddlewareBeforeItMayWrapWhatItReturns(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	limited, err := fairsemriver.Middleware(s, fairsemriver.Options{MaxWait: fairsemriver.NoWait})
	require.NoError(t, err)
	errs := make(chan error, 100)
	w.start(new(counted).work, river.WorkerMiddlewareFunc(func(ctx context.Context, _ *rivertype.JobRow, inner func(context.Context) error) error {
		err := inner(ctx)
		errs <- err
		return fmt.Errorf("outer: %w", err)
	}), limited)
	id := w.insert("a", 1)
	err = <-errs
	assert.ErrorIs(t, err, fairsem.ErrNotAcquired)
	assert.ErrorAs(t, err, new(*river.JobSnoozeError))
	assert.ErrorContains(t, err, w.LimitName)
	assert.Zero(t, w.job(id, rivertype.JobStateAvailable).Attempt)
}

// The tests of internal/gate have all invalid settings; one case shows that they are checked.
func TestBadInputIsRefusedWhenTheMiddlewareIsMade(t *testing.T) {
	w := newWorld(t)
	_, err := fairsemriver.Middleware(w.Semaphore(1), fairsemriver.Options{MaxWait: -2})
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	assert.ErrorContains(t, err, "fairsemriver.Middleware")
}
