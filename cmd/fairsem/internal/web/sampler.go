package web

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/look"
)

// snapshot is what is known after a look. It never changes.
type snapshot struct {
	looks   int64              // at Redis so far
	at      time.Time          // of the last that was good; zero: none was
	all     []fairsem.Status   // then, by name
	byName  map[string]int     // where in all
	more    bool               // there are more names than are looked at
	rates   map[string]float64 // grants a second
	series  map[string][]point
	replace chan struct{} // closed when there is a newer one
}

// sampler looks at Redis again and again, whether anybody watches or not: a plot wants a past.
type sampler struct {
	interval, patience time.Duration
	look               func(context.Context) ([]fairsem.Status, bool, error)
	looked             func(time.Duration) // is told how long a good look took
	now                atomic.Pointer[snapshot]

	// Only run uses these.
	history history
	rates   look.Rates
}

func newSampler(interval, patience time.Duration, names int, look func(context.Context) ([]fairsem.Status, bool, error)) *sampler {
	s := &sampler{interval: interval, patience: interval + patience, look: look, looked: func(time.Duration) {}}
	s.history.names = names
	s.now.Store(&snapshot{replace: make(chan struct{})})
	return s
}

func (s *sampler) latest() *snapshot { return s.now.Load() }

// run looks until ctx ends. What takes longer than an interval is not followed by a look at once.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		s.sample(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// sample looks once. Those who watch hear of a look that failed, too: the age has changed.
func (s *sampler) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	began := time.Now()
	all, more, err := s.look(ctx)
	old := s.latest()
	next := *old
	next.looks++
	next.replace = make(chan struct{})
	if err == nil {
		s.looked(time.Since(began))
		next.at, next.all, next.more = began, all, more
		next.rates = s.rates.Add(began, all)
		next.series = s.history.add(began, all)
		next.byName = make(map[string]int, len(all))
		for i, status := range all {
			next.byName[status.Name] = i
		}
	}
	s.now.Store(&next)
	close(old.replace)
}

// one returns what a name looks like; the zero value if Redis does not know it.
func (s *snapshot) one(name string) fairsem.Status {
	if i, ok := s.byName[name]; ok {
		return s.all[i]
	}
	return fairsem.Status{Name: name}
}
