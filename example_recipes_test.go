package fairsem_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairsem/fairsem"
)

// once runs a job unless another process runs it now.
func once(ctx context.Context, lock *fairsem.Mutex, job func(context.Context) error) error {
	permit, err := lock.TryLock(ctx)
	if errors.Is(err, fairsem.ErrNotAcquired) {
		return nil // another process is at it
	}
	if err != nil {
		return err
	}
	err = job(permit.Context())
	return errors.Join(err, permit.Release(ctx))
}

// One process at a time cleans up. Those that come meanwhile leave it to that one.
func ExampleMutex_TryLock() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	lock, err := client.Mutex("cleanup")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = once(ctx, lock, func(context.Context) error {
		fmt.Println("cleaning up")
		return once(ctx, lock, func(context.Context) error { // what another process would call now
			fmt.Println("cleaning up, too")
			return nil
		})
	})
	fmt.Println(err)
	// Output:
	// cleaning up
	// <nil>
}

// render takes as many MiB of the memory that all processes share as a job needs, and runs the job.
func render(ctx context.Context, memory *fairsem.Semaphore, mib int64, job func(context.Context) error) error {
	err := memory.Do(ctx, mib, job)
	if errors.Is(err, fairsem.ErrExceedsLimit) {
		return fmt.Errorf("a job of %d MiB never fits: %w", mib, err)
	}
	return err
}

// A job weighs the memory that it needs. A large one waits for its turn and no longer: small ones do not overtake it.
func ExampleSemaphore_memoryBudget() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	memory, err := client.Semaphore("render-memory", 8192) // MiB
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, mib := range []int64{512, 6000, 9000} {
		err := render(ctx, memory, mib, func(context.Context) error {
			fmt.Println("rendered in", mib, "MiB")
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// rendered in 512 MiB
	// rendered in 6000 MiB
	// a job of 9000 MiB never fits: fairsem: do "render-memory": weight exceeds the limit
}
