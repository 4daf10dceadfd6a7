package fairsem_test

import (
	"context"
	"fmt"
	"time"
)

// A client of an API that allows so many calls in any second, to all of us together.
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

// A server that turns callers away, and tells them when to come again.
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

// Set a limit by hand while something is wrong, and go back to what the programs declare.
func ExampleSemaphore_Resize() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	imports, err := client.Semaphore("imports", 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range []func() error{
		func() error { return imports.Resize(ctx, 0) }, // a pause: who holds finishes, nobody gets in
		func() error { return imports.Resize(ctx, 5) },
		func() error { return imports.Unpin(ctx) },
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
