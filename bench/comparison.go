package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// comparison is a workload that several contenders run in worker processes, one after the other in every round.
type comparison struct {
	name, title string
	entries     []entry
	processes   int
	cores       placement
	job         job     // the common part of the jobs of all entries
	share       float64 // the part of settings.Duration that a measurement takes
	read        func(run) figures
	columns     []string
	relate      func(*section) // adds figures that compare contenders with each other; may be nil
	targets     func(*section) []target
	notes       []string
}

// entry is one contender of a comparison.
type entry struct {
	label     string
	contender string
	change    func(*job)        // changes the job for this entry; may be nil
	read      func(run) figures // nil: that of the comparison
	ownCore   bool              // Redis has its own core, whatever the comparison says

	observe func(context.Context, *bench, job) observer // may be nil
}

// observer observes a measurement and returns figures. To stop it, call figures or end its context.
type observer interface {
	figures(context.Context, run) (figures, error)
}

// run is one contender in one round.
type run struct {
	job      job
	window   window
	outcomes []outcome
	cpu      float64 // seconds, of Redis
	scripts  float64 // calls
}

// run runs every contender in every round. Each round begins with another contender.
func (r comparison) run(ctx context.Context, b *bench) (*section, error) {
	s := &section{Name: r.name, Title: r.title, Columns: r.columns, Notes: r.notes}
	for round := range b.Rounds {
		for i := range r.entries {
			e := r.entries[(i+round)%len(r.entries)]
			if e.contender == nodes && b.noNode != "" {
				continue
			}
			b.logf("%s, round %d of %d: %s", r.name, round+1, b.Rounds, e.label)
			f, note, err := r.measure(ctx, b, e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.label, err)
			}
			s.add(e.label, f)
			if note != "" && !slices.Contains(s.Notes, note) {
				s.Notes = append(s.Notes, note)
			}
		}
	}
	s.inOrder(r.entries)
	if r.relate != nil {
		r.relate(s)
	}
	s.Targets = r.targets(s)
	return s, nil
}

// inOrder sorts the series as the entries, because the rounds ran them in different orders.
func (s *section) inOrder(entries []entry) {
	position := func(x series) int {
		return slices.IndexFunc(entries, func(e entry) bool { return e.label == x.Label })
	}
	slices.SortFunc(s.Series, func(a, b series) int { return position(a) - position(b) })
}

// extraTime is how much longer than its window a measurement may take.
const extraTime = 60 * time.Second

// measure runs one contender once. The note reports failures of a peer. Failures of fairsem are errors.
func (r comparison) measure(ctx context.Context, b *bench, e entry) (figures, string, error) {
	d := time.Duration(float64(b.Duration) * r.share)
	ctx, cancel := context.WithTimeout(ctx, d+extraTime)
	defer cancel()
	if err := b.server.empty(ctx); err != nil {
		return nil, "", err
	}
	cores := r.cores
	if e.ownCore {
		cores = ownCore
	}
	jobs := r.jobs(b, e)
	var seen observer
	if e.observe != nil {
		seen = e.observe(ctx, b, jobs[0])
	}
	run, err := b.runWorkers(ctx, jobs, cores, d)
	if err != nil {
		return nil, "", err
	}
	f := r.read(run)
	if e.read != nil {
		f = e.read(run)
	}
	calls := float64(max(1, run.calls()))
	f["cpu"], f["scripts"] = run.cpu/calls, run.scripts/calls
	if seen != nil {
		more, err := seen.figures(ctx, run)
		if err != nil {
			return nil, "", err
		}
		merge(f, more)
	}
	note, err := run.check(e)
	return f, note, err
}

// jobs returns the job of each worker of an entry.
func (r comparison) jobs(b *bench, e entry) []job {
	j := r.job
	j.Contender, j.Addr, j.Key = e.contender, b.server.addr(), b.key()
	if e.change != nil {
		e.change(&j)
	}
	all := make([]job, r.processes)
	for i := range all {
		all[i] = j
		all[i].Process = i
	}
	return all
}

// lead is how long before its start the workers receive the window.
const lead = 30 * time.Millisecond

// runWorkers starts a worker for each job, runs them for d, and ends them.
func (b *bench) runWorkers(ctx context.Context, jobs []job, cores placement, d time.Duration) (r run, err error) {
	var c workerSet
	var versions map[string]string
	restore, err := cores.run(b.server.pid, func() (err error) {
		c, versions, err = startWorkers(ctx, jobs)
		return err
	})
	defer restore()
	defer func() { err = errors.Join(err, c.stop()) }()
	if err != nil {
		return r, err
	}
	for name, version := range versions {
		b.machine.Versions[name] = version
	}
	m, err := b.server.meter(ctx)
	if err != nil {
		return r, err
	}
	start := now() + int64(lead)
	r.job, r.window = jobs[0], window{start, start + int64(d)}
	if r.outcomes, err = c.run(r.window); err != nil {
		return r, err
	}
	r.cpu, r.scripts, err = m.spent(ctx)
	return r, err
}

// calls returns the number of granted calls, in and after the window: all those for which Redis used its CPU.
func (r run) calls() int {
	var n int
	for _, o := range r.outcomes {
		n += o.Calls
	}
	return n
}

func (r run) records() []record {
	var all []record
	for _, o := range r.outcomes {
		all = append(all, o.Records...)
	}
	return all
}

// check returns an error if fairsem, the floor or the PINGs failed, and a note if a peer failed.
func (r run) check(e entry) (string, error) {
	for _, o := range r.outcomes {
		switch {
		case o.Failures > 0 && slices.Contains(ours, e.contender):
			return "", fmt.Errorf("%d calls failed, the first: %s", o.Failures, o.Failure)
		case o.Failures > 0:
			return fmt.Sprintf("%s: calls failed, the first: %s", e.label, o.Failure), nil
		}
	}
	if e.contender == fair && r.job.Journal {
		return "", checkPromises(grants(r.outcomes), r.job.Limit)
	}
	return "", nil
}
