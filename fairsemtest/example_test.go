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

// asTest runs the body of a test.
func asTest(test func(t testing.TB)) {
	if failure := record(test); failure != "" {
		fmt.Println(failure)
	}
}

// nightly is the program under test: one process at a time does the job.
func nightly(ctx context.Context, client *fairsem.Client, job func(context.Context) error) error {
	sem, err := client.Semaphore("nightly", 1)
	if err != nil {
		return err
	}
	return sem.Do(ctx, 1, job)
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

// The units of a killed process are granted again after its TTL, without real time passing.
func ExampleServer_Advance() {
	asTest(func(t testing.TB) {
		server := fairsemtest.NewServer(t)
		killed, other := server.Client(fairsem.Options{TTL: time.Hour}), server.Client(fairsem.Options{TTL: time.Hour})

		sem, _ := killed.Semaphore("nightly", 1)
		if _, err := sem.Acquire(t.Context(), 1); err != nil {
			t.Fatalf("%v", err)
		}
		server.Kill(killed)
		server.Advance(time.Hour)

		err := nightly(t.Context(), other, func(context.Context) error {
			fmt.Println("the other process does the job")
			return nil
		})
		fmt.Println(err)
	})
	// Output:
	// the other process does the job
	// <nil>
}

// A job stops when its permit is lost.
func ExampleServer_Expire() {
	asTest(func(t testing.TB) {
		server := fairsemtest.NewServer(t)
		err := nightly(t.Context(), server.Client(fairsem.Options{}), func(ctx context.Context) error {
			server.Expire("nightly") // while the job runs
			<-ctx.Done()
			return errors.New("stopped half-way")
		})
		fmt.Println(errors.Is(err, fairsem.ErrLost))
	})
	// Output: true
}
