package fairsem_test

import (
	"context"
	"fmt"

	"github.com/fairsem/fairsem"
)

// testDatabase is one of several. Like an account it keeps the highest token that it has seen, so it refuses a holder that was paused while
// another one got its number.
type testDatabase struct{ token int64 }

func (d *testDatabase) write(token int64) error {
	if token < d.token {
		return errTooLate
	}
	d.token = token
	return nil
}

// At most four callers at once, each with a test database of its own. The tokens of each number increase, so each database can tell a late
// holder from the present one. Without numbers no store can do that for a limit above 1: of two present holders one has the
// lower token.
func ExamplePermit_Numbers() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	var databases [4]testDatabase
	semaphore, err := client.Semaphore("test-databases", int64(len(databases)))
	if err != nil {
		fmt.Println(err)
		return
	}
	numbered := semaphore.With(fairsem.CallOptions{Numbered: true})
	acquire := func() *fairsem.Permit {
		permit, err := numbered.Acquire(ctx, 1)
		if err != nil {
			panic(err) // in an example
		}
		return permit
	}

	first, second := acquire(), acquire()
	fmt.Println("first:", first.Number(), databases[first.Number()].write(first.Token()))
	fmt.Println("second:", second.Number(), databases[second.Number()].write(second.Token()))

	// The first loses its permit, and does not know it yet.
	if err := semaphore.Evict(ctx, first.ID()); err != nil {
		fmt.Println(err)
	}
	third := acquire()
	fmt.Println("third:", third.Number(), databases[third.Number()].write(third.Token()))
	fmt.Println("first:", first.Number(), databases[first.Number()].write(first.Token()))
	fmt.Println("second:", second.Number(), databases[second.Number()].write(second.Token()))

	for _, permit := range []*fairsem.Permit{second, third} {
		if err := permit.Release(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// first: 0 <nil>
	// second: 1 <nil>
	// third: 0 <nil>
	// first: 0 too late: somebody else has had the lock since
	// second: 1 <nil>
}
