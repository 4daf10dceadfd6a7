package top

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

const (
	timeout = 10 * time.Second // for an answer
	overdue = 2 * time.Second  // after which the picture is marked as old, answer or none
)

// schedule is when to query. At most one query is in flight.
type schedule struct {
	interval time.Duration
	number   int // of the latest query
	inFlight bool
	again    bool               // the query in flight is outdated: query again when it returns
	cancel   context.CancelFunc // of the query in flight
	begun    time.Time          // the first query since the last one that was answered
	took     time.Duration      // the latest answer
	err      error              // of the latest query
}

// answer is the message that a query has ended.
type answer struct {
	at     time.Time
	took   time.Duration
	survey inspect.Survey
	detail *inspect.Detail // if it was at one name
	err    error
}

// due is the message that it is time for the query after that number.
type due int

// begin queries all names, or one.
func (s *schedule) begin(ctx context.Context, from source, name string, now time.Time) tea.Cmd {
	ctx, s.cancel = context.WithTimeout(ctx, timeout)
	cancel := s.cancel
	s.number++
	s.inFlight, s.again = true, false
	if s.begun.IsZero() {
		s.begun = now
	}
	return func() tea.Msg {
		defer cancel()
		a := answer{at: time.Now()}
		if name == "" {
			a.survey, a.err = from.Survey(ctx)
		} else {
			a.detail = new(inspect.Detail)
			*a.detail, a.err = from.Detail(ctx, name)
		}
		a.took = time.Since(a.at)
		return a
	}
}

// end takes the answer. It reports false if the answer is outdated.
func (s *schedule) end(a answer) bool {
	s.inFlight = false
	if a.err == nil {
		s.begun = time.Time{}
	}
	if s.again {
		return false
	}
	s.err = a.err
	if a.err == nil {
		s.took = a.took
	}
	return true
}

// hurry prepares an immediate query. It reports false if one is in flight, which has to end first.
func (s *schedule) hurry() bool {
	if s.inFlight {
		s.again = true
		s.cancel()
	}
	return !s.inFlight
}

// every is the time between queries: longer on a server on which a query takes long.
func (s *schedule) every() time.Duration {
	if 2*s.took <= s.interval {
		return s.interval
	}
	const step = time.Second / 2 // else it would change with every query
	return (2*s.took + step - 1).Truncate(step)
}

// wait schedules the next query.
func (s *schedule) wait() tea.Cmd {
	number := s.number
	return tea.Tick(s.every()-s.took, func(time.Time) tea.Msg { return due(number) })
}

// stale returns the error if the picture is older than it should be.
func (s *schedule) stale(now time.Time) (reason string, stale bool) {
	switch {
	case s.err != nil && !errors.Is(s.err, context.DeadlineExceeded):
		return plainly(s.err), true
	case s.err != nil, s.inFlight && now.Sub(s.begun) > max(overdue, 2*s.took):
		return "no answer", true
	}
	return "", false
}
