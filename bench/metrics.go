package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// metric is one figure: its name, its format, and how several rounds are combined.
type metric struct {
	key    string
	head   string
	show   func(float64) string
	of     func([]float64) float64 // combines rounds; nil: the median
	spread bool                    // the table also shows the least and the largest value
}

// metrics contains all metrics. Times are in seconds, sizes in bytes.
var metrics = []metric{
	{key: "rate", head: "per second", show: count, spread: true},
	{key: "first", head: "in the first window", show: count, spread: true},
	{key: "steady", head: "per second after it", show: count, spread: true},
	{key: "window", head: "most in a window", show: count, of: largest},
	{key: "by server", head: "by the server's clock", show: count, of: largest},
	{key: "over", head: "above the limit", show: count, of: largest},
	{key: "unseen", head: "not seen", show: count, of: sum},
	{key: "scripts", head: "script calls each", show: digits},
	{key: "p50", head: "p50", show: seconds},
	{key: "p99", head: "p99", show: seconds},
	{key: "mean", head: "mean", show: seconds},
	{key: "longest", head: "longest", show: seconds, of: largest},
	{key: "cpu", head: "Redis CPU each", show: seconds, spread: true},
	{key: cpuOfPings, head: "as x of two PINGs'", show: ratio, spread: true},
	{key: "utilisation", head: "limit used", show: percent, spread: true},
	{key: "busy", head: "with real holds", show: percent},
	{key: "most", head: "most at once", show: count, of: largest},
	{key: "overtakes", head: "overtakes", show: count, of: sum},
	{key: "by far", head: "by 20 ms and more", show: count, of: sum},
	{key: "by token", head: "by token", show: count, of: sum},
	{key: "failed", head: "failed", show: count, of: sum},
	{key: "commands", head: "commands", show: count},
	{key: "commands each", head: "commands each", show: digits},
	{key: "woken each", head: "processes woken each", show: digits},
	{key: "share", head: "of a Redis core", show: percent},
	{key: "lost", head: "lost", show: count, of: sum},
	{key: "redis bytes", head: "in Redis", show: bytesEach},
	{key: "heap bytes", head: "in Go's heap", show: bytesEach},
	{key: "stack bytes", head: "stack of the goroutine", show: bytesEach},
	{key: "samples", head: "samples", show: count, of: sum},
}

// metricOf returns the metric with that key, which must exist.
func metricOf(key string) metric {
	for _, m := range metrics {
		if m.key == key {
			return m
		}
	}
	panic("no metric " + strconv.Quote(key))
}

// text returns the rounds of a series as one cell, or "–" if the metric was not measured.
func (m metric) text(rounds []float64) string {
	switch {
	case len(rounds) == 0:
		return "–"
	case m.of != nil:
		return m.show(m.of(rounds))
	case m.spread:
		return spread(rounds, m.show)
	}
	return m.show(median(rounds))
}

func largest(xs []float64) float64 {
	most := math.Inf(-1)
	for _, x := range xs {
		most = max(most, x)
	}
	return most
}

// count formats a number like 123, 4.57k or 1.23M.
func count(x float64) string {
	switch {
	case x >= 1e6:
		return digits(x/1e6) + "M"
	case x >= 1e4:
		return digits(x/1e3) + "k"
	}
	return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
}

// seconds formats a time with three digits and a suitable unit.
func seconds(x float64) string {
	switch {
	case x >= 1:
		return digits(x) + " s"
	case x >= 1e-3:
		return digits(x*1e3) + " ms"
	}
	return digits(x*1e6) + " µs"
}

// digits formats a number with three digits, or more if they are before the point.
func digits(x float64) string {
	places := 2
	for limit := 9.995; x >= limit && places > 0; limit *= 10 {
		places--
	}
	return strconv.FormatFloat(x, 'f', places, 64)
}

func ratio(x float64) string     { return digits(x) + " x" }
func percent(x float64) string   { return digits(x*100) + " %" }
func bytesEach(x float64) string { return fmt.Sprintf("%.0f B", x) }

// inSeconds converts nanoseconds to seconds.
func inSeconds[N int64 | time.Duration](ns N) float64 { return float64(ns) / 1e9 }
