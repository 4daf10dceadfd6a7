package fairsemprom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemprom"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// newMeasuredClient returns a Client whose events are metrics. Of the names, only those of databases have series of their own.
func newMeasuredClient(rdb redis.UniversalClient, registry prometheus.Registerer) (*fairsem.Client, error) {
	observer, err := fairsemprom.New(fairsemprom.Options{
		Allow: func(name string) bool { return strings.HasPrefix(name, "db/") },
	})
	if err != nil {
		return nil, err
	}
	if err := registry.Register(observer); err != nil {
		return nil, err
	}
	return fairsem.New(rdb, fairsem.Options{Observer: observer.Observe})
}

// Metrics of a program, as Prometheus reads them.
func ExampleNew() {
	rdb, stop := worldtest.ExampleRedis()
	defer stop()
	registry := prometheus.NewRegistry()
	client, err := newMeasuredClient(rdb, registry)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	for _, name := range []string{"db/orders", "user/1", "user/2"} {
		sem, err := client.Semaphore(name, 5)
		if err != nil {
			fmt.Println(err)
			return
		}
		err = sem.Do(ctx, 1, func(context.Context) error { return nil })
		if err != nil {
			fmt.Println(err)
		}
	}
	if err := client.Close(); err != nil { // all events have been counted when it returns
		fmt.Println(err)
	}

	metrics := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer metrics.Close()
	response, err := http.Get(metrics.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = response.Body.Close() }() // it was read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		fmt.Println(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, `fairsem_client_permits_released_total{`) {
			fmt.Print(line)
		}
	}
	// Output:
	// fairsem_client_permits_released_total{name="db/orders"} 1
	// fairsem_client_permits_released_total{name="other"} 2
}
