package fairsemotel_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemotel"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// newTracedClient returns a Client whose events are metrics and spans.
func newTracedClient(rdb redis.UniversalClient, meters metric.MeterProvider, tracers trace.TracerProvider) (*fairsem.Client, error) {
	observer, err := fairsemotel.New(fairsemotel.Options{MeterProvider: meters, TracerProvider: tracers})
	if err != nil {
		return nil, err
	}
	return fairsem.New(rdb, fairsem.Options{Observer: observer.Observe})
}

// Metrics and spans of a program.
func ExampleNew() {
	rdb, stop := worldtest.ExampleRedis()
	defer stop()
	reader := sdkmetric.NewManualReader()
	spans := tracetest.NewSpanRecorder()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	client, err := newTracedClient(rdb, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), tracers)
	if err != nil {
		fmt.Println(err)
		return
	}
	db, err := client.Semaphore("db", 5)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, request := tracers.Tracer("example").Start(context.Background(), "request")
	err = db.Do(ctx, 1, func(context.Context) error { return nil })
	request.End()
	if err != nil {
		fmt.Println(err)
	}
	if err := client.Close(); err != nil { // all events have been counted when it returns
		fmt.Println(err)
	}

	for _, span := range spans.Ended() {
		if span.Parent().IsValid() {
			fmt.Println(span.Name())
		}
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		fmt.Println(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if data, is := m.Data.(metricdata.Histogram[float64]); is {
			fmt.Println(m.Name, data.DataPoints[0].Count)
		}
	}
	// Output:
	// fairsem.wait
	// fairsem.hold
	// fairsem.client.permit.wait_time 1
	// fairsem.client.permit.use_time 1
}
