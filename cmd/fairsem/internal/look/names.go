package look

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
)

const (
	// namesShare is how much of a server's time finding names may take: watching must not be a load.
	namesShare = 0.02
	// namesPause is between two walks at least. A walk may take its share of a tenth of a second at once.
	namesPause = 100 * time.Millisecond
	// firstWait is how long the first query waits for names. On a server with few keys that is enough for all of them.
	firstWait = 500 * time.Millisecond
)

// Names are the names in use, for repeated queries. They are found by a scan of all keys in the background; every query
// polls the names that are known. A name is kept until a whole scan did not find it, so that one that is idle between two
// uses stays.
type Names struct {
	client *fairsem.Client
	wanted func(name string) bool
	most   int           // that are kept; 0: any number
	pause  time.Duration // between two walks
	begun  time.Time
	walked chan struct{} // closed after the first whole walk

	mu    sync.Mutex
	walk  int            // the number of the walk under way; guarded by mu
	known map[string]int // the walk during which a name was last there; guarded by mu
	more  int            // the walk that last found a name for which there was no room; guarded by mu
	err   error          // of a right that is missing; guarded by mu
}

// Watch makes Names of at most so many, 0 being any number, of those that are wanted. A walk begins no sooner than
// pause after the one before has ended. Run does the walking.
func Watch(client *fairsem.Client, wanted func(name string) bool, most int, pause time.Duration) *Names {
	return &Names{
		client: client, wanted: wanted, most: most, pause: max(pause, namesPause), begun: time.Now(),
		walked: make(chan struct{}), known: make(map[string]int), more: -1,
	}
}

// Run walks until ctx ends.
func (n *Names) Run(ctx context.Context) {
	for ctx.Err() == nil {
		n.end(n.once(ctx))
		select {
		case <-time.After(n.pause):
		case <-ctx.Done():
		}
	}
}

// once walks over all keys.
func (n *Names) once(ctx context.Context) error {
	for name, err := range n.client.ListAt(ctx, namesShare) {
		if err != nil {
			return err
		}
		if n.wanted(name) {
			n.Add(name)
		}
	}
	return nil
}

// end records the result of a scan. After one that failed the next begins; the queries report the errors of Redis.
func (n *Names) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = nil
	switch {
	case err == nil:
		if n.walk == 0 {
			close(n.walked)
		}
		n.walk++
	case redis.IsPermissionError(err):
		n.err = err
	}
}

// Add keeps a name that is there, if there is room: those that are known already stay.
func (n *Names) Add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.known[name]; !ok && n.most > 0 && len(n.known) >= n.most {
		n.more = n.walk
		return
	}
	n.known[name] = n.walk
}

// Walked is closed after the first whole walk: from then on nothing is missing that was there before.
func (n *Names) Walked() <-chan struct{} { return n.walked }

// Look queries the names that are known.
func (n *Names) Look(ctx context.Context) (Survey, error) {
	n.await(ctx)
	names, more, err := n.names()
	if err != nil {
		return Survey{}, err
	}
	all, unreadable, err := statuses(ctx, n.client, names)
	if err != nil {
		return Survey{}, err
	}
	s := surveyOf(all, unreadable)
	s.More, s.Partial = more, n.dropGone(names, all, unreadable, more)
	return s, nil
}

// await waits for the first walk, but not for long.
func (n *Names) await(ctx context.Context) {
	timer := time.NewTimer(time.Until(n.begun.Add(firstWait)))
	defer timer.Stop()
	select {
	case <-n.walked:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// names returns the names that are known, and whether there are more. Both are of one moment: the scan continues during a
// query, and a survey with few names that says "more" would be wrong about both.
func (n *Names) names() (names []string, more bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.known)), n.more >= max(0, n.walk-1), n.err
}

// dropGone drops names that are gone: at once where there is no room for others, else after a scan without them. It
// reports whether the first scan is still under way.
func (n *Names) dropGone(names []string, all []fairsem.Status, unreadable []error, more bool) (partial bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, name := range names {
		switch {
		case all[i].Exists || unreadable[i] != nil:
			n.known[name] = n.walk
		case more || n.walk-n.known[name] > 1:
			delete(n.known, name)
		}
	}
	return n.walk == 0
}
