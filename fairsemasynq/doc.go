// Package fairsemasynq limits the tasks of asynq that the workers of all processes handle together. The limit is a
// [fairsem.Semaphore] or a [fairsem.Mutex] (so many at once), or a [fairsem.Limiter] (so many in a window).
//
//	renderers, err := client.Semaphore("renderers", 4) // at most 4 at once, on all servers
//	config := asynq.Config{Concurrency: 10}
//	limited, err := fairsemasynq.Middleware(&config, renderers, fairsemasynq.Options{})
//	mux := asynq.NewServeMux()
//	mux.Use(limited)
//	mux.HandleFunc("render", render)
//	server := asynq.NewServer(redis, config) // after Middleware, which changes config
//	err = server.Run(mux)
//
// [Options.LimitOf] chooses a limit or a tenant for each task, by its type, its payload and its queue, and [Options.Weight] its
// weight. To limit some types only, have a limit for each pattern: wrap their handlers instead of Use.
//
//	mux.Handle("render", limited(asynq.HandlerFunc(render)))
//
// # What a task holds, and for how long
//
// With a Semaphore or a Mutex a task holds its units until its handler returns or panics, also when asynq has given up the
// task by then. The release is sent then; nothing waits for Redis to confirm it. A Limiter counts a task, and nothing is released.
//
// If the permit is lost, the context of the handler ends, and [context.Cause] of it is [fairsem.ErrLost]; if the [fairsem.Client] is closed,
// [fairsem.ErrClosed]. The result of the handler then counts as always: nil is a success, and an error is a failure, which wraps the cause
// if it is that of the context. The work had begun, and a task that always loses its permit must not go round for ever; if yours should,
// say so in Config.IsFailure.
//
// # What is rescheduled
//
// A task waits in the queue of its limit for at most [Options.MaxWait], and for at most half of the time until its deadline. If it has
// no permit by then, it is rescheduled: its handler is not called, and asynq has it in state "retry", with the reason in LastErr. It is not
// a failure: neither the retries of the task nor the statistics of the queue count it, and Config.ErrorHandler is not called.
// [Options.OnReschedule] is. The task is tried again after
//
//	the units are in use       the time that the queue of the limit takes at its pace, 1 s to 1 min, see [fairsem.Status.ExpectedWait]; of a tenant 1 s
//	the rate is exceeded       the time until its turn, which a [fairsem.Limiter] knows
//	nothing is granted         a guess, while the limit is paused, and after a start of Redis: 10 s, 1 s, or up to a TTL
//	Redis does not answer      10 s
//	the Client is closed       1 s
//	its other permit is lost   1 s, where a middleware before this one has a limit; 10 s if Redis does not answer
//
// and up to a quarter more, so that not all come back at once. asynq stores whole seconds, so it is up to one second more, and polls every
// Config.DelayedTaskCheckInterval, 5 s. A task whose Deadline comes before that is a failure then, and its handler is not called. A weight
// that exceeds the limit, and a mistake of the program such as an error of LimitOf, are failures.
//
// asynq archives a task that has no retries left for any error. Such a task, which is every task with MaxRetry(0), is not
// rescheduled: it waits in its worker, in the queue of the limit, until it has its permit. No MaxWait ends that, also not that of
// CallOptions; while CallOptions.MaxQueue keeps it out of the queue, it tries again after the delays above. Its deadline or its
// timeout ends the wait, or the loss of a permit of a middleware before this one, and asynq archives it then. If its server is shut
// down meanwhile, asynq pushes it back to its queue.
//
// # How to choose MaxWait and the number of workers
//
// A task that waits occupies a worker, and a task that is rescheduled loses its position in the queue. With a MaxWait of a few times what a
// task takes, some tasks always wait, and no unit is idle; with a much shorter one all tasks can be rescheduled at once.
// Tasks of other types that share the workers want it short. The wait is part of the timeout of the task.
//
// Tenants share the limit fairly between the tasks that workers have fetched. If one queue fills all workers, others cannot be
// fetched. So give each tenant a queue and, where that must hold at any time, a server with workers of its own.
//
// # When Redis does not answer
//
// Nothing is handled without a permit: tasks are rescheduled. The tasks that are under way go on until their permits are lost, which
// is nine tenths of a TTL after the last renewal. If it is also the Redis of asynq, asynq cannot store rescheduled tasks: after its
// own lease of the task has expired, it counts a failure, as it does without this package.
package fairsemasynq
