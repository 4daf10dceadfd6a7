package fairsemotel_test

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/fairsem/fairsem/fairsemotel"
)

// BenchmarkObserve is the time of one event of a call without a trace, with the SDK.
func BenchmarkObserve(b *testing.B) {
	for i, event := range events(background, "db") {
		b.Run(fmt.Sprintf("%02d-%T", i, event), func(b *testing.B) {
			observer, err := fairsemotel.New(fairsemotel.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				observer.Observe(event)
			}
		})
	}
}
