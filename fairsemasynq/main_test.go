package fairsemasynq_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/fairsemasynq"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMain(m *testing.M) { worldtest.Main[order](func() int { return redistest.Main(m) }) }

// world is a limit of its own, and a queue of asynq on the same server. The queue has the name of the limit.
type world struct {
	*worldtest.World
	store       string // the address of the server of asynq
	inspector   *asynq.Inspector
	client      *asynq.Client
	config      asynq.Config      // of every new server
	rescheduled chan rescheduling // the arguments of OnReschedule
}

type rescheduling struct {
	delay time.Duration
	err   error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: worldtest.New(t), rescheduled: make(chan rescheduling, 100)}
	w.store = w.Redis
	rdb := redis.NewClient(&redis.Options{Addr: w.Redis})
	w.inspector, w.client = asynq.NewInspectorFromRedisClient(rdb), asynq.NewClientFromRedisClient(rdb)
	w.config = configOf(10, w.LimitName)
	t.Cleanup(func() {
		for _, task := range w.tasks() {
			_ = w.inspector.DeleteTask(w.LimitName, task.ID)
		}
		_ = w.inspector.DeleteQueue(w.LimitName, true)
		assert.NoError(t, rdb.Close())
	})
	return w
}

// configOf is that of a server that notices everything soon.
func configOf(workers int, queue string) asynq.Config {
	return asynq.Config{
		Concurrency: workers, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 50 * time.Millisecond,
	}
}

// serve handles the tasks of the queue, until the test ends or calls the result.
func (w *world) serve(limit fairsemasynq.Limit, o fairsemasynq.Options, handle asynq.HandlerFunc) (shutdown func()) {
	w.Helper()
	if o.OnReschedule == nil {
		o.OnReschedule = func(_ context.Context, _ *asynq.Task, delay time.Duration, err error) {
			w.rescheduled <- rescheduling{delay, err}
		}
	}
	config := w.config
	limited, err := fairsemasynq.Middleware(&config, limit, o)
	require.NoError(w, err)
	return w.start(config, handle, limited)
}

func (w *world) start(config asynq.Config, handle asynq.HandlerFunc, use ...asynq.MiddlewareFunc) (shutdown func()) {
	w.Helper()
	mux := asynq.NewServeMux()
	mux.Use(use...)
	mux.HandleFunc("job:", handle)
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: w.store}, config)
	require.NoError(w, server.Start(mux))
	w.Cleanup(server.Shutdown)
	return server.Shutdown
}

// enqueue returns the id of a new task.
func (w *world) enqueue(kind string, options ...asynq.Option) string {
	w.Helper()
	info, err := w.client.Enqueue(asynq.NewTask("job:"+kind, nil), append(options, asynq.Queue(w.LimitName))...)
	require.NoError(w, err)
	return info.ID
}

// tasks returns the tasks that are stored in any state but completed.
func (w *world) tasks() (all []*asynq.TaskInfo) {
	for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
		w.inspector.ListPendingTasks, w.inspector.ListActiveTasks, w.inspector.ListScheduledTasks, w.inspector.ListRetryTasks, w.inspector.ListArchivedTasks,
	} {
		some, _ := list(w.LimitName) // there may be no queue
		all = append(all, some...)
	}
	return all
}

// task waits until asynq has a task in that state.
func (w *world) task(id string, state asynq.TaskState) *asynq.TaskInfo {
	w.Helper()
	var info *asynq.TaskInfo
	w.Eventually(func() bool {
		var err error
		info, err = w.inspector.GetTaskInfo(w.LimitName, id)
		return err == nil && info.State == state
	}, "the task is not "+state.String())
	return info
}

// done waits until asynq has handled that many tasks of the queue, has no others, and has counted no failure.
func (w *world) done(tasks int) {
	w.Helper()
	w.Eventually(func() bool {
		info, err := w.inspector.GetQueueInfo(w.LimitName)
		return err == nil && info.Size == 0 && info.ProcessedTotal == tasks
	}, "not all tasks are done")
	info, err := w.inspector.GetQueueInfo(w.LimitName)
	require.NoError(w, err)
	assert.Zero(w, info.FailedTotal)
}

// outage has the limits of new Clients on a server of their own, which the test may kill. asynq works on.
func (w *world) outage() *redistest.Server {
	w.Helper()
	server := redistest.NewServer(w)
	require.NoError(w, server.AwaitAge(2))
	w.Redis = server.Addr()
	return server
}

// counted counts the calls of a handler.
type counted struct{ atomic.Int64 }

func (c *counted) handle(context.Context, *asynq.Task) error {
	c.Add(1)
	return nil
}
