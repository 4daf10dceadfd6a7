package main

import (
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

// row is what was found in one run or, added up, in all runs of a fault.
type row struct {
	Fault     string         `json:"fault"`
	Kind      string         `json:"kind"`
	Seeds     []uint64       `json:"seeds"`
	Strikes   int            `json:"strikes"`
	Calls     int            `json:"calls"`
	Grants    int            `json:"grants"`
	Over      int            `json:"over"` // grants with which the limit was exceeded
	Overtakes int            `json:"overtakes"`
	Late      int            `json:"late"` // losses told too late
	Lost      int            `json:"lost"`
	Unfenced  int64          `json:"unfenced"` // writes that the unfenced store lost
	Refused   int64          `json:"refused"`  // writes that the fenced store refused
	Recovery  time.Duration  `json:"recovery"`
	Exempt    []promise      `json:"exempt,omitempty"`  // not promised under this fault
	Broken    []finding      `json:"broken,omitempty"`  // and promised
	Counted   map[string]int `json:"counted,omitempty"` // of what is not promised
	Undecided int            `json:"undecided,omitempty"`
	Failures  map[string]int `json:"failures,omitempty"` // of Acquire
	Error     string         `json:"error,omitempty"`    // the run itself failed
}

// most is how many findings of a promise are told; all are counted.
const most = 3

// newRow judges a run.
func newRow(e *evidence) row {
	f := e.run.fault
	r := row{
		Fault: f.name, Kind: f.kind, Seeds: []uint64{e.run.seed}, Strikes: len(e.strikes), Calls: len(e.calls), Exempt: f.not,
		Unfenced: e.naive.lost(), Refused: e.fenced.refused, Counted: make(map[string]int), Failures: make(map[string]int),
	}
	for _, name := range busy {
		r.Recovery = max(r.Recovery, e.recovery(name))
	}
	for _, c := range e.calls {
		if c.Granted > 0 {
			r.Grants++
		}
		if c.Granted > 0 && c.Lost && e.member(c.Process).killedAt() == 0 {
			r.Lost++
		}
		if c.Failure != "" {
			r.Failures[c.Failure]++
		}
	}
	for _, found := range judge(e) {
		r.add(f, found)
	}
	return r
}

func (r *row) add(f fault, found finding) {
	switch found.Promise {
	case held:
		r.Over++
	case inOrder:
		r.Overtakes++
	case told:
		r.Late++
	}
	switch {
	case strings.HasSuffix(found.Shown, undecided):
		r.Undecided++
	case !f.holds(found.Promise):
		r.Counted[string(found.Promise)]++
	default:
		r.Broken = append(r.Broken, found)
	}
}

// plus adds the run of another seed.
func (r row) plus(o row) row {
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

// playAll plays some runs at a time, and returns a row for each fault, in the order of the runs.
func playAll(ctx context.Context, runs []run, parallel int, progress io.Writer) []row {
	rows := make([]row, len(runs))
	seats := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i, r := range runs {
		seats <- struct{}{}
		all.Go(func() { // ends with the run
			defer func() { <-seats }()
			rows[i] = r.row(ctx)
			_, _ = fmt.Fprintln(progress, rows[i].line()) // there is nobody else to tell
		})
	}
	all.Wait()
	return together(rows)
}

// row plays a run.
func (r run) row(ctx context.Context) row {
	e, err := r.play(ctx)
	if err != nil {
		return row{Fault: r.fault.name, Kind: r.fault.kind, Seeds: []uint64{r.seed}, Error: err.Error(),
			Counted: make(map[string]int), Failures: make(map[string]int)}
	}
	return newRow(e)
}

// together adds up the runs of each fault.
func together(rows []row) []row {
	var all []row
	for _, r := range rows {
		i := slices.IndexFunc(all, func(o row) bool { return o.Fault == r.Fault && o.Kind == r.Kind })
		if i < 0 {
			all = append(all, r)
			continue
		}
		all[i] = all[i].plus(r)
	}
	return all
}

// line is what is told of a run as soon as it is over.
func (r row) line() string {
	text := fmt.Sprintf("%s, %s, seed %d: %d strikes, %d calls, %d grants, %d lost, %s",
		r.Fault, r.Kind, r.Seeds[0], r.Strikes, r.Calls, r.Grants, r.Lost, r.verdict())
	if r.Error != "" {
		return text + ": " + r.Error
	}
	told := make(map[promise]int)
	for _, b := range r.Broken {
		if told[b.Promise]++; told[b.Promise] <= most {
			text += fmt.Sprintf("\n  %s %s", b.Promise, b.Shown)
		}
	}
	return text
}

// verdict is one word, or a few.
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

// report is all that was found.
type report struct {
	Settings settings `json:"settings"`
	Machine  machine  `json:"machine"`
	Rows     []row    `json:"rows"`
}

// verdict is an error if a promise was broken, or a run could not be made.
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
	return fmt.Errorf("%d of %d faults broke a promise, or could not be run", bad, len(r.Rows))
}

// text is the table, in the shape that Markdown has.
func (r report) text() string {
	rows := [][]string{{"fault", "servers", "strikes", "calls", "grants", "over limit", "overtakes", "told late", "lost",
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

// exempt is what is not promised, and how often it was seen.
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

// save writes results.json and table.md into a folder, which it makes.
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
	table := fmt.Sprintf("# What was broken, and what was kept\n\n%s. %v a run, %d runs of each fault, seeds from %d.\n\n%s",
		r.Machine, r.Settings.Length, r.Settings.Seeds, r.Settings.Seed, r.text())
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "results.json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(folder, "table.md"), []byte(table), 0o644),
	)
}
