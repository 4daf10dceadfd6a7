package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairsem/fairsem"
)

// A pool of workers is a loop that acquires a unit before it starts a goroutine. There are never more goroutines than units, in all
// processes together.
func ExampleSemaphore_workerPool() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	workers, err := client.Semaphore("thumbnails", 3)
	if err != nil {
		fmt.Println(err)
		return
	}

	images := []string{"ant", "bee", "cat", "dog", "elk", "fox", "gnu"}
	sizes, failed := make([]int, len(images)), make([]error, len(images))
	var pool sync.WaitGroup
	for i, image := range images {
		permit, err := workers.Acquire(ctx, 1)
		if err != nil {
			failed[i] = err
			break
		}
		pool.Go(func() {
			sizes[i], failed[i] = shrink(permit.Context(), image)
			failed[i] = errors.Join(failed[i], permit.Release(ctx))
		})
	}
	pool.Wait() // to acquire all units instead would wait for other processes, too

	fmt.Println(sizes, errors.Join(failed...))
	// Output: [3 3 3 3 3 3 3] <nil>
}

// A group of x/sync starts any number of tasks. The semaphore limits how many of them run at the same time, in all processes
// together. The first error ends the others, also those that wait.
func ExampleSemaphore_errgroup() {
	client, stop := newClient()
	defer stop()
	pages, err := client.Semaphore("crawler", 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	group, ctx := errgroup.WithContext(context.Background())
	for _, page := range []string{"/", "/about", "/gone", "/terms"} {
		group.Go(func() error {
			return pages.Do(ctx, 1, func(ctx context.Context) error { return fetch(ctx, page) })
		})
	}
	fmt.Println(group.Wait())
	// Output: /gone: 404
}

// fetch fails for one page. For the others it waits until that failure ends them.
func fetch(ctx context.Context, page string) error {
	if page == "/gone" {
		return errors.New(page + ": 404")
	}
	<-ctx.Done()
	return ctx.Err()
}

func shrink(ctx context.Context, image string) (int, error) { return len(image), ctx.Err() }

// Calls to the API of a language model differ in size, so the weight of a call is the number of tokens that it may use. The
// limit is the number of tokens that all pods together may have in flight; it does not limit tokens per minute. Calls of users
// are granted before batch work that came up to a minute earlier. Batch work that has waited longer is granted first all the
// same.
func ExampleSemaphore_modelAPI() {
	client, stop := newClient()
	defer stop()
	api, err := client.Semaphore("model-api", 10_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	chat := api.With(fairsem.CallOptions{HeadStart: time.Minute})
	batch := api.With(fairsem.CallOptions{MaxQueue: 1000})

	ask := func(lane *fairsem.Semaphore, tokens int64, prompt string) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := lane.Do(ctx, tokens, func(context.Context) error { // pass its context to the request
			fmt.Println("answered:", prompt)
			return nil
		})
		switch {
		case errors.Is(err, fairsem.ErrExceedsLimit):
			fmt.Println("too long for any turn:", prompt)
		case errors.Is(err, fairsem.ErrQueueFull), errors.Is(err, context.DeadlineExceeded):
			fmt.Println("busy, later:", prompt)
		case errors.Is(err, fairsem.ErrLost):
			fmt.Println("the answer may have come on top of the limit:", prompt)
		case err != nil:
			fmt.Println(err)
		}
	}

	ask(chat, 200_000, "a whole library")
	underway, err := api.Acquire(context.Background(), 8_000) // a call of another pod
	if err != nil {
		fmt.Println(err)
		return
	}
	var callers sync.WaitGroup
	callers.Go(func() { ask(batch, 6_000, "a nightly summary") })
	awaitLine(api, 1)
	callers.Go(func() { ask(chat, 5_000, "a question") })
	awaitLine(api, 2)
	if err := underway.Release(context.Background()); err != nil {
		fmt.Println(err)
	}
	callers.Wait()
	// Output:
	// too long for any turn: a whole library
	// answered: a question
	// answered: a nightly summary
}

// awaitLine waits until n calls are in the queue.
func awaitLine(s *fairsem.Semaphore, n int64) {
	for {
		status, err := s.Status(context.Background())
		if err != nil {
			panic(err)
		}
		if status.Waiting == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
