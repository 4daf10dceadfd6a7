package fairsemtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

// asTest runs what would be the function of your test.
func asTest(test func(t testing.TB)) {
	if failure := record(test); failure != "" {
		fmt.Println(failure)
	}
}

// nightly is a program to be tested: one process at a time does the job.
func nightly(ctx context.Context, client *fairsem.Client, job func(context.Context) error) error {
	turn, err := client.Semaphore("nightly", 1)
	if err != nil {
		return err
	}
	return turn.Do(ctx, 1, job)
}

func Example() {
	asTest(func(t testing.TB) {
		server := fairsemtest.NewServer(t)
		err := nightly(t.Context(), server.Client(fairsem.Options{}), func(context.Context) error {
			fmt.Println("does the job")
			return nil
		})
		fmt.Println(err)
	})
	// Output:
	// does the job
	// <nil>
}

// What a process had that was killed comes back when its TTL is over, and no real time passes.
func ExampleServer_Advance() {
	asTest(func(t testing.TB) {
		server := fairsemtest.NewServer(t)
		doomed, other := server.Client(fairsem.Options{TTL: time.Hour}), server.Client(fairsem.Options{TTL: time.Hour})

		held, _ := doomed.Semaphore("nightly", 1)
		if _, err := held.Acquire(t.Context(), 1); err != nil {
			t.Fatalf("%v", err)
		}
		server.Kill(doomed)
		server.Advance(time.Hour)

		err := nightly(t.Context(), other, func(context.Context) error {
			fmt.Println("the other one does the job")
			return nil
		})
		fmt.Println(err)
	})
	// Output:
	// the other one does the job
	// <nil>
}

// A job stops when its permit is lost.
func ExampleServer_Expire() {
	asTest(func(t testing.TB) {
		server := fairsemtest.NewServer(t)
		err := nightly(t.Context(), server.Client(fairsem.Options{}), func(ctx context.Context) error {
			server.Expire("nightly") // in the midst of it
			<-ctx.Done()
			return errors.New("stopped half-way")
		})
		fmt.Println(errors.Is(err, fairsem.ErrLost))
	})
	// Output: true
}
