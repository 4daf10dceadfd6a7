package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynq/x/rate"
)

// asynqHouse is the Semaphore of github.com/hibiken/asynq/x/rate. It counts tasks of asynq, and the
// context of a task, which asynq gives to a handler, is the only way to a task ID. So every caller
// here is a task: its handler lends its context and waits for the end. What asynq itself asks of
// Redis meanwhile is a few commands in 5 s, which are left in the figures.
//
// Acquire says yes or no at once. Its example tries a task that got a no again after 30 s; here it is
// tried again every 10 ms, as often as redis-semaphore does.
type asynqHouse struct {
	addr     asynq.RedisClientOpt
	limit    int
	server   *asynq.Server
	contexts chan context.Context // of the tasks
	over     chan struct{}        // closed: the tasks end
	rooms    map[string]*rate.Semaphore
}

const (
	asynqRetry   = 10 * time.Millisecond
	asynqTimeout = 10 * time.Minute // of the tasks; their units lapse with it
	asynqStart   = 30 * time.Second
)

func openAsynq(j job, callers int) (house, error) {
	h := &asynqHouse{
		addr:     asynq.RedisClientOpt{Addr: j.Addr},
		limit:    int(j.Limit),
		contexts: make(chan context.Context, callers),
		over:     make(chan struct{}),
		rooms:    make(map[string]*rate.Semaphore),
	}
	// A queue for each process, so that each gets as many of the tasks as it has callers.
	queue := fmt.Sprintf("%s-%d", j.Key, j.Process)
	if err := h.enqueue(queue, callers); err != nil {
		return nil, err
	}
	h.server = asynq.NewServer(h.addr, asynq.Config{
		Concurrency: callers, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second,
	})
	return h, h.server.Start(asynq.HandlerFunc(h.lend))
}

func (h *asynqHouse) enqueue(queue string, tasks int) (err error) {
	client := asynq.NewClient(h.addr)
	defer func() { err = errors.Join(err, client.Close()) }()
	for range tasks {
		if _, err := client.Enqueue(asynq.NewTask("caller", nil), asynq.Queue(queue), asynq.Timeout(asynqTimeout)); err != nil {
			return err
		}
	}
	return nil
}

func (h *asynqHouse) lend(ctx context.Context, _ *asynq.Task) error {
	h.contexts <- ctx
	<-h.over
	return nil
}

func (h *asynqHouse) taker(name string) (takeFunc, error) {
	if h.rooms[name] == nil {
		h.rooms[name] = rate.NewSemaphore(h.addr, name, h.limit)
	}
	room := h.rooms[name]
	var task context.Context
	select {
	case task = <-h.contexts:
	case <-time.After(asynqStart):
		return nil, errors.New("asynq: the task does not start")
	}
	give := func(context.Context) error { return room.Release(task) }
	return func(ctx context.Context) (held, error) {
		return held{give: give}, poll(ctx, asynqRetry, func() (bool, error) { return room.Acquire(task) })
	}, nil
}

// poll calls try until it says yes, fails, or ctx ends.
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

func (h *asynqHouse) close() error {
	close(h.over)
	h.server.Shutdown()
	var errs []error
	for _, room := range h.rooms {
		errs = append(errs, room.Close())
	}
	return errors.Join(errs...)
}
