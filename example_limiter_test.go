package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
)

// A client of an API that allows a number of calls in any second, for all processes together.
func ExampleLimiter_Wait() {
	client, stop := newClient()
	defer stop()
	api, err := client.Limiter("geocoder", 100, time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for _, place := range []string{"Lisbon", "Quito", "Oslo"} {
		if err := api.Wait(ctx, 1); err != nil { // first come, first served, in all processes
			fmt.Println(err)
			return
		}
		fmt.Println("asking for", place)
	}
	// Output:
	// asking for Lisbon
	// asking for Quito
	// asking for Oslo
}

// A server that refuses callers and reports when they may retry.
func ExampleLimiter_Allow() {
	client, stop := newClient()
	defer stop()
	logins, err := client.Limiter("logins of user 17", 2, time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		d, err := logins.Allow(context.Background(), 1)
		switch {
		case err != nil:
			fmt.Println(err)
		case d.Allowed:
			fmt.Println("welcome;", d.Remaining, "left")
		default:
			fmt.Println("429, Retry-After:", d.RetryAfter.Round(time.Minute))
		}
	}
	// Output:
	// welcome; 1 left
	// welcome; 0 left
	// 429, Retry-After: 1h0m0s
}

// Set a limit by hand while something is wrong, and return to the declared limit afterwards.
func ExampleInspector_SetLimit() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	imports, err := client.Semaphore("imports", 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	// All pods have this limit. A process that does not know it can use client.Inspect("imports").
	for _, change := range []func() error{
		func() error { return imports.SetLimit(ctx, 0) }, // a pause: holders finish, nothing new is granted
		func() error { return imports.SetLimit(ctx, 5) },
		func() error { return imports.ResetLimit(ctx) },
	} {
		if err := change(); err != nil {
			fmt.Println(err)
			return
		}
		status, err := imports.Status(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("limit", status.Limit, "pinned", status.Pinned)
	}
	// Output:
	// limit 0 pinned true
	// limit 5 pinned true
	// limit 20 pinned false
}

// A job that one of the pods runs at each tick: the first that calls. The name contains the tick, and the grant of a Limiter is
// never released, so it remains when the job is done or its pod ends.
func ExampleLimiter_cron() {
	rdb, stop := startRedis()
	defer stop()
	tick := func(ctx context.Context, pod *fairsem.Client, at time.Time, job func()) error {
		once, err := pod.Limiter("report/"+at.UTC().Format(time.RFC3339), 1, time.Hour) // longer than the clocks are apart
		if err != nil {
			return err
		}
		d, err := once.Allow(ctx, 1)
		if err == nil && d.Allowed {
			job()
		}
		return err
	}

	// A pod sleeps for time.Until(at) and calls tick. No two clocks agree, so they come one by one, and each has a time zone of its own.
	midnight := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for hour := range 3 {
		at := midnight.Add(time.Duration(hour) * time.Hour)
		for zone := range 3 {
			pod, err := fairsem.New(rdb, fairsem.Options{})
			if err != nil {
				fmt.Println(err)
				return
			}
			err = tick(context.Background(), pod, at.In(time.FixedZone("", zone*3600)), func() { fmt.Println("report of", at.Format(time.TimeOnly)) })
			if err := errors.Join(err, pod.Close()); err != nil {
				fmt.Println(err)
			}
		}
	}
	// Output:
	// report of 00:00:00
	// report of 01:00:00
	// report of 02:00:00
}
