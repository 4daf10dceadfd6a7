package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report is the results of a run.
type report struct {
	Settings settings   `json:"settings"`
	Machine  machine    `json:"machine"`
	Sections []*section `json:"sections"`
}

// save creates the folder and writes results.json, table.md and the overview to it.
func (r report) save(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	picture, err := overview(r)
	if err != nil {
		return err
	}
	write := func(name string, content []byte) error {
		return os.WriteFile(filepath.Join(folder, name), append(content, '\n'), 0o644)
	}
	return errors.Join(
		write("results.json", raw),
		write("table.md", []byte(r.table())),
		write("overview.svg", picture),
	)
}

// table returns all results in Markdown.
func (r report) table() string {
	parts := []string{
		"# What was measured",
		r.preamble(),
		strings.TrimSpace(r.targets()),
		"Ratios are taken within each round. The table shows the median and, in brackets, the least and the largest value.",
	}
	for _, s := range r.Sections {
		parts = append(parts, "## "+s.Title, strings.TrimSpace(s.table()))
		parts = append(parts, s.Notes...)
	}
	return strings.Join(parts, "\n\n")
}

func (r report) preamble() string {
	text := r.warning() + fmt.Sprintf("%s: %s. %d rounds, %v each under contention, contenders one after the other in every round.",
		r.Machine.Date, r.Machine, r.Settings.Rounds, r.Settings.Duration)
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Machine.Versions)) {
		versions = append(versions, name+" "+r.Machine.Versions[name])
	}
	return text + "\n\nMeasured with " + strings.Join(versions, ", ") + "."
}

// warning returns a warning if the figures mean nothing.
func (r report) warning() string {
	if r.Settings.Smoke {
		return "**A smoke run: its figures mean nothing.** "
	}
	return ""
}

// targets returns the table of all targets.
func (r report) targets() string {
	rows := [][]string{{"workload", "target", "measured", "reached"}}
	for _, s := range r.Sections {
		for _, t := range s.Targets {
			rows = append(rows, []string{s.Title, t.Text, t.Measured, t.verdict()})
		}
	}
	return markdown(rows)
}

func (t target) verdict() string {
	switch {
	case t.Value == nil:
		return "–"
	case t.Reached:
		return "yes"
	}
	return "no"
}

// table returns a table with a row for each contender.
func (s *section) table() string {
	head := []string{"contender"}
	for _, key := range s.Columns {
		m := metricOf(key)
		if m.spread {
			m.head += " (least to most)"
		}
		head = append(head, m.head)
	}
	rows := [][]string{head}
	for _, x := range s.Series {
		row := []string{x.Label}
		for _, key := range s.Columns {
			row = append(row, metricOf(key).text(x.values(key)))
		}
		rows = append(rows, row)
	}
	return markdown(rows)
}

// markdown returns a table. The first row is its head.
func markdown(rows [][]string) string {
	var out strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			out.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return out.String()
}
