package fairsemasynq

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/gate"
)

// Limit is a [*fairsem.Semaphore], a [*fairsem.Mutex] or a [*fairsem.Limiter]. Its CallOptions apply, such as Tenant, Share,
// TenantLimit, MaxQueue, HeadStart and TTL. Any other type is refused with [fairsem.ErrInvalid].
type Limit interface {
	Name() string
	Status(ctx context.Context) (fairsem.Status, error)
}

// NoWait as [Options.MaxWait] makes a task not wait in the queue of its limit: it is rescheduled if its units are not free, or if others
// wait. It waits for the answer of Redis for at most a second, and for at most half of the time until its deadline.
const NoWait time.Duration = gate.NoWait

// Options configure a middleware. The zero value is the documented default. Functions are called by many goroutines at once. They
// get the context of the task, which asynq.GetQueueName, asynq.GetTaskID and others read.
type Options struct {
	// LimitOf returns the limit of a task, instead of one limit for all. It is called each time that the task is about to run, before
	// any I/O, and should do none: a handle such as client.Semaphore("queue/"+queue, 5) is cheap. If it returns an error, the
	// task fails.
	LimitOf func(ctx context.Context, task *asynq.Task) (Limit, error)

	// Weight returns how many units a task acquires. If nil, it is 1 for all. A Mutex has one unit.
	Weight func(ctx context.Context, task *asynq.Task) int64

	// MaxWait is how long a task waits in the queue of its limit before it is rescheduled, 5 s if zero. It is at most half of the time
	// until the deadline of the task. While the task waits it occupies a worker of its server. See also NoWait.
	MaxWait time.Duration

	// OnReschedule is called for each task that is rescheduled, with the delay and the reason, before asynq stores it. May be nil.
	OnReschedule func(ctx context.Context, task *asynq.Task, delay time.Duration, err error)
}
