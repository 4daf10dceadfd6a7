package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// race is a workload that several contenders run, in worker processes, one after the other in every
// round.
type race struct {
	name, title string
	entries     []entry
	processes   int
	cores       placement
	job         job     // what all have in common
	share       float64 // of settings.Duration that a measurement takes
	read        func(run) figures
	columns     []string
	targets     func(*section) []target
	notes       []string
}

// entry is one contender of a race.
type entry struct {
	label     string
	contender string
	change    func(*job)        // what is different for it; nil: nothing
	read      func(run) figures // nil: as the race says
	apart     bool              // Redis has a core of its own, whatever the race says

	watch func(context.Context, *bench, job) watch // nil: nobody looks on
}

// watch looks on while workers work, and says what it saw. It must be asked for that, or its context end.
type watch interface {
	found(context.Context, run) (figures, error)
}

// run is one contender in one round.
type run struct {
	job      job
	window   window
	outcomes []outcome
	cpu      float64 // seconds, of Redis
	scripts  float64 // calls
}

// run lets every contender run in every round. Who begins changes from round to round.
func (r race) run(ctx context.Context, b *bench) (*section, error) {
	s := &section{Name: r.name, Title: r.title, Columns: r.columns, Notes: r.notes}
	for round := range b.Rounds {
		for i := range r.entries {
			e := r.entries[(i+round)%len(r.entries)]
			if e.contender == nodes && b.noNode != "" {
				continue
			}
			b.say("%s, round %d of %d: %s", r.name, round+1, b.Rounds, e.label)
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
	s.Targets = r.targets(s)
	return s, nil
}

// inOrder undoes what the changing order of the rounds did to the table.
func (s *section) inOrder(entries []entry) {
	place := func(x series) int {
		return slices.IndexFunc(entries, func(e entry) bool { return e.label == x.Label })
	}
	slices.SortFunc(s.Series, func(a, b series) int { return place(a) - place(b) })
}

// A measurement that takes this much longer than its window is stuck.
const stuck = 60 * time.Second

// measure runs one contender once. The note tells of failures of a peer; those of fairsem are errors.
func (r race) measure(ctx context.Context, b *bench, e entry) (figures, string, error) {
	d := time.Duration(float64(b.Duration) * r.share)
	ctx, cancel := context.WithTimeout(ctx, d+stuck)
	defer cancel()
	if err := b.server.empty(ctx); err != nil {
		return nil, "", err
	}
	cores := r.cores
	if e.apart {
		cores = apart
	}
	jobs := r.jobs(b, e)
	var seen watch
	if e.watch != nil {
		seen = e.watch(ctx, b, jobs[0])
	}
	run, err := b.race(ctx, jobs, cores, d)
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
		more, err := seen.found(ctx, run)
		if err != nil {
			return nil, "", err
		}
		merge(f, more)
	}
	note, err := run.check(e)
	return f, note, err
}

// jobs is what the workers of an entry are told.
func (r race) jobs(b *bench, e entry) []job {
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

// lead is how long before the window the workers are told of it.
const lead = 30 * time.Millisecond

// race starts a worker for each job, has them work for d, and ends them.
func (b *bench) race(ctx context.Context, jobs []job, cores placement, d time.Duration) (r run, err error) {
	var c crew
	var versions map[string]string
	restore, err := cores.placed(b.server.pid, func() (err error) {
		c, versions, err = muster(ctx, jobs)
		return err
	})
	defer restore()
	defer func() { err = errors.Join(err, c.dismiss()) }()
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
	if r.outcomes, err = c.work(r.window); err != nil {
		return r, err
	}
	r.cpu, r.scripts, err = m.spent(ctx)
	return r, err
}

// calls is how many were served, in and after the window: what Redis's CPU was spent on.
func (r run) calls() int {
	var n int
	for _, o := range r.outcomes {
		n += o.Calls
	}
	return n
}

func (r run) visits() []visit {
	var all []visit
	for _, o := range r.outcomes {
		all = append(all, o.Visits...)
	}
	return all
}

// check returns an error if fairsem, or the floor, failed in any way, and a note if a peer did.
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
		return "", promises(grants(r.outcomes), r.job.Limit)
	}
	return "", nil
}
