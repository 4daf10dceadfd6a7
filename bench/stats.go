package main

import (
	"cmp"
	"math"
	"slices"
)

// quantile is the smallest of sorted that at least a share of q of them do not exceed; 0 if there are
// none.
func quantile(sorted []int64, q float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(0, i)]
}

// median is the middle, or between the two in the middle; NaN if there are none.
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

// byTime sorts visits by one of their times.
func byTime(visits []visit, time func(visit) int64) []visit {
	return slices.SortedFunc(slices.Values(visits), func(a, b visit) int { return cmp.Compare(time(a), time(b)) })
}
