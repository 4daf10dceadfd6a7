// Package scan scans the keys of a server in pages, and says when the next page is due so that it takes no more than a share of the
// server's time.
package scan

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
)

// Scan is a scan of the keys of one server.
type Scan struct {
	rdb    redis.Cmdable
	share  float64
	cursor uint64
	began  time.Time
	spent  time.Duration
}

// Share is how much of a server's time a scan may take unless its caller says more.
const Share = 0.1

const (
	// perPage is about how many keys Redis scans for one page: a millisecond's worth.
	perPage = 1000
	// startTime is the time of which a scan may take its share at once, so that a scan of few keys does not pause.
	startTime = 100 * time.Millisecond
	// pageCost is the server's time for a page besides the time between the two readings of its clock.
	pageCost = 50 * time.Microsecond
)

// New makes a scan that takes at most that share of the server's time. It does no I/O.
func New(rdb redis.Cmdable, share float64) *Scan { return &Scan{rdb: rdb, share: share} }

// Due is how long to wait before the next page.
func (s *Scan) Due() time.Duration {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	return time.Duration(float64(s.spent)/s.share) - startTime - time.Since(s.began)
}

// Page is some keys, which may be none.
type Page struct {
	Keys   []string
	cursor uint64 // of the next one
	took   time.Duration
}

// Read reads the next page of the keys that match a pattern, of one kind, such as hash; "": of any. It changes nothing in s, so a call may
// be left behind. It reads between two readings of the server's clock. The three commands are one write, so the server executes them in a
// row: the difference is the time that the page took, however far away the server is. For a server that does not report its time, all
// the time until its answer counts.
func (s *Scan) Read(ctx context.Context, pattern, kind string) (p Page, err error) {
	pipe := s.rdb.Pipeline()
	before, page, after := pipe.Time(ctx), pipe.ScanType(ctx, s.cursor, pattern, perPage, kind), pipe.Time(ctx)
	began := time.Now()
	_, failed := pipe.Exec(ctx)
	p.took = time.Since(began)
	if p.Keys, p.cursor, err = page.Result(); err == nil && p.Keys == nil {
		err = failed // a reply about the connection, such as one to AUTH, is no command's own error
	}
	if err != nil {
		return Page{}, failure.Discreet(err)
	}
	if before.Err() == nil && after.Err() == nil { // the clock may have been stepped between the readings
		p.took = max(0, min(after.Val().Sub(before.Val()), p.took))
	}
	return p, nil
}

// Advance goes on to the page after p, and reports whether there is one.
func (s *Scan) Advance(p Page) (more bool) {
	s.cursor = p.cursor
	s.spent += p.took + pageCost
	return s.cursor != 0
}

// Each reads page after page, each when it is due, and calls found with the keys of each. It ends with the first error, also of found.
func (s *Scan) Each(ctx context.Context, pattern, kind string, found func(keys []string) error) error {
	for more := true; more; {
		clock.Sleep(ctx, s.Due())
		page, err := s.Read(ctx, pattern, kind)
		if err == nil {
			err = found(page.Keys)
		}
		if err != nil {
			return err
		}
		more = s.Advance(page)
	}
	return nil
}
