package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
)

// account is a row of a store that refuses writes of earlier holders of the lock. In SQL:
//
//	UPDATE account SET balance = $1, token = $2 WHERE id = $3 AND token <= $2
//
// If that updates no row, the writer was too late. The comparison is <= and not <, because a holder may write twice.
type account struct {
	mu             sync.Mutex
	balance, token int64
}

var errTooLate = errors.New("too late: somebody else has had the lock since")

func (a *account) write(balance, token int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.token {
		return errTooLate
	}
	a.balance, a.token = balance, token
	return nil
}

func (a *account) read() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.balance
}

// A process that was paused while another one got the lock would overwrite the work of that one. The lock cannot prevent that.
// The store can, by the token.
func ExampleMutex_fencedWrite() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	lock, err := client.Mutex("account/17")
	if err != nil {
		fmt.Println(err)
		return
	}
	row := &account{balance: 100}

	// The first holder reads, and then is paused for longer than its lease.
	stalls := fairsem.CallOptions{TTL: 4 * time.Second, NoRefresh: true}
	first, err := lock.With(stalls).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	seen := row.read()

	second, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("second:", row.write(row.read()+50, second.Token()))
	fmt.Println("first:", row.write(seen-30, first.Token()))
	fmt.Println("balance:", row.read())

	if err := second.Release(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// second: <nil>
	// first: too late: somebody else has had the lock since
	// balance: 150
}

// Readers share the lock; a writer holds it alone.
func ExampleRWMutex() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	prices, err := client.RWMutex("prices")
	if err != nil {
		fmt.Println(err)
		return
	}

	var readers, inside sync.WaitGroup
	inside.Add(2)
	for range 2 {
		readers.Go(func() {
			err := prices.RDo(ctx, func(context.Context) error {
				inside.Done()
				inside.Wait() // neither releases before the other one holds
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	readers.Wait()
	fmt.Println("two readers at once")

	err = prices.Do(ctx, func(ctx context.Context) error {
		_, err := prices.TryRLock(ctx)
		if errors.Is(err, fairsem.ErrNotAcquired) {
			fmt.Println("no reader beside the writer")
			return nil
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// two readers at once
	// no reader beside the writer
}
