package fairsemasynq_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemasynq"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// renderServer handles at most 4 tasks at once, on all servers together, however many workers they have.
func renderServer(client *fairsem.Client, redis asynq.RedisConnOpt, render asynq.HandlerFunc) (*asynq.Server, error) {
	renderers, err := client.Semaphore("renderers", 4)
	if err != nil {
		return nil, err
	}
	config := asynq.Config{Concurrency: 10, LogLevel: asynq.ErrorLevel}
	limited, err := fairsemasynq.Middleware(&config, renderers, fairsemasynq.Options{})
	if err != nil {
		return nil, err
	}
	mux := asynq.NewServeMux()
	mux.Use(limited)
	mux.HandleFunc("render", render)
	server := asynq.NewServer(redis, config) // after Middleware, which changes config
	return server, server.Start(mux)
}

// At most 4 tasks at once, on all servers together.
func ExampleMiddleware() {
	client, redis, stop := servers()
	defer stop()
	var counted worldtest.Gauge
	var pages sync.WaitGroup
	pages.Add(20)
	server, err := renderServer(client, redis, func(context.Context, *asynq.Task) error {
		defer pages.Done()
		counted.During(func() {})
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Shutdown()

	enqueue(redis, 20, "render")
	pages.Wait()
	fmt.Println(counted.All.Load(), "pages, more than 4 at once:", counted.Most.Load() > 4)
	// Output: 20 pages, more than 4 at once: false
}

// askServer handles the tasks of two customers, each with a queue. Each can have all of the limit, and no more than its part while the
// other waits.
func askServer(client *fairsem.Client, redis asynq.RedisConnOpt, ask asynq.HandlerFunc) (*asynq.Server, error) {
	model, err := client.Semaphore("model", 20)
	if err != nil {
		return nil, err
	}
	config := asynq.Config{Concurrency: 30, Queues: map[string]int{"acme": 1, "globex": 1}, LogLevel: asynq.ErrorLevel}
	limited, err := fairsemasynq.Middleware(&config, nil, fairsemasynq.Options{
		MaxWait: time.Second,
		LimitOf: func(ctx context.Context, _ *asynq.Task) (fairsemasynq.Limit, error) {
			customer, _ := asynq.GetQueueName(ctx)
			return model.With(fairsem.CallOptions{Tenant: customer}), nil
		},
		OnReschedule: func(_ context.Context, task *asynq.Task, delay time.Duration, err error) {
			slog.Info("rescheduled", "task", task.Type(), "delay", delay, "why", err)
		},
	})
	if err != nil {
		return nil, err
	}
	mux := asynq.NewServeMux()
	mux.Use(limited)
	mux.HandleFunc("ask", ask)
	server := asynq.NewServer(redis, config)
	return server, server.Start(mux)
}

// Queues that share a limit fairly.
func ExampleOptions() {
	client, redis, stop := servers()
	defer stop()
	answers := make(chan string)
	server, err := askServer(client, redis, func(ctx context.Context, _ *asynq.Task) error {
		customer, _ := asynq.GetQueueName(ctx)
		answers <- customer
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Shutdown()
	enqueue(redis, 3, "ask", asynq.Queue("acme"))
	enqueue(redis, 2, "ask", asynq.Queue("globex"))
	count := make(map[string]int)
	for range 5 {
		count[<-answers]++
	}
	fmt.Println(count)
	// Output: map[acme:3 globex:2]
}

// servers returns a Client and a Redis, and a function that ends both.
func servers() (*fairsem.Client, asynq.RedisConnOpt, func()) {
	rdb, stop := worldtest.ExampleRedis()
	client, err := fairsem.New(rdb, fairsem.Options{})
	if err != nil {
		panic(err)
	}
	return client, asynq.RedisClientOpt{Addr: rdb.Options().Addr}, func() {
		_ = client.Close() // the example is over
		stop()
	}
}

func enqueue(redis asynq.RedisConnOpt, tasks int, kind string, options ...asynq.Option) {
	client := asynq.NewClient(redis)
	defer func() { _ = client.Close() }() // the tasks are enqueued
	for range tasks {
		if _, err := client.Enqueue(asynq.NewTask(kind, nil), options...); err != nil {
			panic(err)
		}
	}
}
