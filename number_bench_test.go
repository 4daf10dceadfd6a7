package fairsem

import (
	"fmt"
	"testing"
)

// The paths of bench_test.go where permits have numbers, beside the same without.

func BenchmarkNumberedPairAlone(b *testing.B) {
	for _, numbered := range []bool{false, true} {
		b.Run(fmt.Sprintf("numbered=%v", numbered), func(b *testing.B) {
			s := benchSemaphore(b, b.Name(), ample).With(CallOptions{Numbered: numbered})
			b.ReportAllocs()
			defer server(b)()
			for b.Loop() {
				pair(b, s)
			}
		})
	}
}

// 64 callers.
func BenchmarkNumberedContended(b *testing.B) {
	for _, limit := range []int64{4, 48} {
		for _, numbered := range []bool{false, true} {
			b.Run(fmt.Sprintf("limit=%d/numbered=%v", limit, numbered), func(b *testing.B) {
				s := benchSemaphore(b, b.Name(), limit).With(CallOptions{Numbered: numbered})
				share(b, 64, func(int) { pair(b, s) })
			})
		}
	}
}
