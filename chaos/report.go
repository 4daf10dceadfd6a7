package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// row is the result of one run, or the sum of all runs of a fault.
type row struct {
	Fault     string         `json:"fault"`
	Kind      string         `json:"kind"`
	Seeds     []uint64       `json:"seeds"`
	Strikes   int            `json:"strikes"`
	Calls     int            `json:"calls"`
	Grants    int            `json:"grants"`
	Over      int            `json:"over"` // grants that exceeded the limit
	Overtakes int            `json:"overtakes"`
	Late      int            `json:"late"` // losses reported too late
	Lost      int            `json:"lost"`
	Unfenced  int64          `json:"unfenced"` // writes that the unfenced store lost
	Refused   int64          `json:"refused"`  // writes that the fenced store refused
	Recovery  time.Duration  `json:"recovery"`
	Exempt    []promise      `json:"exempt,omitempty"`  // promises that do not hold under this fault
	Broken    []finding      `json:"broken,omitempty"`  // violations of promises that hold
	Counted   map[string]int `json:"counted,omitempty"` // violations of promises that do not hold
	Undecided int            `json:"undecided,omitempty"`
	Failures  map[string]int `json:"failures,omitempty"` // of Acquire
	Error     string         `json:"error,omitempty"`    // the run itself failed
}

// maxDetails is how many findings of a promise are printed. All are counted.
const maxDetails = 3

// newRow runs all checks.
func newRow(e *evidence) row {
	f := e.run.fault
	r := row{
		Fault: f.name, Kind: f.kind, Seeds: []uint64{e.run.seed}, Strikes: len(e.strikes), Calls: len(e.calls), Exempt: f.exempt,
		Unfenced: unfencedLost(e.counters[:]), Counted: make(map[string]int), Failures: make(map[string]int),
	}
	for _, c := range e.counters {
		r.Refused += c.fenced.refused
	}
	for _, name := range contended {
		took, _ := e.recovery(name)
		r.Recovery = max(r.Recovery, took)
	}
	for _, c := range e.calls {
		if c.Token > 0 {
			r.Grants++
		}
		if c.Token > 0 && c.Lost && e.process(c.Process).killedAt() == 0 {
			r.Lost++
		}
		if c.Failure != "" {
			r.Failures[c.Failure]++
		}
	}
	for _, found := range check(e) {
		r.add(f, found)
	}
	return r
}

func (r *row) add(f fault, found finding) {
	switch found.Promise {
	case limitByContext:
		r.Over++
	case fifo:
		r.Overtakes++
	case lossReported:
		r.Late++
	}
	switch {
	case strings.HasSuffix(found.Detail, undecided):
		r.Undecided++
	case !f.promises(found.Promise):
		r.Counted[string(found.Promise)]++
	default:
		r.Broken = append(r.Broken, found)
	}
}

// merge adds the run of another seed.
func (r row) merge(o row) row {
	r.Seeds = append(r.Seeds, o.Seeds...)
	r.Strikes, r.Calls, r.Grants = r.Strikes+o.Strikes, r.Calls+o.Calls, r.Grants+o.Grants
	r.Over, r.Overtakes, r.Late, r.Lost = r.Over+o.Over, r.Overtakes+o.Overtakes, r.Late+o.Late, r.Lost+o.Lost
	r.Unfenced, r.Refused, r.Undecided = r.Unfenced+o.Unfenced, r.Refused+o.Refused, r.Undecided+o.Undecided
	r.Recovery = max(r.Recovery, o.Recovery)
	r.Broken = append(r.Broken, o.Broken...)
	for k, n := range o.Counted {
		r.Counted[k] += n
	}
	for k, n := range o.Failures {
		r.Failures[k] += n
	}
	r.Error = strings.TrimSpace(r.Error + " " + o.Error)
	return r
}

// executeAll executes the runs, several at a time. It returns a row for each fault, in the order of the runs.
func executeAll(ctx context.Context, runs []run, parallel int, progress io.Writer) []row {
	rows := make([]row, len(runs))
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for _, i := range longestFirst(runs) {
		slots <- struct{}{}
		all.Go(func() { // ends with the run
			defer func() { <-slots }()
			rows[i] = runs[i].row(ctx)
			_, _ = fmt.Fprintln(progress, rows[i].line()) // an error here cannot be reported
		})
	}
	all.Wait()
	return mergeSeeds(rows)
}

// longestFirst returns the order in which runs begin, as indices. A long run that began last would run alone.
func longestFirst(runs []run) []int {
	var order []int
	for i := range runs {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(runs[b].duration(), runs[a].duration()) })
	return order
}

// row executes a run.
func (r run) row(ctx context.Context) row {
	e, err := r.execute(ctx)
	if err != nil {
		return row{Fault: r.fault.name, Kind: r.fault.kind, Seeds: []uint64{r.seed}, Error: err.Error(),
			Counted: make(map[string]int), Failures: make(map[string]int)}
	}
	return newRow(e)
}

// mergeSeeds merges the runs of each fault.
func mergeSeeds(rows []row) []row {
	var all []row
	for _, r := range rows {
		i := slices.IndexFunc(all, func(o row) bool { return o.Fault == r.Fault && o.Kind == r.Kind })
		if i < 0 {
			all = append(all, r)
			continue
		}
		all[i] = all[i].merge(r)
	}
	return all
}

// line returns the text that is printed when a run has ended.
func (r row) line() string {
	text := fmt.Sprintf("%s, %s, seed %d: %d strikes, %d calls, %d grants, %d lost, %s",
		r.Fault, r.Kind, r.Seeds[0], r.Strikes, r.Calls, r.Grants, r.Lost, r.verdict())
	if r.Error != "" {
		return text + ": " + r.Error
	}
	output := make(map[promise]int)
	for _, b := range r.Broken {
		if output[b.Promise]++; output[b.Promise] <= maxDetails {
			text += fmt.Sprintf("\n  %s %s", b.Promise, b.Detail)
		}
	}
	return text
}

// verdict returns the result in a few words.
func (r row) verdict() string {
	switch {
	case r.Error != "":
		return "FAILED"
	case len(r.Broken) > 0:
		count := make(map[promise]int)
		for _, b := range r.Broken {
			count[b.Promise]++
		}
		var words []string
		for _, p := range promises {
			if count[p] > 0 {
				words = append(words, fmt.Sprintf("%s %d×", p, count[p]))
			}
		}
		return "BROKEN: " + strings.Join(words, ", ")
	case r.Undecided > 0:
		return "undecided"
	}
	return "kept"
}

// report contains the results of all runs.
type report struct {
	Settings settings `json:"settings"`
	Machine  machine  `json:"machine"`
	Rows     []row    `json:"rows"`
}

// verdict returns an error if a promise was broken or a run failed.
func (r report) verdict() error {
	bad := 0
	for _, row := range r.Rows {
		if row.Error != "" || len(row.Broken) > 0 {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("under %d of %d faults a promise was broken or a run failed", bad, len(r.Rows))
}

// text returns the table in Markdown.
func (r report) text() string {
	rows := [][]string{{"fault", "servers", "strikes", "calls", "grants", "over limit", "overtakes", "reported late", "lost",
		"fenced off", "works again", "promised", "not promised, seen"}}
	for _, x := range r.Rows {
		rows = append(rows, []string{x.Fault, x.Kind, fmt.Sprint(x.Strikes), fmt.Sprint(x.Calls), fmt.Sprint(x.Grants),
			fmt.Sprint(x.Over), fmt.Sprint(x.Overtakes), fmt.Sprint(x.Late), fmt.Sprint(x.Lost),
			fmt.Sprintf("%d, else %d lost", x.Refused, x.Unfenced), fmt.Sprintf("%.2f s", x.Recovery.Seconds()), x.verdict(), x.exempt()})
	}
	var out strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			out.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return out.String()
}

// exempt returns the promises that do not hold under the fault, and how often each was seen broken.
func (r row) exempt() string {
	var words []string
	for _, p := range r.Exempt {
		word := string(p)
		if n := r.Counted[word]; n > 0 {
			word += fmt.Sprintf(" %d×", n)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// save creates the folder and writes results.json and table.md to it.
func (r report) save(folder string) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for i := range r.Rows {
		r.Rows[i].Broken = r.Rows[i].Broken[:min(len(r.Rows[i].Broken), 20)]
	}
	raw, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	table := fmt.Sprintf("# What was broken, and what was kept\n\n%s. %v a run, or as long as the fault needs, %d runs of each fault, seeds from %d.\n\n%s",
		r.Machine, r.Settings.Length, r.Settings.Seeds, r.Settings.Seed, r.text())
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "results.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(folder, "table.md"), []byte(table), 0o644),
	)
}
