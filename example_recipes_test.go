package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
)

// once runs a job unless another process runs it now.
func once(ctx context.Context, lock *fairsem.Mutex, job func(context.Context) error) error {
	permit, err := lock.TryLock(ctx)
	if errors.Is(err, fairsem.ErrNotAcquired) {
		return nil // another process runs it
	}
	if err != nil {
		return err
	}
	err = job(permit.Context())
	return errors.Join(err, permit.Release(ctx))
}

// One process at a time cleans up. Others that come meanwhile skip it.
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

// render acquires the MiB that a job needs of the memory that all processes share, and runs the job.
func render(ctx context.Context, memory *fairsem.Semaphore, mib int64, job func(context.Context) error) error {
	err := memory.Do(ctx, mib, job)
	if errors.Is(err, fairsem.ErrExceedsLimit) {
		return fmt.Errorf("a job of %d MiB never fits: %w", mib, err)
	}
	return err
}

// The weight of a job is the memory that it needs. Small jobs do not overtake a large one that waits.
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
	// a job of 9000 MiB never fits: fairsem: do "render-memory": weight exceeds the limit (9000 is more than the limit 8192 of the name)
}

// keepIdle keeps an idle connection until a call waits for its permit, or the permit is lost.
func keepIdle(ctx context.Context, permit *fairsem.Permit, disconnect func()) error {
	select {
	case <-permit.Wanted():
	case <-permit.Context().Done():
	}
	disconnect()
	return permit.Release(ctx)
}

// A pool keeps its idle connections, and their permits, for as long as no call waits for one.
func ExamplePermit_Wanted() {
	client, stop := newClient()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connections, err := client.Semaphore("database", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	idle, err := connections.Acquire(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	kept := make(chan error)
	go func() { kept <- keepIdle(ctx, idle, func() { fmt.Println("idle connection closed") }) }()

	err = connections.Do(ctx, 1, func(context.Context) error {
		fmt.Println("new connection opened")
		return nil
	})
	fmt.Println(errors.Join(err, <-kept))
	// Output:
	// idle connection closed
	// new connection opened
	// <nil>
}
