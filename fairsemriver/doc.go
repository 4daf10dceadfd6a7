// Package fairsemriver limits the jobs of River that the workers of all processes work on together. The limit is a
// [fairsem.Semaphore] or a [fairsem.Mutex] (so many at once), or a [fairsem.Limiter] (so many in a window).
//
//	exports, err := client.Semaphore("exports", 4) // at most 4 at once, in all processes
//	limited, err := fairsemriver.Middleware(exports, fairsemriver.Options{})
//	config := &river.Config{
//		Middleware: []rivertype.Middleware{limited},
//		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
//		Workers:    workers,
//	}
//
// [Options.LimitOf] chooses a limit or a tenant for each job, by its kind, its arguments, its queue and its metadata, and
// [Options.Weight] its weight. To limit some kinds only, let the Middleware method of their Worker return the middleware, instead of
// Config.Middleware.
//
// # What a job holds, and for how long
//
// With a Semaphore or a Mutex a job holds its units until its worker returns or panics. The release is sent then; nothing waits for Redis
// to confirm it. A Limiter counts a job, and nothing is released.
//
// If the permit is lost, the context of the worker ends, and [context.Cause] of it is [fairsem.ErrLost]; if the [fairsem.Client] is closed,
// [fairsem.ErrClosed]. The result of the worker then counts as always: nil is a success, and an error is one of the attempts, and wraps the
// cause if it is that of the context. The work had begun, and a job that always loses its permit must not go round for ever; a worker that
// wants it can return river.JobSnooze.
//
// # What is rescheduled
//
// A job waits in the queue of its limit for at most [Options.MaxWait]. If it has no permit by then, it is rescheduled, as river.JobSnooze
// does it: its worker is not called, and River works on it later. It is not a failure: neither the attempts nor the errors of the job
// count it, and Config.ErrorHandler is not called. [Options.OnReschedule] is. The job is tried again after
//
//	the units are in use       the time that the queue of the limit takes at its pace, 1 s to 1 min, see [fairsem.Status.ExpectedWait]; of a tenant 1 s
//	the rate is exceeded       the time until its turn, which a [fairsem.Limiter] knows
//	nothing is granted         a guess, while the limit is paused, and after a start of Redis: 10 s, 1 s, or up to a TTL
//	Redis does not answer      10 s
//	the Client is closed       1 s
//	its other permit is lost   1 s, where a middleware before this one has a limit; 10 s if Redis does not answer
//
// and up to a quarter more, so that not all come back at once. A weight that exceeds the limit, and a mistake of the program such as
// an error of LimitOf, fail the job: that is one of its attempts.
//
// A job that is cancelled leaves the queue of the limit at once, and so does every job of a client that is stopped with
// StopAndCancel, which makes it available again; its attempt does not count. Stop waits for jobs that have begun, and River
// counts waiting jobs as begun: they wait for up to MaxWait more, and are then worked on or rescheduled. So Stop takes up to
// MaxWait longer. Where that is too long, set SoftStopTimeout, after which River acts as in StopAndCancel.
//
// # How to choose MaxWait and the number of workers
//
// A job that waits occupies a worker, and a job that is rescheduled loses its position in the queue. With a MaxWait of a few times the
// duration of a job, some jobs always wait, and no unit is idle; with a much shorter one all jobs can be rescheduled at once.
// Jobs of other kinds in the same queue of River want it short. The wait is no part of the timeout of the job.
//
// River takes a job for stuck when Config.RescueStuckJobsAfter has passed since it was fetched, and the wait counts there. That is 1 h more
// than JobTimeout, or 1 h without one, by default. So set it above MaxWait and the longest timeout of a job together. A job that waits or
// runs longer is rescued: River counts an attempt, and works on the job a second time beside the first, or discards it after its last one.
//
// Tenants share the limit fairly between the jobs that River has fetched. If the jobs of one fill all workers of a queue, the
// others cannot be fetched. So give each tenant a queue: each queue of River has workers of its own.
//
// # When Redis does not answer
//
// Nothing is worked on without a permit: jobs are rescheduled. The jobs that are under way go on until their permits are lost, which
// is nine tenths of a TTL after the last renewal.
package fairsemriver
