package fairsemtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

// docs/go.md shows this test.
func TestJobStopsWhenItsProcessIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // here hours pass in milliseconds
		server := fairsemtest.NewServer(t)         // a Redis in memory
		client := server.Client(fairsem.Options{}) // each is another process
		job, err := client.Semaphore("nightly", 1)
		if err != nil {
			t.Fatal(err)
		}
		err = job.Do(t.Context(), 1, func(ctx context.Context) error {
			server.Kill(client)
			<-ctx.Done() // nine seconds later, before its unit can be granted again
			return nil
		})
		if !errors.Is(err, fairsem.ErrLost) {
			t.Error(err)
		}
	})
}
