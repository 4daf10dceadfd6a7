package main

import (
	"cmp"
	"math"
	"slices"
)

// quantile returns the smallest of the sorted values that at least a share q of them do not exceed, or 0 if there are none.
func quantile(sorted []int64, q float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(0, i)]
}

// median returns the middle value, or the mean of the two middle values, or NaN if there are none.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(xs))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func sum(xs []float64) float64 {
	var total float64
	for _, x := range xs {
		total += x
	}
	return total
}

// byTime sorts records by one of their times.
func byTime(records []record, time func(record) int64) []record {
	return slices.SortedFunc(slices.Values(records), func(a, b record) int { return cmp.Compare(time(a), time(b)) })
}
