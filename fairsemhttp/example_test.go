package fairsemhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// llmClient returns a client of an LLM API. All pods together have at most 20 calls to it at once.
func llmClient(client *fairsem.Client) (*http.Client, error) {
	calls, err := client.Semaphore("llm-api", 20)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &fairsemhttp.Transport{Limit: calls}}, nil
}

// At most 20 calls to an LLM API from all pods. A call is one until its answer, which is streamed, was read to the end.
func ExampleTransport() {
	client, stop := worldtest.Example()
	defer stop()
	var now, most atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			continue
		}
		_, _ = io.WriteString(w, "an answer")
		now.Add(-1)
	}))
	defer api.Close()

	llm, err := llmClient(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	var questions sync.WaitGroup
	var answers atomic.Int64
	for range 100 {
		questions.Go(func() {
			resp, err := llm.Get(api.URL)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer func() { _ = resp.Body.Close() }() // else the unit stays in use
			if _, err := io.Copy(io.Discard, resp.Body); err == nil {
				answers.Add(1)
			}
		})
	}
	questions.Wait()
	fmt.Println(answers.Load(), "answers, more than 20 at once:", most.Load() > 20)
	// Output: 100 answers, more than 20 at once: false
}

// perTenant serves at most 5 requests of each tenant at once, on all servers together.
func perTenant(client *fairsem.Client, next http.Handler) (http.Handler, error) {
	return fairsemhttp.Handler(next, nil, fairsemhttp.Options{
		MaxWait: 2 * time.Second,
		LimitOf: func(r *http.Request) (fairsemhttp.Limit, error) {
			return client.Semaphore("tenant/"+r.Header.Get("Tenant"), 5) // what has authenticated the request sets it
		},
	})
}

// A server with a limit for each tenant.
func ExampleHandler() {
	client, stop := worldtest.Example()
	defer stop()
	hello := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	handler, err := perTenant(client, hello)
	if err != nil {
		fmt.Println(err)
		return
	}
	busy, err := client.Semaphore("tenant/a", 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	permit, err := busy.Acquire(context.Background(), 5) // five requests of tenant a are being served
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, tenant := range []string{"a", "b"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Tenant", tenant)
		handler.ServeHTTP(w, r)
		fmt.Println(tenant, w.Code, "Retry-After", w.Header()["Retry-After"])
	}
	fmt.Println(permit.Release(context.Background()))
	// Output:
	// a 503 Retry-After [1]
	// b 200 Retry-After []
	// <nil>
}

// perMinute serves 100 requests in any minute, on all servers together. Each response says how many are left.
func perMinute(client *fairsem.Client, next http.Handler) (http.Handler, error) {
	searches, err := client.Limiter("searches", 100, time.Minute)
	if err != nil {
		return nil, err
	}
	return fairsemhttp.Handler(next, searches, fairsemhttp.Options{MaxWait: fairsemhttp.NoWait})
}

// A server with a rate limit.
func ExampleHandler_rate() {
	client, stop := worldtest.Example()
	defer stop()
	hello := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	handler, err := perMinute(client, hello)
	if err != nil {
		fmt.Println(err)
		return
	}
	codes := make(map[int]int)
	for range 101 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if codes[w.Code]++; codes[w.Code] == 1 {
			fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
		}
	}
	fmt.Println(codes)
	// Output:
	// 200 "default";q=100;w=60
	// 429 "default";q=100;w=60
	// map[200:100 429:1]
}
