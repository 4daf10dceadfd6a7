package web

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/failure"
)

// snapshot is the state after a poll. It never changes.
type snapshot struct {
	inspect.Survey // the last that was good
	tenants        map[string]inspect.Tenants
	at             time.Time          // when it began; zero: none was
	there          time.Time          // when it had its answers
	refused        bool               // by the last poll: the user lacks a right
	polls          int64              // so far
	byName         map[string]int     // the index in Statuses
	rates          map[string]float64 // grants a second
	series         map[string][]point
	replace        chan struct{} // closed when there is a newer one
}

// surveyor queries all names. It returns an error if Redis does not answer.
type surveyor func(context.Context) (inspect.Survey, error)

// sampler polls Redis, with or without viewers: a plot needs a past.
type sampler struct {
	interval, timeout time.Duration
	survey            surveyor
	// nil: they are not polled.
	tenants func(context.Context, []fairsem.Status) (map[string]inspect.Tenants, error)
	polled  func(time.Duration) // is called with the duration of a successful poll
	now     atomic.Pointer[snapshot]

	// Only run uses these.
	history history
	rates   inspect.Rates
}

func newSampler(interval, timeout time.Duration, names int, ask surveyor) *sampler {
	s := &sampler{interval: interval, timeout: interval + timeout, survey: ask, polled: func(time.Duration) {}}
	s.history.names = names
	s.now.Store(&snapshot{replace: make(chan struct{})})
	return s
}

func (s *sampler) latest() *snapshot { return s.now.Load() }

// run polls until ctx ends.
func (s *sampler) run(ctx context.Context) { repeat(ctx, s.interval, s.sample) }

// sample polls once. Viewers are notified of a failure, too: the age has changed.
func (s *sampler) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	began := time.Now()
	old := s.latest()
	seen, err := s.survey(ctx)
	var tenants map[string]inspect.Tenants
	if err == nil && s.tenants != nil {
		tenants, err = s.tenants(ctx, seen.Statuses)
	}
	next := *old
	next.polls++
	next.replace = make(chan struct{})
	next.refused = failure.Denied(err)
	if err == nil {
		next.at, next.there, next.Survey, next.tenants = began, time.Now(), seen, tenants
		s.polled(next.there.Sub(began))
		next.rates = s.rates.Add(began, seen.Statuses)
		next.series = s.history.add(began, seen.Statuses)
		next.byName = make(map[string]int, len(seen.Statuses))
		for i, status := range seen.Statuses {
			next.byName[status.Name] = i
		}
	}
	s.now.Store(&next)
	close(old.replace)
}

// one returns the status of a name; the zero value if Redis does not know it.
func (s *snapshot) one(name string) fairsem.Status {
	if i, ok := s.byName[name]; ok {
		return s.Statuses[i]
	}
	return fairsem.Status{Name: name}
}
