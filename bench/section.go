package main

import (
	"fmt"
	"math"
	"slices"
)

// figures are the results of one round of one contender, by metric. Metrics that were not measured are missing.
type figures map[string]float64

// series is one contender in all rounds.
type series struct {
	Label  string    `json:"label"`
	Rounds []figures `json:"rounds"`
}

// section is the results of one workload.
type section struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Columns []string `json:"columns"` // metrics, in the order of the table
	Series  []series `json:"series"`
	Targets []target `json:"targets"`
	Notes   []string `json:"notes,omitempty"`
}

func (s *section) add(label string, f figures) {
	i := slices.IndexFunc(s.Series, func(x series) bool { return x.Label == label })
	if i < 0 {
		i = len(s.Series)
		s.Series = append(s.Series, series{Label: label})
	}
	s.Series[i].Rounds = append(s.Series[i].Rounds, f)
}

// contender returns the series of a contender. It has no rounds if there is no such contender.
func (s *section) contender(label string) series {
	for _, x := range s.Series {
		if x.Label == label {
			return x
		}
	}
	return series{Label: label}
}

// of returns a metric of a contender for each round in which it was measured.
func (s *section) of(label, metric string) []float64 { return s.contender(label).values(metric) }

func (x series) values(metric string) []float64 {
	var all []float64
	for _, f := range x.Rounds {
		if value, measured := f[metric]; measured {
			all = append(all, value)
		}
	}
	return all
}

// best returns the peer with the highest median, or "" if none was measured.
func (s *section) best(metric string, peers ...string) string {
	var best string
	most := math.Inf(-1)
	for _, peer := range peers {
		if m := median(s.of(peer, metric)); m > most {
			best, most = peer, m
		}
	}
	return best
}

// ratio divides a metric of one contender by that of another for each round, because only figures measured at about the same
// time can be compared.
func (s *section) ratio(metric, of, by string) []float64 {
	var all []float64
	above, below := s.of(of, metric), s.of(by, metric)
	for i := range min(len(above), len(below)) {
		all = append(all, above[i]/below[i])
	}
	return all
}

// target is a goal of the library in a workload, and the measured figure.
type target struct {
	Text     string   `json:"text"`
	Measured string   `json:"measured"`
	Value    *float64 `json:"value"` // null: not measured
	Reached  bool     `json:"reached"`
}

// atMost is reached if the median of xs is at most bound. show formats a number.
func atMost(bound float64, text string, xs []float64, show func(float64) string) target {
	return newTarget(text, xs, show, func(x float64) bool { return x <= bound })
}

// atLeast is reached if the median of xs is at least bound.
func atLeast(bound float64, text string, xs []float64, show func(float64) string) target {
	return newTarget(text, xs, show, func(x float64) bool { return x >= bound })
}

func newTarget(text string, xs []float64, show func(float64) string, good func(float64) bool) target {
	m := median(xs)
	if math.IsNaN(m) || math.IsInf(m, 0) {
		return target{Text: text, Measured: "not measured"}
	}
	return target{text, spread(xs, show), &m, good(m)}
}

// spread returns the median and, if there is more than one value, the least and the largest.
func spread(xs []float64, show func(float64) string) string {
	text := show(median(xs))
	if len(xs) > 1 {
		text += fmt.Sprintf(" (%s to %s)", show(slices.Min(xs)), show(slices.Max(xs)))
	}
	return text
}

// none is reached if something happened in no round of a contender. If it was not measured in some rounds, and happened in none of the
// others, that is unknown.
func none(text string, of series, metric string) target {
	xs := of.values(metric)
	if len(xs) == 0 {
		return target{Text: text, Measured: "not measured"}
	}
	total := sum(xs)
	t := target{text, count(total), &total, total == 0}
	if missing := len(of.Rounds) - len(xs); missing > 0 {
		t.Measured += fmt.Sprintf(", not measured in %d of %d rounds", missing, len(of.Rounds))
		if t.Reached {
			t.Value, t.Reached = nil, false
		}
	}
	return t
}
