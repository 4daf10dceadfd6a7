package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/primaries"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/scan"
)

// List yields the names that are in use, or were lately, and the names whose limit was set by hand. A name is listed for up to 40
// s after its last use. If that is longer, it is listed until 20 s after the longest TTL or window of its calls, or after a grace
// period. If the server's clock was stepped back meanwhile, it is listed until the clock has caught up. It yields each name once,
// in no particular order, as soon as it is found. It scans all keys of the server, or of every primary of a cluster, and takes at
// most a tenth of a server's time. With millions of keys, of any program, a scan takes minutes; to stop early, break out of the
// loop or end ctx. An error comes last, with an empty name: those of [Client.Ping], and [ErrUnavailable], too, if Redis has not
// answered for a TTL. In a cluster the names of the primaries that answer come before the [ErrUnavailable] of one that does not.
func (c *Client) List(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := make(map[string]bool)
		for name, err := range c.ListAt(ctx, scan.Share) {
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
			yield("", wrap("list", "", err))
		}
	}
}

// walk calls found with each name until found returns false. It reads the servers side by side, because one of them may be silent.
func (c *Client) walk(ctx context.Context, share float64, found func(name string) bool) error {
	switch {
	case ctx == nil:
		return errNilContext
	case !(share > 0 && share <= 1): // NaN is neither
		return fmt.Errorf("%w: share %v is not above 0 and up to 1", ErrInvalid, share)
	}
	if err := cmp.Or(c.check(), ended(ctx)); err != nil {
		return err
	}
	scans, err := c.scans(ctx, share)
	if err != nil {
		return err
	}
	pages, end := c.readSideBySide(ctx, scans)
	defer end()
	silent := 0
	for left := len(scans); left > 0; {
		var page pageOfNames
		select {
		case page = <-pages:
		case <-c.goroutines.Context.Done():
			return ErrClosed
		}
		switch {
		case page.err != nil && ctx.Err() != nil && !errors.Is(page.err, ctx.Err()): // it ended while the page waited for found
			return withDoubt(ended(ctx), page.err)
		case page.err != nil && (ctx.Err() != nil || !errors.Is(page.err, ErrUnavailable)):
			return page.err
		case page.err != nil: // other primaries may answer
			err = cmp.Or(err, page.err)
			silent++
		}
		for _, name := range page.names {
			if !found(name) {
				return nil
			}
		}
		if page.last {
			left--
		}
	}
	if 0 < silent && silent < len(scans) {
		return fmt.Errorf("%w; %w: %d of %d", err, failure.ErrIncomplete, silent, len(scans))
	}
	return err
}

// pageOfNames is what a page of a scan yields, or why it could not be read. No other page follows the last one.
type pageOfNames struct {
	names []string
	err   error
	last  bool
}

// readSideBySide starts a reader of each server. They send what they read until end is called, which waits for them; after Close they send
// nothing.
func (c *Client) readSideBySide(ctx context.Context, scans []*scan.Scan) (pages <-chan pageOfNames, end func()) {
	ctx, stop := context.WithCancel(ctx)
	sent, enough := make(chan pageOfNames), make(chan struct{})
	var readers sync.WaitGroup
	for _, s := range scans {
		readers.Add(1)
		started := c.goroutines.Start(goroutines.Listings, func() {
			defer readers.Done()
			c.readNames(ctx, s, sent, enough)
		})
		if !started {
			readers.Done()
		}
	}
	return sent, func() {
		close(enough)
		stop()
		readers.Wait()
	}
}

// readNames sends the names on a server, page after page, until no more are wanted. The end of ctx is an error like others.
func (c *Client) readNames(ctx context.Context, s *scan.Scan, pages chan<- pageOfNames, enough <-chan struct{}) {
	for more := true; more; {
		var page pageOfNames
		page.names, more, page.err = c.nextNames(ctx, s)
		page.last = !more
		select {
		case pages <- page:
		case <-enough:
			return
		case <-c.goroutines.Context.Done():
			return
		}
	}
}

// scans returns a scan for each server that has keys of its own.
func (c *Client) scans(ctx context.Context, share float64) (all []*scan.Scan, err error) {
	if c.cluster == nil {
		return []*scan.Scan{scan.New(c.rdb, share)}, nil
	}
	var nodes []*redis.Client
	wanted, stop := context.WithCancel(c.goroutines.Context)
	defer stop()
	err = c.during(ctx, func() (err error) {
		nodes, err = primaries.Of(wanted, c.cluster, func(query func()) { c.goroutines.Start(goroutines.Listings, query) })
		return failure.Discreet(err)
	})
	if err != nil {
		return nil, err // what runs may go on, and write to nodes
	}
	for _, node := range nodes {
		all = append(all, scan.New(node, share))
	}
	return all, nil
}

// nextNames returns the names of the next page of a scan, when that is due, and whether there is another page.
func (c *Client) nextNames(ctx context.Context, s *scan.Scan) (names []string, more bool, err error) {
	switch err := c.goroutines.Sleep(ctx, s.Due()); {
	case ctx.Err() != nil:
		return nil, false, ended(ctx)
	case err != nil:
		return nil, false, err
	}
	var page scan.Page
	err = c.during(ctx, func() (err error) {
		page, err = s.Read(c.goroutines.Context, c.keyspace.EveryName(), "")
		return err
	})
	if err != nil {
		return nil, false, err
	}
	for _, key := range page.Keys {
		if name, ok := c.keyspace.NameOf(key, protocol.Meta); ok {
			names = append(names, name)
		}
	}
	return names, s.Advance(page), nil
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
