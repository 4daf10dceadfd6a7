package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	redisv8 "github.com/go-redis/redis/v8"
	"github.com/hibiken/asynq"
	"github.com/hibiken/asynq/x/rate"
)

// asynqContender is the Semaphore of github.com/hibiken/asynq/x/rate. It counts asynq tasks. Only the context that asynq passes
// to a handler contains a task ID. So every caller here is a task: its handler lends its context and waits for the end.
// Meanwhile asynq itself sends a few commands in 5 s, which the figures include.
//
// Acquire succeeds or fails at once. Its example retries a refused task after 30 s. Here it is retried every 10 ms, as
// redis-semaphore does.
type asynqContender struct {
	addr       asynq.RedisClientOpt
	limit      int
	server     *asynq.Server
	contexts   chan context.Context // of the tasks
	finished   chan struct{}        // closed when the tasks must end
	semaphores map[string]*rate.Semaphore
}

const (
	asynqRetry   = 10 * time.Millisecond
	asynqTimeout = 10 * time.Minute // of the tasks; their units expire with it
	asynqStart   = 30 * time.Second
)

func openAsynq(j job, callers int) (contender, error) {
	h := &asynqContender{
		addr:       asynq.RedisClientOpt{Addr: j.Addr},
		limit:      int(j.Limit),
		contexts:   make(chan context.Context, callers),
		finished:   make(chan struct{}),
		semaphores: make(map[string]*rate.Semaphore),
	}
	// Each process has its own queue, so that it gets as many tasks as it has callers.
	queue := fmt.Sprintf("%s-%d", j.Key, j.Process)
	if err := h.enqueue(queue, callers); err != nil {
		return nil, err
	}
	h.server = asynq.NewServer(h.addr, asynq.Config{
		Concurrency: callers, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second,
	})
	return h, h.server.Start(asynq.HandlerFunc(h.lendContext))
}

func (h *asynqContender) enqueue(queue string, tasks int) (err error) {
	client := asynq.NewClient(h.addr)
	defer func() { err = errors.Join(err, client.Close()) }()
	for range tasks {
		if _, err := client.Enqueue(asynq.NewTask("caller", nil), asynq.Queue(queue), asynq.Timeout(asynqTimeout)); err != nil {
			return err
		}
	}
	return nil
}

func (h *asynqContender) lendContext(ctx context.Context, _ *asynq.Task) error {
	h.contexts <- ctx
	<-h.finished
	return nil
}

// withV8 is a server with a client of the version of go-redis that x/rate knows. asynq itself has a newer one since v0.24.
type withV8 struct{ addr string }

func (o withV8) MakeRedisClient() any { return redisv8.NewClient(&redisv8.Options{Addr: o.addr}) }

func (h *asynqContender) acquirer(name string) (acquireFunc, error) {
	if h.semaphores[name] == nil {
		h.semaphores[name] = rate.NewSemaphore(withV8{h.addr.Addr}, name, h.limit)
	}
	sem := h.semaphores[name]
	var task context.Context
	select {
	case task = <-h.contexts:
	case <-time.After(asynqStart):
		return nil, errors.New("asynq: the task did not start in time")
	}
	release := func(context.Context) error { return sem.Release(task) }
	return func(ctx context.Context) (acquired, error) {
		return acquired{release: release}, poll(ctx, asynqRetry, func() (bool, error) { return sem.Acquire(task) })
	}, nil
}

// poll calls try until it returns true or an error, or ctx ends.
func poll(ctx context.Context, every time.Duration, try func() (bool, error)) error {
	for {
		ok, err := try()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

func (h *asynqContender) close() error {
	close(h.finished)
	h.server.Shutdown()
	var errs []error
	for _, sem := range h.semaphores {
		errs = append(errs, sem.Close())
	}
	return errors.Join(errs...)
}
