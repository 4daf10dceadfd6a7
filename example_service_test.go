package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

// atOnce serves at most as many requests at the same time as the semaphore allows, in all processes together.
func atOnce(sem *fairsem.Semaphore, maxWait time.Duration, next http.Handler) http.Handler {
	turn := sem.With(fairsem.CallOptions{MaxWait: maxWait, MaxQueue: 100})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served := false
		err := turn.Do(r.Context(), 1, func(ctx context.Context) error { // ends with the request or with the permit
			served = true
			next.ServeHTTP(w, r.WithContext(ctx))
			return nil
		})
		if !served {
			refuse(w, err)
		}
	})
}

// atRate serves as many requests in any window as the limiter allows.
func atRate(limiter *fairsem.Limiter, maxWait time.Duration, next http.Handler) http.Handler {
	soon := limiter.With(fairsem.CallOptions{MaxWait: maxWait})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := soon.Wait(r.Context(), 1); err != nil { // at once, if the turn comes after MaxWait
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse reports why a request was not served, and when to retry. An error can wrap more than one of these, so the order matters.
func refuse(w http.ResponseWriter, err error) {
	code, retry := http.StatusInternalServerError, time.Duration(0) // ErrInvalid, ErrExceedsLimit, a missing right, ...
	var wait *fairsem.WaitError
	switch {
	case errors.As(err, &wait): // of a Limiter
		code, retry = http.StatusTooManyRequests, wait.RetryAfter
	case errors.Is(err, fairsem.ErrUnavailable): // Redis does not answer
		code, retry = http.StatusServiceUnavailable, 10*time.Second
	case errors.Is(err, fairsem.ErrNotAcquired), errors.Is(err, fairsem.ErrQueueFull): // MaxWait, MaxQueue
		code, retry = http.StatusServiceUnavailable, time.Second
	}
	if retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(retry.Seconds()))))
	}
	http.Error(w, http.StatusText(code), code)
}

// request sends one request and prints the answer.
func request(handler http.Handler) {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	fmt.Println(w.Code, "Retry-After:", w.Header().Get("Retry-After") != "")
}

// A server that refuses requests with 503 when it is busy or Redis is unreachable, with 429 above a rate, and reports when to
// retry.
func ExampleWaitError() {
	client, stop := newClient()
	defer stop()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	reports, err := client.Semaphore("reports", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	exports, err := client.Limiter("exports", 1, time.Hour)
	if err != nil {
		fmt.Println(err)
		return
	}

	request(atOnce(reports, time.Minute, hello))
	free := occupy(reports, 1)
	request(atOnce(reports, 10*time.Millisecond, hello))
	free()
	request(atRate(exports, time.Minute, hello))
	request(atRate(exports, time.Minute, hello)) // in an hour
	// Output:
	// 200 Retry-After: false
	// 503 Retry-After: true
	// 200 Retry-After: false
	// 429 Retry-After: true
}

// An error can say both that the wait has ended and that Redis is unreachable. The caller needs to know the second.
func TestServerOfTheRecipeReportsThatRedisIsUnreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		reports, err := server.Client(fairsem.Options{}).Semaphore("reports", 1)
		require.NoError(t, err)
		server.Down()
		w := httptest.NewRecorder()
		atOnce(reports, time.Second, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Equal(t, "10", w.Header().Get("Retry-After"), "that of ErrUnavailable")
		server.Up()
	})
}

// The work may take a minute, and the wait for it a second: one context for the work, MaxWait for the wait.
func ExampleSemaphore_With_maxWait() {
	client, stop := newClient()
	defer stop()
	reports, err := client.Semaphore("reports", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer occupy(reports, 1)() // another process holds the unit

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // for the work
	defer cancel()
	bounded := reports.With(fairsem.CallOptions{MaxWait: 10 * time.Millisecond}) // for the wait
	err = bounded.Do(ctx, 1, func(context.Context) error {
		fmt.Println("at work") // not in this example
		return nil
	})
	fmt.Println(errors.Is(err, fairsem.ErrNotAcquired), ctx.Err())
	// Output: true <nil>
}

// workUntil starts jobs until ctx ends, for example by signal.NotifyContext, and returns when the jobs that it has started
// are done and Redis has confirmed that nothing is held any more.
func workUntil(ctx context.Context, client *fairsem.Client, workers *fairsem.Semaphore, jobs <-chan func(context.Context)) error {
	var running sync.WaitGroup
	for ctx.Err() == nil {
		permit, err := workers.Acquire(ctx, 1) // before the job: what is not begun stays for other processes
		if err != nil {
			break // ctx has ended, or log it and stop
		}
		select {
		case job := <-jobs:
			running.Go(func() {
				defer func() { _ = permit.Release(ctx) }()
				job(permit.Context()) // does not end with ctx
			})
		case <-ctx.Done():
			_ = permit.Release(ctx)
		}
	}
	running.Wait()
	return client.Close() // releases what is still held, and waits until Redis has confirmed it
}

// When it is asked to stop, a process starts no new job, finishes the jobs that it has started, and leaves nothing behind.
func ExampleClient_Close() {
	rdb, stop := startRedis()
	defer stop()
	client, err := fairsem.New(rdb, fairsem.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	workers, err := client.Semaphore("thumbnails", 2)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, terminate := context.WithCancel(context.Background())
	jobs := make(chan func(context.Context), 1)
	jobs <- func(ctx context.Context) {
		terminate() // SIGTERM arrives now
		fmt.Println("done:", ctx.Err() == nil)
	}
	fmt.Println(workUntil(ctx, client, workers, jobs))
	// Output:
	// done: true
	// <nil>
}

// adapt halves the limit of a name while its backend is overloaded, whatever processes declare. It may be called again at
// any time, from any process.
func adapt(ctx context.Context, client *fairsem.Client, name string, overloaded bool) error {
	control := client.Inspect(name) // declares no limit
	if !overloaded {
		return control.ResetLimit(ctx) // what processes declare holds again
	}
	status, err := control.Status(ctx)
	if err != nil || status.Declared == 0 { // no process has declared one
		return err
	}
	return control.SetLimit(ctx, max(1, status.Declared/2))
}

// A limit that follows the health of the backend.
func ExampleClient_Inspect() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	imports, err := client.Semaphore("imports", 20)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := imports.Do(ctx, 1, func(context.Context) error { return nil }); err != nil { // the first use declares the limit
		fmt.Println(err)
		return
	}
	for _, overloaded := range []bool{true, true, false} {
		if err := adapt(ctx, client, "imports", overloaded); err != nil {
			fmt.Println(err)
			return
		}
		status, err := imports.Status(ctx)
		fmt.Println(status.Limit, err)
	}
	// Output:
	// 10 <nil>
	// 10 <nil>
	// 20 <nil>
}
