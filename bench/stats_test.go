package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQuantileIsOneOfTheValues(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(i + 1)
	}
	assert.EqualValues(t, 50, quantile(hundred, 0.5))
	assert.EqualValues(t, 99, quantile(hundred, 0.99))
	assert.EqualValues(t, 100, quantile(hundred, 1))
	assert.EqualValues(t, 1, quantile(hundred, 0))
	assert.EqualValues(t, 7, quantile([]int64{7}, 0.99))
	assert.Zero(t, quantile(nil, 0.5))
}

func TestMedianIsTheMiddle(t *testing.T) {
	assert.Equal(t, 2.0, median([]float64{3, 1, 2}))
	assert.Equal(t, 2.5, median([]float64{4, 1, 3, 2}))
	assert.True(t, math.IsNaN(median(nil)))
}

func TestNumbersAreFormattedWithTheirUnits(t *testing.T) {
	for text, shown := range map[string]string{
		"43.1 µs": seconds(43.12e-6), "9.99 ms": seconds(9.991e-3), "10.0 ms": seconds(9.996e-3), "123 ms": seconds(0.123),
		"2.50 s": seconds(2.5), "0.50 µs": seconds(0.5e-6),
		"0": count(0), "9999": count(9999), "10.0k": count(10_000), "243k": count(243_210), "1.20M": count(1.2e6),
		"1.00 x": ratio(1), "97.3 %": percent(0.973), "250 B": bytesEach(250.2),
	} {
		assert.Equal(t, text, shown)
	}
}

func TestCellCombinesRoundsByItsMetric(t *testing.T) {
	rounds := []float64{30, 10, 20}
	assert.Equal(t, "20 (10 to 30)", metricOf("rate").text(rounds))
	assert.Equal(t, "60", metricOf("overtakes").text(rounds))
	assert.Equal(t, "30", metricOf("most").text(rounds))
	assert.Equal(t, "20.0 s", metricOf("p50").text(rounds))
	assert.Equal(t, "–", metricOf("p50").text(nil))
}
