// Command llmgateway is a gateway in front of an LLM API, which several customers share:
//
//	go run github.com/fairsem/fairsem/examples/llmgateway@latest
//
// The provider allows four calls at once, and you allow each customer 80 requests a minute. Two pods of the gateway keep both limits
// together. A customer that sends 100 requests at once gets what the limits allow, and does not delay another one.
//
// It needs no Redis; with $REDIS_URL it uses the one there.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/examples/internal/stage"
	"github.com/fairsem/fairsem/fairsemhttp"
)

const (
	atOnce    = 4  // calls that the provider allows
	perMinute = 80 // requests that a customer may send
)

// gateway is one pod: first the rate, so that a request that it refuses holds nothing, then the number at once, then the provider.
func gateway(client *fairsem.Client, provider *url.URL) (http.Handler, error) {
	calls, err := client.Semaphore("llm-calls", atOnce)
	if err != nil {
		return nil, err
	}
	requests, err := client.Limiter("llm-requests", 1000, time.Minute) // of all customers
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(provider) }}
	next, err := fairsemhttp.Handler(proxy, nil, fairsemhttp.Options{
		MaxWait: time.Minute, // then 503 and Retry-After
		LimitOf: func(r *http.Request) (fairsemhttp.Limit, error) {
			// The next call goes to the customer that has the fewest.
			return calls.With(fairsem.CallOptions{Tenant: customer(r)}), nil
		},
	})
	if err != nil {
		return nil, err
	}
	return fairsemhttp.Handler(next, nil, fairsemhttp.Options{
		MaxWait: 10 * time.Second, // if its turn comes later: 429 and Retry-After, at once
		LimitOf: func(r *http.Request) (fairsemhttp.Limit, error) {
			return requests.With(fairsem.CallOptions{Tenant: customer(r), TenantLimit: perMinute}), nil
		},
	})
}

// customer returns whose request it is. In your gateway, what has authenticated the request sets the header.
func customer(r *http.Request) string { return r.Header.Get("Customer") }

func main() { stage.Run(run) }

func run(ctx context.Context, redis *stage.Redis, checks *stage.Checks) error {
	llm := newProvider()
	defer llm.Close()
	var pods []string
	var queue *fairsem.Inspector // what operators see: fairsem show llm-calls
	for range 2 {
		client, err := fairsem.New(redis, redis.Options()) // one for each process
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }() // nothing is held any more
		handler, err := gateway(client, llm.url())
		if err != nil {
			return err
		}
		pod := httptest.NewServer(handler)
		defer pod.Close()
		pods, queue = append(pods, pod.URL), client.Inspect("llm-calls")
	}
	defer llm.start() // or, after an error, the pods would wait for their requests for ever
	fmt.Printf("%d pods share %d calls at once, and %d requests a minute for each customer\n", len(pods), atOnce, perMinute)

	fmt.Println("acme sends 100 requests at once; then initech sends three, one after another")
	acme := send("acme", pods, 100, 100)
	if err := stage.Until(ctx, queue, func(s fairsem.Status) bool { return s.Waiting == perMinute-atOnce }); err != nil {
		return err
	}
	initech := send("initech", pods, 3, 1)
	if err := stage.Until(ctx, queue, func(s fairsem.Status) bool { return s.Waiting > perMinute-atOnce }); err != nil {
		return err
	}
	llm.start()

	if err := errors.Join(acme.Wait(), initech.Wait()); err != nil {
		return err
	}

	llm.Close()
	answers, refused, last := acme.answers.Load(), acme.refused.Load(), llm.last("initech")
	checks.That(llm.most <= atOnce, "the provider never had more than %d calls at once", atOnce)
	checks.That(answers == perMinute && refused == 100-perMinute, "acme got %d answers, and %d times 429 with Retry-After", answers, refused)
	checks.That(initech.answers.Load() == 3, "initech got %d answers", initech.answers.Load())
	checks.That(last < perMinute, "initech did not wait behind acme's queue: its last answer was number %d of %d", last, len(llm.answered))
	return nil
}
