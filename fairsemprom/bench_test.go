package fairsemprom_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairsem/fairsem/fairsemprom"
)

// BenchmarkObserve is the time of one event: at most a microsecond, and no allocations.
func BenchmarkObserve(b *testing.B) {
	for i, event := range events("db") {
		kind := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", event), "fairsem."), "Event")
		b.Run(fmt.Sprintf("%02d-%s", i, kind), func(b *testing.B) {
			observer := newObserver(b, fairsemprom.Options{})
			observer.Observe(event)
			b.ReportAllocs()
			for b.Loop() {
				observer.Observe(event)
			}
		})
	}
}
