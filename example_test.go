package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// startRedis starts an embedded server. It returns a client and a function that ends both.
func startRedis() (redis.UniversalClient, func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		if err := rdb.Close(); err != nil {
			panic(err)
		}
		server.Close()
	}
}

// newClient returns a Client on its own server, and a function that ends both.
func newClient() (*fairsem.Client, func()) {
	rdb, stop := startRedis()
	client, err := fairsem.New(rdb, fairsem.Options{})
	if err != nil {
		panic(err)
	}
	return client, func() {
		if err := client.Close(); err != nil {
			panic(err)
		}
		stop()
	}
}

// A job that needs more than one unit acquires all of them in one call, and waits in the queue like other calls.
func ExampleSemaphore_Do() {
	client, stop := newClient()
	defer stop()
	exports, err := client.Semaphore("exports", 4)
	if err != nil {
		fmt.Println(err)
		return
	}

	err = exports.Do(context.Background(), 2, func(ctx context.Context) error {
		status, err := exports.Status(ctx) // ctx ends when the permit is lost
		fmt.Println("in use:", status.Used, "of", status.Limit)
		return err
	})
	switch {
	case errors.Is(err, fairsem.ErrLost):
		fmt.Println("somebody else may have been at work meanwhile")
	case err != nil:
		fmt.Println(err)
	}
	// Output: in use: 2 of 4
}

// One process at a time does a job, and the others skip it.
func ExampleSemaphore_TryAcquire() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	cleanup, err := client.Semaphore("nightly-cleanup", 1)
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, host := range []string{"host a", "host b"} {
		permit, err := cleanup.TryAcquire(ctx, 1)
		if errors.Is(err, fairsem.ErrNotAcquired) {
			fmt.Println(host, "leaves it to others")
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = permit.Release(ctx) }()
		fmt.Println(host, "cleans up")
	}
	// Output:
	// host a cleans up
	// host b leaves it to others
}

// A server that cannot keep up refuses requests instead of letting the queue grow.
func ExampleSemaphore_With() {
	client, stop := newClient()
	defer stop()
	reports, err := client.Semaphore("reports", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer occupy(reports, 2)() // another process holds both units, and a call waits

	shortLine := reports.With(fairsem.CallOptions{MaxQueue: 1})
	_, err = shortLine.Acquire(context.Background(), 1)
	if errors.Is(err, fairsem.ErrQueueFull) {
		fmt.Println("come back later")
	}
	// Output: come back later
}

// occupy acquires all n units and makes one more call wait. The returned function ends both.
func occupy(s *fairsem.Semaphore, n int64) func() {
	ctx, cancel := context.WithCancel(context.Background())
	permit, err := s.Acquire(ctx, n)
	if err != nil {
		panic(err)
	}
	var waiter sync.WaitGroup
	waiter.Go(func() { _, _ = s.Acquire(ctx, 1) }) // ends with ctx
	for {
		status, err := s.Status(ctx)
		if err != nil {
			panic(err)
		}
		if status.Waiting == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return func() {
		cancel()
		waiter.Wait()
		if err := permit.Release(ctx); err != nil {
			panic(err)
		}
	}
}

// To turn a pool of workers on x/sync's semaphore into one for all processes together, change the line that creates sem.
func ExampleWeighted() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()

	const workers = 4
	sem, err := client.Weighted("thumbnails", workers) // was: sem := semaphore.NewWeighted(workers)
	if err != nil {
		fmt.Println(err)
		return
	}

	squares := make([]int, 10)
	for i := range squares {
		if err := sem.Acquire(ctx, 1); err != nil { // waits while all workers are busy
			fmt.Println(err)
			return
		}
		go func() { // ends before the last Acquire does
			defer sem.Release(1)
			squares[i] = i * i
		}()
	}
	if err := sem.Acquire(ctx, workers); err != nil { // waits until all are done
		fmt.Println(err)
		return
	}
	defer sem.Release(workers)

	fmt.Println(squares)
	fmt.Println("units lost:", sem.Err()) // x/sync does not have this
	// Output:
	// [0 1 4 9 16 25 36 49 64 81]
	// units lost: <nil>
}

// If a late write would do harm, the store must refuse it by its token.
func ExamplePermit_Token() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	ledger, err := client.Semaphore("ledger", 1) // one at a time: only then do tokens fence
	if err != nil {
		fmt.Println(err)
		return
	}

	// A store that keeps the largest token it has seen. In SQL:
	// UPDATE ledger SET entry = $1, token = $2 WHERE token <= $2
	var largest int64
	write := func(p *fairsem.Permit, entry string) {
		if p.Token() < largest {
			fmt.Println("refused:", entry)
			return
		}
		largest = p.Token()
		fmt.Println("written:", entry)
	}

	first, err := ledger.Acquire(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Somebody takes it for dead and ends its permit, as fairsem evict does. Its lease could have expired as well.
	if err := client.Inspect("ledger").Evict(ctx, first.ID()); err != nil {
		fmt.Println(err)
		return
	}
	second, err := ledger.Acquire(ctx, 1)
	if err != nil {
		fmt.Println(err)
		return
	}

	write(second, "from the second holder")
	write(first, "from the first, which did not look")
	<-first.Context().Done()
	fmt.Println(context.Cause(first.Context()))
	// Output:
	// written: from the second holder
	// refused: from the first, which did not look
	// fairsem: permit lost: evicted
}

// The code of the README is exactly the function run in readme_test.go, so it compiles and runs.
func TestReadmeExampleIsTheTestedExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks, "blocks of Go in README.md")

	source, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(source), "\nfunc run(")
	require.True(t, found)
	body, _, found := strings.Cut(after, "\n}\n")
	require.True(t, found)
	assert.Equal(t, "func run("+body+"\n}\n", blocks[0][1])
}
