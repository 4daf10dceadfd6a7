package fairsem_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemtest"
)

// provider is an API that allows 5 calls at once for each customer, 20 at once in all, and 1000 in a minute.
type provider struct {
	client *fairsem.Client
	all    *fairsem.Semaphore // 20
	rate   *fairsem.Limiter   // 1000 in a minute, with headroom
}

func newProvider(client *fairsem.Client) (*provider, error) {
	all, err := client.Semaphore("provider", 20)
	if err != nil {
		return nil, err
	}
	rate, err := client.Limiter("provider/rate", 1000, time.Minute+jitter) // 968 a minute: 3.2 % of headroom
	return &provider{client, all, rate}, err
}

// call acquires both limits, that of the customer first: "customer/..." comes before "provider". The rate comes last.
func (p *provider) call(ctx context.Context, customer string, send func(context.Context) error) error {
	own, err := p.client.Semaphore("customer/"+customer, 5)
	if err != nil {
		return err
	}
	permits, err := fairsem.AcquireAll(ctx, p.all.Request(1), own.Request(1))
	if err != nil {
		return err
	}
	defer func() { _ = permits.Release(ctx) }()
	if err := p.rate.Wait(ctx, 1); err != nil {
		return err
	}
	return send(permits.Context()) // ends with any of the permits
}

// A call with three limits. A customer that floods its own limit does not affect the others.
func ExampleAcquireAll() {
	client, stop := newClient()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	api, err := newProvider(client)
	if err != nil {
		fmt.Println(err)
		return
	}

	var flood, inside sync.WaitGroup
	done := make(chan struct{})
	inside.Add(5)
	for range 25 { // of one customer: 5 are sent, 20 wait and hold nothing
		flood.Go(func() {
			err := api.call(ctx, "ant", func(context.Context) error {
				select {
				case <-done:
				default:
					inside.Done()
					<-done
				}
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	inside.Wait()
	err = api.call(ctx, "bee", func(context.Context) error {
		shared, err := api.all.Status(ctx)
		fmt.Println("in use:", shared.Used, "of", shared.Limit, "waiting:", shared.Waiting)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	close(done)
	flood.Wait()
	// Output: in use: 6 of 20 waiting: 0
}

const (
	providerLimit  = 20
	providerWindow = time.Minute
	jitter         = 2 * time.Second // how much longer the slowest request is on its way than the fastest
)

// A provider counts requests when they arrive. With the provider's own window two bursts that our clock has a minute apart can
// arrive closer together, so that the provider sees twice its limit. A window that is longer by the jitter keeps every
// window of the provider within the limit, whatever the demand and the delays.
func TestWindowThatIsLongerByTheJitterKeepsTheProvidersLimit(t *testing.T) {
	t.Parallel()
	late := func(nth int) time.Duration { // the first burst is slow, the second fast
		if nth < providerLimit {
			return jitter
		}
		return 0
	}
	assert.Equal(t, 2*providerLimit, mostInAWindow(arrivals(t, providerWindow, late)), "the provider's own window")
	assert.LessOrEqual(t, mostInAWindow(arrivals(t, providerWindow+jitter, late)), providerLimit)

	for range 3 {
		anyDelay := func(int) time.Duration { return rand.N(jitter) }
		assert.LessOrEqual(t, mostInAWindow(arrivals(t, providerWindow+jitter, anyDelay)), providerLimit)
	}
}

// arrivals returns the times at which requests of two processes arrive at a provider, while 4 bursts are sent.
func arrivals(t *testing.T, per time.Duration, delay func(nth int) time.Duration) (at []time.Time) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := fairsemtest.NewServer(t)
		var mu sync.Mutex
		var callers sync.WaitGroup
		granted := 0
		for range 2 {
			rate, err := server.Client(fairsem.Options{TTL: time.Hour}).Limiter("provider/rate", providerLimit, per)
			require.NoError(t, err)
			for range 2 * providerLimit {
				callers.Go(func() {
					if !assert.NoError(t, rate.Wait(t.Context(), 1)) {
						return
					}
					mu.Lock()
					nth := granted
					granted++
					mu.Unlock()
					time.Sleep(delay(nth)) // on its way
					mu.Lock()
					defer mu.Unlock()
					at = append(at, time.Now())
				})
			}
		}
		callers.Wait()
	})
	return at
}

// mostInAWindow returns the largest number of arrivals in any window of the provider.
func mostInAWindow(at []time.Time) (most int) {
	slices.SortFunc(at, time.Time.Compare)
	first := 0
	for i := range at {
		for at[i].Sub(at[first]) >= providerWindow {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
