package fairsem

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
)

// listShare is how much of a server's time List takes.
const listShare = 0.1

// List yields the names that are in use, or were within about the last half minute, and the names whose limit was set by
// hand. It yields each name once, in no particular order, as soon as it is found. It scans all keys of the server, or of
// every primary of a cluster, and takes at most a tenth of a server's time. With millions of keys, of any program, a scan
// takes minutes; to stop early, break out of the loop or end ctx. It ends with the first error, which comes with an
// empty name.
func (c *Client) List(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := make(map[string]bool)
		for name, err := range c.ListAt(ctx, listShare) {
			if !seen[name] && !yield(name, err) {
				return
			}
			seen[name] = true
		}
	}
}

// ListAt is [Client.List] at another pace: it takes at most that share of a server's time, above 0 and up to 1. It measures
// each step on the clock of Redis, and pauses in between. Without the right to use TIME it measures how long the answer
// took. It keeps no names in memory, and may yield a name twice.
func (c *Client) ListAt(ctx context.Context, share float64) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := c.walk(ctx, share, func(name string) bool { return yield(name, nil) }); err != nil {
			yield("", wrap("list", c.keyspace.Prefix, err))
		}
	}
}

// walk calls found with each name until found returns false.
func (c *Client) walk(ctx context.Context, share float64, found func(name string) bool) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: the context is nil", ErrInvalid)
	case !(share > 0 && share <= 1): // NaN is neither
		return fmt.Errorf("%w: share %v is not above 0 and up to 1", ErrInvalid, share)
	}
	nodes, err := c.scans(ctx, share)
	for err == nil && len(nodes) > 0 {
		var page []string
		if page, err = nodes[0].next(ctx, c); err != nil {
			break
		}
		for _, name := range page {
			if !found(name) {
				return nil
			}
		}
		if nodes[0].cursor == 0 {
			nodes = nodes[1:]
		}
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) && !failure.Refused(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return advise(err)
}

// scan is a scan of the keys of one server.
type scan struct {
	rdb    redis.Cmdable
	cursor uint64
	pace   pace
}

// scans returns a scan for each server that has keys of its own.
func (c *Client) scans(ctx context.Context, share float64) ([]*scan, error) {
	cluster, ok := c.rdb.(interface {
		ForEachMaster(ctx context.Context, fn func(ctx context.Context, node *redis.Client) error) error
	})
	if !ok {
		return []*scan{{rdb: c.rdb, pace: pace{share: share}}}, ctx.Err()
	}
	var mu sync.Mutex
	var all []*scan
	err := c.during(ctx, func() error {
		return cluster.ForEachMaster(c.goroutines.Context, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, &scan{rdb: node, pace: pace{share: share}})
			return nil
		})
	})
	if err != nil {
		return nil, err // ForEachMaster may go on, and append to all
	}
	return all, nil
}

// scanCount is about how many keys Redis scans for one page: a millisecond's worth.
const scanCount = 1000

// next returns the names of the next page, when the pace allows it. The scan is over when the cursor is 0 again.
func (s *scan) next(ctx context.Context, c *Client) (names []string, err error) {
	if err := c.goroutines.Sleep(ctx, s.pace.due()); err != nil {
		return nil, err
	}
	var keys []string
	var took time.Duration
	cursor := s.cursor
	err = c.during(ctx, func() (err error) {
		keys, cursor, took, err = s.page(c.goroutines.Context, c.keyspace.EveryName())
		return err
	})
	if err != nil {
		return nil, err
	}
	s.cursor = cursor
	s.pace.spend(took)
	for _, key := range keys {
		if name, ok := c.keyspace.NameOf(key, "meta"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// page reads one page between two readings of the server's clock. The three commands are one write, so the server executes
// them in a row: the difference is what the page took, however far away the server is.
func (s *scan) page(ctx context.Context, pattern string) (keys []string, cursor uint64, took time.Duration, err error) {
	pipe := s.rdb.Pipeline()
	before, page, after := pipe.Time(ctx), pipe.Scan(ctx, s.cursor, pattern, scanCount), pipe.Time(ctx)
	began := time.Now()
	_, _ = pipe.Exec(ctx) // each command has its own error
	answered := time.Since(began)
	if keys, cursor, err = page.Result(); err != nil {
		return nil, 0, 0, err
	}
	if before.Err() != nil || after.Err() != nil {
		return keys, cursor, answered, nil
	}
	// The clock may have been stepped between the readings.
	return keys, cursor, max(0, min(after.Val().Sub(before.Val()), answered)), nil
}

// pace keeps a scan below a share of a server's time.
type pace struct {
	share float64
	began time.Time
	spent time.Duration
}

const (
	// paceStart is the time of which a scan may take its share at once, so that a scan of few keys does not pause.
	paceStart = 100 * time.Millisecond
	// pageCost is what a page costs the server besides the time between the two readings of its clock.
	pageCost = 50 * time.Microsecond
)

func (p *pace) spend(took time.Duration) { p.spent += took + pageCost }

// due is how long to wait before the next page.
func (p *pace) due() time.Duration {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	return time.Duration(float64(p.spent)/p.share) - paceStart - time.Since(p.began)
}

// wholeRunes removes the rest of a character from UTF-8 text that was cut at maxLabel.
func wholeRunes(s string) string {
	if len(s) < maxLabel {
		return s
	}
	for end := len(s) - 1; end >= len(s)-utf8.UTFMax; end-- {
		if utf8.RuneStart(s[end]) {
			if !utf8.FullRuneInString(s[end:]) {
				return s[:end]
			}
			break
		}
	}
	return s
}
