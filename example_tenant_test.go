package fairsem_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fairsem/fairsem"
)

// llm is an API that may be called 4 times at once, by all processes together, for many customers.
type llm struct {
	calls *fairsem.Semaphore
	send  func(ctx context.Context, prompt string) (string, error)
}

// ask is in docs/tenants.md.
func (l *llm) ask(ctx context.Context, customer, prompt string) (answer string, err error) {
	own := l.calls.With(fairsem.CallOptions{Tenant: customer, TenantLimit: 5})
	err = own.Do(ctx, 1, func(ctx context.Context) error {
		answer, err = l.send(ctx, prompt)
		return err
	})
	return answer, err
}

// One customer has many calls, another has one. The one does not wait for the many.
func ExampleCallOptions_tenant() {
	client, stop := newClient()
	defer stop()
	ctx := context.Background()
	calls, err := client.Semaphore("llm", 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	var mu sync.Mutex
	var order []string
	api := &llm{calls, func(_ context.Context, prompt string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, prompt)
		return strings.ToUpper(prompt), nil
	}}

	var busy [2]*fairsem.Permit
	for i := range busy {
		if busy[i], err = calls.With(fairsem.CallOptions{Tenant: "noisy"}).Acquire(ctx, 1); err != nil {
			fmt.Println(err)
			return
		}
	}
	var all sync.WaitGroup
	for n, customer := range []string{"noisy", "noisy", "noisy", "quiet"} {
		all.Go(func() {
			if _, err := api.ask(ctx, customer, customer); err != nil {
				fmt.Println(err)
			}
		})
		waitFor(ctx, calls, int64(n+1))
	}
	for _, p := range busy { // the second when all have had their turn
		if err := p.Release(ctx); err != nil {
			fmt.Println(err)
		}
		all.Wait()
	}
	fmt.Println(slices.Index(order, "quiet") == 0, len(order))
	// Output: true 4
}

// waitFor returns when so many calls wait.
func waitFor(ctx context.Context, s *fairsem.Semaphore, n int64) {
	for {
		if status, err := s.Status(ctx); err != nil || status.Waiting >= n {
			return
		}
	}
}
