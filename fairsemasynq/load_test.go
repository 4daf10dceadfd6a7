package fairsemasynq_test

import (
	"os"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/worldtest"
)

// fleet is several worker processes with queues of their own.
type fleet struct {
	*worldtest.Fleet
	*world
	order order
	total int // tasks
}

// fleet returns one whose processes have so many workers for each queue.
func (w *world) fleet(workers map[string]int) *fleet {
	w.Helper()
	f := &fleet{world: w, order: order{
		Redis: w.Redis, Store: w.store, Name: w.LimitName, Limit: 4, Each: 15 * time.Millisecond, MaxWait: time.Minute, TTL: 10 * time.Second,
		Workers: make(map[string]int),
	}}
	for queue, n := range workers {
		f.order.Workers[f.queue(queue)] = n
	}
	f.Fleet = worldtest.NewFleet(w.T, w.store, w.LimitName, w.Client().Inspect(w.LimitName))
	f.Order = func() worldtest.Order { return f.order }
	return f
}

func (f *fleet) queue(name string) string { return f.order.Name + "-" + name }

func (f *fleet) enqueue(queue string, tasks int, options ...asynq.Option) {
	enqueue(asynq.RedisClientOpt{Addr: f.store}, tasks, "job:a", append(options, asynq.Queue(f.queue(queue)))...)
	f.total += tasks
}

// finish waits until all tasks are done, and checks the counts of asynq. It returns how often tasks were rescheduled.
func (f *fleet) finish() int {
	times := f.Finish(f.total, f.order.Limit)
	for queue := range f.order.Workers {
		info, err := f.inspector.GetQueueInfo(queue)
		require.NoError(f, err)
		assert.Zero(f, info.Size, "tasks that are left")
		assert.Zero(f, info.FailedTotal)
		assert.NoError(f, f.inspector.DeleteQueue(queue, true))
	}
	return times
}

func TestFourProcessesStayWithinTheLimitAndDoEveryTaskOnce(t *testing.T) {
	w := newWorld(t)
	f := w.fleet(map[string]int{"a": 10})
	f.order.Each, f.order.MaxWait = 50*time.Millisecond, 150*time.Millisecond // the last of 40 would wait for 450 ms
	f.Start(4)
	f.enqueue("a", 40)
	f.enqueue("a", 10, asynq.MaxRetry(0))
	assert.Positive(t, f.finish(), "some were rescheduled")
}

// 32 workers for one tenant, and 8 for the other: without tenants the first would get four times as many units.
func TestTenantsOfFourProcessesGetTheirFairPart(t *testing.T) {
	w := newWorld(t)
	f := w.fleet(map[string]int{"large": 8, "small": 2})
	f.Start(4)
	f.enqueue("small", 50)
	f.enqueue("large", 200)
	f.finish()
	before := f.Before(f.queue("small"))
	t.Logf("%d of large were done when 50 of small were", before)
	assert.Less(t, before, 100)
}

// make integration runs it: FAIRSEM_INTEGRATION=1.
func TestFourProcessesDoEveryTaskThroughRestartsAndAnOutage(t *testing.T) {
	if os.Getenv("FAIRSEM_INTEGRATION") == "" {
		t.Skip("FAIRSEM_INTEGRATION is not set; the short forms are " +
			"TestFourProcessesStayWithinTheLimitAndDoEveryTaskOnce and TestTenantsOfFourProcessesGetTheirFairPart")
	}
	w := newWorld(t)
	server := w.outage()
	f := w.fleet(map[string]int{"large": 8, "small": 2})
	f.order.MaxWait, f.order.TTL = time.Second, 3*time.Second
	f.enqueue("small", 1500)
	f.enqueue("large", 6000)
	f.RestartsAndOutage(server, f.order.TTL)
	f.finish()
	t.Logf("%d of large were done when 1500 of small were", f.Before(f.queue("small")))
}
