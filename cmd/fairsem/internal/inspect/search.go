package inspect

import (
	"context"
	"time"

	"github.com/fairsem/fairsem"
)

// Search finds the names that match a pattern, and their state.
type Search struct {
	client  *fairsem.Client
	pattern string
	match   func(name string) bool
	finder  *Finder // nil: every query scans all keys
}

// NewSearch returns the search for the names that Matcher of the pattern matches.
func NewSearch(client *fairsem.Client, pattern string) *Search {
	return &Search{client: client, pattern: pattern, match: Matcher(pattern)}
}

// Follow prepares for repeated queries: it finds the names in the background until the returned function is called. The
// time between two scans is at least pause.
func (s *Search) Follow(ctx context.Context, pause time.Duration) (stop func()) {
	if Exact(s.pattern) {
		return func() {}
	}
	s.finder = NewFinder(s.client, s.match, 0, pause)
	return s.finder.Start(ctx)
}

// Query queries the names that match. A pattern that matches only one name needs no scan.
func (s *Search) Query(ctx context.Context) (Survey, error) {
	switch {
	case Exact(s.pattern) && CheckName(s.client, s.pattern) != nil:
		return Survey{}, nil // there can be no such name
	case Exact(s.pattern):
		return queryNames(ctx, s.client, []string{s.pattern})
	case s.finder != nil:
		return s.finder.queryComplete(ctx)
	}
	return scanAll(ctx, s.client, s.match)
}

// retryEvery is the time between queries during the first scan.
const retryEvery = time.Second

// queryComplete is Query when all names are known that were in use at the start.
func (f *Finder) queryComplete(ctx context.Context) (Survey, error) {
	for {
		survey, err := f.Query(ctx)
		if err != nil || !survey.Partial {
			return survey, err
		}
		select {
		case <-f.scanned:
		case <-time.After(retryEvery): // Redis may have gone away
		case <-ctx.Done():
			return survey, context.Cause(ctx)
		}
	}
}
