package fairsemriver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemriver"
	"github.com/fairsem/fairsem/internal/worldtest"
)

type exportArgs struct {
	Customer string `json:"customer"`
}

func (exportArgs) Kind() string { return "export" }

// exportConfig is of a client that works on 10 jobs at once. All clients together work on at most 4.
func exportConfig(client *fairsem.Client, export func(context.Context, *river.Job[exportArgs]) error) (*river.Config, error) {
	exports, err := client.Semaphore("exports", 4)
	if err != nil {
		return nil, err
	}
	limited, err := fairsemriver.Middleware(exports, fairsemriver.Options{})
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(export))
	return &river.Config{
		Middleware: []rivertype.Middleware{limited},
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers:    workers,
	}, nil
}

// At most 4 jobs at once, in all processes together.
func ExampleMiddleware() {
	ctx := context.Background()
	client, stop := worldtest.Example()
	defer stop()
	var counted worldtest.Gauge
	var exports sync.WaitGroup
	exports.Add(20)
	config, err := exportConfig(client, func(context.Context, *river.Job[exportArgs]) error {
		defer exports.Done()
		counted.During(func() {})
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	jobs, stopJobs, err := startJobs(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stopJobs()
	for range 20 {
		if _, err := jobs.Insert(ctx, exportArgs{}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	exports.Wait()
	fmt.Println(counted.All.Load(), "exports, more than 4 at once:", counted.Most.Load() > 4)
	// Output: 20 exports, more than 4 at once: false
}

// perCustomer has the customers of exports share a limit fairly: each can have all of it, and no more than its part while others wait.
func perCustomer(exports *fairsem.Semaphore) (rivertype.WorkerMiddleware, error) {
	return fairsemriver.Middleware(nil, fairsemriver.Options{
		MaxWait: time.Second,
		LimitOf: func(_ context.Context, job *rivertype.JobRow) (fairsemriver.Limit, error) {
			var args exportArgs
			err := json.Unmarshal(job.EncodedArgs, &args)
			return exports.With(fairsem.CallOptions{Tenant: args.Customer, TenantLimit: 3}), err
		},
		OnReschedule: func(_ context.Context, job *rivertype.JobRow, delay time.Duration, err error) {
			slog.Info("rescheduled", "job", job.ID, "delay", delay, "why", err)
		},
	})
}

// Tenants by the arguments of a job.
func ExampleOptions() {
	ctx := context.Background()
	client, stop := worldtest.Example()
	defer stop()
	exports, err := client.Semaphore("exports", 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	limited, err := perCustomer(exports)
	if err != nil {
		fmt.Println(err)
		return
	}
	tenants := make(chan string)
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, _ *river.Job[exportArgs]) error {
		for tenant, err := range exports.Tenants(ctx) {
			tenants <- fmt.Sprintf("%s holds %d, at most %d: %v", tenant.Name, tenant.Used, tenant.Limit, err)
		}
		return nil
	}))
	jobs, stopJobs, err := startJobs(ctx, &river.Config{
		Middleware: []rivertype.Middleware{limited},
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers:    workers,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stopJobs()
	if _, err := jobs.Insert(ctx, exportArgs{Customer: "acme"}, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-tenants)
	// Output: acme holds 1, at most 3: <nil>
}

// startJobs starts a client on a PostgreSQL, and returns a function that ends it.
func startJobs(ctx context.Context, config *river.Config) (*river.Client[pgx.Tx], func(), error) {
	pool, schema, err := open(ctx)
	if err != nil {
		return nil, nil, err
	}
	config.Schema, config.Logger = schema, slog.New(slog.DiscardHandler)
	jobs, err := river.NewClient(riverpgxv5.New(pool), config)
	if err == nil {
		err = jobs.Start(ctx)
	}
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return jobs, func() { end(ctx, jobs, pool) }, nil
}

func end(ctx context.Context, jobs *river.Client[pgx.Tx], pool *pgxpool.Pool) {
	_ = jobs.Stop(ctx) // the example is over
	pool.Close()
}
