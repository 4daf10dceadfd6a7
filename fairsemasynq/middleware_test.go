package fairsemasynq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemasynq"
)

func TestTaskHoldsItsUnitsUntilItsHandlerReturns(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(3)
	used := make(chan int64, 1)
	w.serve(s, fairsemasynq.Options{Weight: func(context.Context, *asynq.Task) int64 { return 2 }}, func(context.Context, *asynq.Task) error {
		used <- w.Status(s).Used
		return nil
	})
	w.enqueue("a")
	assert.Equal(t, int64(2), <-used)
	w.EventuallyUsed(s, 0)
	w.done(1)
}

func TestRescheduledTaskIsNoFailureHoweverOften(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	w.config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { t.Errorf("an error: %v", err) })
	w.config.IsFailure = func(err error) bool { t.Errorf("a failure? %v", err); return true }
	retries := make(chan int, 1)
	w.serve(s, fairsemasynq.Options{MaxWait: fairsemasynq.NoWait}, func(ctx context.Context, _ *asynq.Task) error {
		n, _ := asynq.GetRetryCount(ctx)
		retries <- n
		return nil
	})
	id := w.enqueue("a", asynq.MaxRetry(1)) // the second time would be the last, if the first had counted
	for range 2 {
		got := <-w.rescheduled
		assert.ErrorIs(t, got.err, fairsem.ErrNotAcquired)
		assert.GreaterOrEqual(t, got.delay, time.Second)
	}
	info := w.task(id, asynq.TaskStateRetry)
	assert.Zero(t, info.Retried)
	assert.Contains(t, info.LastErr, w.LimitName, "what operators see says why")
	release()
	assert.Zero(t, <-retries)
	w.done(1)
}

// asynq archives a task without retries left whatever IsFailure says of the error.
func TestTaskOnItsLastAttemptWaitsInsteadOfBeingArchived(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	var calls counted
	w.serve(s, fairsemasynq.Options{MaxWait: fairsemasynq.NoWait}, calls.handle)
	w.enqueue("a", asynq.MaxRetry(0))
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the task does not wait")
	release()
	w.done(1)
	assert.Equal(t, int64(1), calls.Load())
	assert.Empty(t, w.rescheduled)
}

// A task that waits when its server shuts down was not begun.
func TestTaskThatWaitsWhenItsServerShutsDownIsStillQueued(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	w.config.ShutdownTimeout = 100 * time.Millisecond
	var calls counted
	shutdown := w.serve(s, fairsemasynq.Options{}, calls.handle)
	id := w.enqueue("a", asynq.MaxRetry(0))
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the task does not wait")
	shutdown()
	assert.Equal(t, asynq.TaskStatePending, w.task(id, asynq.TaskStatePending).State)
	w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "it keeps its position in the queue")
	release()
	w.serve(s, fairsemasynq.Options{}, calls.handle)
	w.done(1)
	assert.Equal(t, int64(1), calls.Load())
}

func TestTaskWaitsForAtMostHalfOfItsTimeout(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	w.serve(s, fairsemasynq.Options{MaxWait: time.Hour}, new(counted).handle)
	id := w.enqueue("a", asynq.Timeout(4*time.Second))
	assert.ErrorIs(t, (<-w.rescheduled).err, fairsem.ErrNotAcquired)
	assert.Zero(t, w.task(id, asynq.TaskStateRetry).Retried)
}

func TestDelayOfALimiterIsTheTimeUntilItsTurn(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 1, time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 1))
	w.serve(limiter, fairsemasynq.Options{}, new(counted).handle)
	before := time.Now()
	id := w.enqueue("a")
	got := <-w.rescheduled
	assert.ErrorAs(t, got.err, new(*fairsem.WaitError))
	assert.Greater(t, got.delay, 55*time.Minute)
	assert.LessOrEqual(t, got.delay, 75*time.Minute, "a quarter more, so that not all come back at once")
	due := w.task(id, asynq.TaskStateRetry).NextProcessAt
	assert.InDelta(t, got.delay.Minutes(), time.Until(due).Minutes(), 2)
	assert.False(t, due.Before(before.Add(got.delay)), "asynq, which stores whole seconds, tries it before its turn")
}

func TestLimiterLetsTasksThroughAndHoldsNothing(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 3, time.Hour)
	require.NoError(t, err)
	w.serve(limiter, fairsemasynq.Options{}, new(counted).handle)
	for range 3 {
		w.enqueue("a")
	}
	w.done(3)
	w.enqueue("a")
	<-w.rescheduled
}

func TestOutageOfRedisLetsNothingThroughAndTasksAreLaterDone(t *testing.T) {
	w := newWorld(t)
	server := w.outage()
	s := w.Semaphore(1)
	w.Occupy(s, 1)()
	require.NoError(t, server.Kill())
	var calls counted
	w.serve(s, fairsemasynq.Options{MaxWait: 300 * time.Millisecond}, calls.handle)
	id, last := w.enqueue("a"), w.enqueue("a", asynq.MaxRetry(0))
	got := <-w.rescheduled
	assert.ErrorIs(t, got.err, fairsem.ErrUnavailable)
	assert.GreaterOrEqual(t, got.delay, 10*time.Second)
	assert.Zero(t, w.task(id, asynq.TaskStateRetry).Retried)
	w.task(last, asynq.TaskStateActive) // it waits
	assert.Zero(t, calls.Load())
	require.NoError(t, server.Restart())
	require.NoError(t, w.inspector.RunTask(w.LimitName, id))
	w.done(2)
}

func TestLostPermitEndsTheContextOfTheTaskAndIsTheReasonOfItsError(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	errs, causes := make(chan error, 1), make(chan error, 1)
	w.config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { errs <- err })
	w.serve(s, fairsemasynq.Options{}, func(ctx context.Context, _ *asynq.Task) error {
		assert.NoError(t, ctx.Err())
		w.Evict(s)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	w.enqueue("a", asynq.MaxRetry(0))
	assert.ErrorIs(t, <-causes, fairsem.ErrLost)
	err := <-errs
	assert.ErrorIs(t, err, fairsem.ErrLost)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, w.LimitName)
}

func TestErrorOfTheHandlerPassesThrough(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	own := errors.New("of the handler")
	errs := make(chan error, 1)
	w.config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { errs <- err })
	w.serve(s, fairsemasynq.Options{}, func(ctx context.Context, _ *asynq.Task) error {
		w.Evict(s)
		<-ctx.Done()
		return own
	})
	w.enqueue("a", asynq.MaxRetry(0))
	assert.Same(t, own, <-errs)
}

func TestHandlerThatPanicsReleases(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	w.serve(s, fairsemasynq.Options{}, func(context.Context, *asynq.Task) error {
		assert.Equal(t, int64(1), w.Status(s).Used)
		panic("a handler")
	})
	info := w.task(w.enqueue("a", asynq.MaxRetry(0)), asynq.TaskStateArchived)
	assert.Contains(t, info.LastErr, "a handler")
	w.EventuallyUsed(s, 0)
}

func TestLimitFollowsFromTheTaskAndItsQueue(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	busy, err := client.Semaphore(w.LimitName+"busy", 1)
	require.NoError(t, err)
	defer w.Occupy(busy, 1)()
	w.serve(nil, fairsemasynq.Options{
		MaxWait: fairsemasynq.NoWait,
		LimitOf: func(ctx context.Context, task *asynq.Task) (fairsemasynq.Limit, error) {
			if queue, _ := asynq.GetQueueName(ctx); queue != w.LimitName {
				return nil, errors.New("queue " + queue)
			}
			kind := strings.TrimPrefix(task.Type(), "job:")
			switch kind {
			case "none":
				return nil, errors.New("no limit for it")
			case "nil":
				return nil, nil
			case "panics":
				panic("no limit")
			}
			return client.Semaphore(w.LimitName+kind, 1)
		},
	}, new(counted).handle)
	idle := w.enqueue("idle")
	for kind, text := range map[string]string{
		"none": "no limit for it", "nil": "there is no limit", "panics": "no limit", strings.Repeat("x", 600): fairsem.ErrInvalid.Error(),
	} {
		info := w.task(w.enqueue(kind, asynq.MaxRetry(0)), asynq.TaskStateArchived)
		assert.Contains(t, info.LastErr, text)
	}
	id := w.enqueue("busy")
	<-w.rescheduled
	w.task(id, asynq.TaskStateRetry)
	w.Eventually(func() bool {
		_, err := w.inspector.GetTaskInfo(w.LimitName, idle)
		return errors.Is(err, asynq.ErrTaskNotFound)
	}, "the task with a limit of its own is not done")
}

// Trying again does not help.
func TestTaskThatWeighsMoreThanItsLimitFails(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	w.serve(s, fairsemasynq.Options{Weight: func(context.Context, *asynq.Task) int64 { return 3 }}, new(counted).handle)
	info := w.task(w.enqueue("a", asynq.MaxRetry(0)), asynq.TaskStateArchived)
	assert.Contains(t, info.LastErr, "exceeds the limit")
	assert.Empty(t, w.rescheduled)
}

func TestMutexLetsOneTaskThroughAtATime(t *testing.T) {
	w := newWorld(t)
	lock, err := w.Client().Mutex(w.LimitName)
	require.NoError(t, err)
	running := make(chan struct{}, 1)
	w.serve(lock, fairsemasynq.Options{MaxWait: time.Minute}, func(context.Context, *asynq.Task) error {
		select {
		case running <- struct{}{}:
		default:
			t.Error("two at once")
		}
		<-running
		return nil
	})
	for range 20 {
		w.enqueue("a")
	}
	w.done(20)
}

func TestFunctionsOfTheConfigAreCalledForWhatIsNotRescheduled(t *testing.T) {
	w := newWorld(t)
	own := errors.New("of the handler")
	type key struct{}
	w.config.BaseContext = func() context.Context { return context.WithValue(context.Background(), key{}, "base") }
	w.config.RetryDelayFunc = func(_ int, err error, _ *asynq.Task) time.Duration {
		assert.ErrorIs(t, err, own)
		return time.Hour
	}
	w.config.IsFailure = func(err error) bool { return !errors.Is(err, own) }
	errs := make(chan error, 1)
	w.config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { errs <- err })
	w.serve(w.Semaphore(1), fairsemasynq.Options{}, func(ctx context.Context, _ *asynq.Task) error {
		assert.Equal(t, "base", ctx.Value(key{}))
		return own
	})
	info := w.task(w.enqueue("a"), asynq.TaskStateRetry)
	assert.ErrorIs(t, <-errs, own)
	assert.Zero(t, info.Retried, "its IsFailure said that it was none")
	assert.Greater(t, time.Until(info.NextProcessAt), 50*time.Minute)
}

func TestWithoutFunctionsInTheConfigAnErrorIsAFailure(t *testing.T) {
	w := newWorld(t)
	w.serve(w.Semaphore(1), fairsemasynq.Options{}, func(context.Context, *asynq.Task) error { return errors.New("of the handler") })
	info := w.task(w.enqueue("a"), asynq.TaskStateRetry)
	assert.Equal(t, 1, info.Retried)
	assert.Greater(t, time.Until(info.NextProcessAt), 5*time.Second, "the delay of asynq")
}

func TestMiddlewareBeforeItMayWrapWhatItReturns(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	config := w.config
	limited, err := fairsemasynq.Middleware(&config, s, fairsemasynq.Options{MaxWait: fairsemasynq.NoWait})
	require.NoError(t, err)
	errs := make(chan error, 100)
	w.start(config, new(counted).handle, func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			err := next.ProcessTask(ctx, task)
			if err == nil {
				return nil
			}
			errs <- err
			return fmt.Errorf("outer: %w", err)
		})
	}, limited)
	id := w.enqueue("a", asynq.MaxRetry(1))
	rescheduled, is := errors.AsType[*fairsemasynq.RescheduleError](<-errs)
	require.True(t, is)
	assert.GreaterOrEqual(t, rescheduled.Delay, time.Second)
	assert.Zero(t, w.task(id, asynq.TaskStateRetry).Retried)
}

// The tests of internal/gate have all invalid settings; one row shows that they are checked.
func TestBadInputIsRefusedWhenTheMiddlewareIsMade(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	for what, bad := range map[string]struct {
		config *asynq.Config
		o      fairsemasynq.Options
	}{
		"no Config": {nil, fairsemasynq.Options{}},
		"MaxWait":   {new(asynq.Config), fairsemasynq.Options{MaxWait: -2}},
	} {
		_, err := fairsemasynq.Middleware(bad.config, s, bad.o)
		assert.ErrorIs(t, err, fairsem.ErrInvalid, what)
		assert.ErrorContains(t, err, "fairsemasynq.Middleware", what)
		if bad.config != nil {
			assert.Nil(t, bad.config.IsFailure, "%s: the Config is as it was", what)
		}
	}
}

// A rescheduled task would count as a failure there.
func TestServerThatWasNotMadeWithTheConfigFailsEveryTask(t *testing.T) {
	w := newWorld(t)
	limited, err := fairsemasynq.Middleware(new(asynq.Config), w.Semaphore(1), fairsemasynq.Options{})
	require.NoError(t, err)
	var calls counted
	w.start(w.config, calls.handle, limited)
	info := w.task(w.enqueue("a", asynq.MaxRetry(0)), asynq.TaskStateArchived)
	assert.Contains(t, info.LastErr, "call Middleware before asynq.NewServer")
	assert.Zero(t, calls.Load())
}

func TestNilHandlerIsAnErrorAndNoPanic(t *testing.T) {
	w := newWorld(t)
	var config asynq.Config
	limited, err := fairsemasynq.Middleware(&config, w.Semaphore(1), fairsemasynq.Options{})
	require.NoError(t, err)
	for _, none := range []asynq.Handler{nil, asynq.HandlerFunc(nil)} {
		err = limited(none).ProcessTask(config.BaseContext(), asynq.NewTask("a", nil))
		assert.ErrorIs(t, err, fairsem.ErrInvalid)
		assert.ErrorContains(t, err, "the handler is nil")
	}
}

// asynq archives the task, or drops it, whatever the error asks for.
func TestErrorHandlerIsCalledForARescheduleErrorThatEndsItsTask(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	reported := make(chan error, 10)
	w.config.ErrorHandler = asynq.ErrorHandlerFunc(func(_ context.Context, _ *asynq.Task, err error) { reported <- err })
	w.serve(s, fairsemasynq.Options{}, func(_ context.Context, task *asynq.Task) error {
		reasons := map[string]error{"job:skips": asynq.SkipRetry, "job:revokes": asynq.RevokeTask}
		return &fairsemasynq.RescheduleError{Delay: time.Hour, Err: reasons[task.Type()]}
	})
	last, skips := w.enqueue("last", asynq.MaxRetry(0)), w.enqueue("skips")
	w.enqueue("revokes")
	w.task(last, asynq.TaskStateArchived)
	w.task(skips, asynq.TaskStateArchived)
	w.Eventually(func() bool { return len(reported) == 3 }, "not all ends are reported")
	w.task(w.enqueue("rescheduled"), asynq.TaskStateRetry)
	assert.Len(t, reported, 3)
}

func TestRescheduleErrorOfAHandlerNeedsNoReason(t *testing.T) {
	assert.EqualError(t, &fairsemasynq.RescheduleError{Delay: time.Minute}, "rescheduled")
}
