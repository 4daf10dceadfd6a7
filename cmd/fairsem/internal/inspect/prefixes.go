package inspect

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/scan"
)

// Bounds on the search for other prefixes: it is for a hint.
const (
	prefixesShare = 0.1 // of a server's time
	prefixesLimit = 2 * time.Second
	prefixesMost  = 3   // that are named
	prefixesAsked = 100 // that may turn out to be another program's
)

// OtherPrefixes returns up to three prefixes of semaphores on a server, sorted, for a caller that found none with the
// prefix own. It scans keys for two seconds at most, in a tenth of the server's time, so it may miss some among millions
// of keys. It returns none if there are semaphores with the prefix own, and none to a user without the right to scan keys
// or to read those of others.
func OtherPrefixes(ctx context.Context, rdb redis.UniversalClient, own string) []string {
	ctx, cancel := context.WithTimeout(ctx, prefixesLimit)
	defer cancel()
	s := &prefixSearch{own: own, asked: make(map[string]bool)}
	ended := make(chan struct{})
	go func() { // ends with ctx and the time-outs of go-redis; not waited for beyond ctx
		defer close(ended)
		switch rdb := rdb.(type) {
		case *redis.ClusterClient:
			_ = rdb.ForEachMaster(ctx, s.scan) // the prefixes found by then are good
		case *redis.Client:
			_ = s.scan(ctx, rdb) // as above
		}
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return s.found()
}

// prefixSearch is a search under way, on every primary of a cluster at once.
type prefixSearch struct {
	own string

	mu    sync.Mutex
	asked map[string]bool // by prefix, whether there are semaphores; guarded by mu
}

// errEnough ends a scan that has found enough.
var errEnough = errors.New("enough prefixes are known")

// scan scans the keys of one server that look like those of names.
func (s *prefixSearch) scan(ctx context.Context, node *redis.Client) error {
	keys := scan.New(node, prefixesShare)
	for more := true; more; {
		select {
		case <-time.After(keys.Due()):
		case <-ctx.Done():
			return ctx.Err()
		}
		page, err := keys.Read(ctx, protocol.AnyKey(protocol.Meta), "hash")
		if err != nil {
			return err
		}
		for _, key := range page.Keys {
			if err := s.consider(ctx, node, key); err != nil {
				return err
			}
		}
		more = keys.Advance(page)
	}
	return nil
}

// consider checks whether a key that looks like one of a name is one, if its prefix is new. An error ends the scan.
func (s *prefixSearch) consider(ctx context.Context, node *redis.Client, key string) error {
	space, _, kind, ok := protocol.ParseKey(key)
	prefix := space.Prefix
	if !ok || kind != protocol.Meta || !s.begin(prefix) {
		return nil
	}
	err := node.HGet(ctx, key, protocol.MetaLayout).Err()
	switch {
	case err == nil:
		return s.add(prefix)
	case failure.IsMissing(err): // another program's, or gone
		return nil
	}
	return err // a user who may not read this may not read others either, and each try is noted in ACL LOG
}

// begin reports whether a prefix is new and has to be checked.
func (s *prefixSearch) begin(prefix string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.asked[prefix]; known || len(s.asked) >= prefixesAsked {
		return false
	}
	s.asked[prefix] = false
	return true
}

// add keeps a prefix. The error is that the scan can end.
func (s *prefixSearch) add(prefix string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[prefix] = true
	if len(s.good()) >= prefixesMost || prefix == s.own {
		return errEnough
	}
	return nil
}

// good are the prefixes with semaphores. The caller has the lock.
func (s *prefixSearch) good() (all []string) {
	for prefix, good := range s.asked {
		if good {
			all = append(all, prefix)
		}
	}
	return all
}

func (s *prefixSearch) found() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked[s.own] {
		return nil
	}
	all := s.good()
	slices.Sort(all)
	return all[:min(len(all), prefixesMost)]
}
