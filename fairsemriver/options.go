package fairsemriver

import (
	"context"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/gate"
)

// Limit is a [*fairsem.Semaphore], a [*fairsem.Mutex] or a [*fairsem.Limiter]. Its CallOptions apply, such as Tenant, Share,
// TenantLimit, MaxQueue, HeadStart and TTL. Any other type is refused with [fairsem.ErrInvalid].
type Limit interface {
	Name() string
	Status(ctx context.Context) (fairsem.Status, error)
}

// NoWait as [Options.MaxWait] makes a job not wait in the queue of its limit: it is rescheduled if its units are not free, or if others
// wait. It waits for the answer of Redis for at most a second.
const NoWait time.Duration = gate.NoWait

// Options configure a middleware. The zero value is the documented default. Functions are called by many goroutines at once. They
// must not change the job.
type Options struct {
	// LimitOf returns the limit of a job, instead of one limit for all. It is called each time that the job is about to run, before any
	// I/O, and should do none: a handle such as client.Semaphore("queue/"+job.Queue, 5) is cheap. If it returns an error, the job
	// fails. job.EncodedArgs has its arguments as JSON.
	LimitOf func(ctx context.Context, job *rivertype.JobRow) (Limit, error)

	// Weight returns how many units a job acquires. If nil, it is 1 for all. A Mutex has one unit.
	Weight func(ctx context.Context, job *rivertype.JobRow) int64

	// MaxWait is how long a job waits in the queue of its limit before it is rescheduled, 5 s if zero. While it waits it occupies a
	// worker of its client, and River counts the wait for Config.RescueStuckJobsAfter; see the package. See also NoWait.
	MaxWait time.Duration

	// OnReschedule is called for each job that is rescheduled, with the delay and the reason, before River stores it. May be nil.
	OnReschedule func(ctx context.Context, job *rivertype.JobRow, delay time.Duration, err error)
}
