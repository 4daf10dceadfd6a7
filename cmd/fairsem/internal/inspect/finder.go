package inspect

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/bridge"
	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/failure"
)

const (
	// scanShare is how much of a server's time the scans may take: watching must not be a load.
	scanShare = 0.02
	// scanPause is the least time between two scans. A scan may take its share of a tenth of a second at once.
	scanPause = 100 * time.Millisecond
	// firstWait is how long the first query waits for names. On a server with few keys that is enough for all of them.
	firstWait = 500 * time.Millisecond
)

// Finder keeps the names in use, for repeated queries. It finds them by a scan of all keys in the background; every query
// is of the names that are known. A name is kept until a whole scan did not find it, so a name that is idle between two
// uses stays.
type Finder struct {
	client  *fairsem.Client
	match   func(name string) bool
	most    int           // names that are kept; 0: any number
	pause   time.Duration // between two scans
	begun   time.Time
	scanned chan struct{} // closed after the first whole scan: from then on no name is missing that was in use before

	mu    sync.Mutex
	scan  int            // the number of the current scan; guarded by mu
	known map[string]int // the scan that last found a name; guarded by mu
	more  int            // the scan that last found a name for which there was no room; guarded by mu
	err   error          // of the last scan, if it failed; guarded by mu
	part  error          // why the last scan that counts found not all names; guarded by mu
}

// NewFinder makes a Finder of at most so many names, 0 being any number, that match. A scan begins no sooner than pause
// after the one before has ended. Run does the scanning.
func NewFinder(client *fairsem.Client, match func(name string) bool, most int, pause time.Duration) *Finder {
	return &Finder{
		client: client, match: match, most: most, pause: max(pause, scanPause), begun: time.Now(),
		scanned: make(chan struct{}), known: make(map[string]int), more: -1,
	}
}

// Start runs the Finder in the background until the returned function is called, which waits for its end.
func (f *Finder) Start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) }) // ends with ctx; stop waits
	return func() {
		cancel()
		running.Wait()
	}
}

// Run scans until ctx ends.
func (f *Finder) Run(ctx context.Context) {
	for ctx.Err() == nil {
		f.end(f.once(ctx))
		clock.Sleep(ctx, f.pause)
	}
}

// once scans all keys.
func (f *Finder) once(ctx context.Context) error {
	for name, err := range f.client.ListAt(ctx, scanShare) {
		if err != nil {
			return err
		}
		if f.match(name) {
			f.Add(name)
		}
	}
	return nil
}

// end records the result of a scan. One of only some primaries of a cluster counts, too: a name on the others is kept as long as it cannot
// be read. After one that failed the next begins.
func (f *Finder) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && !errors.Is(err, failure.ErrIncomplete) {
		f.err = err
		return
	}
	f.err, f.part = nil, nil
	if err != nil {
		f.part = failure.Reworded(err, "fairsem: list: a primary of the cluster does not answer, so names may be missing") // the same each time
	}
	if f.scan == 0 {
		close(f.scanned)
	}
	f.scan++
}

// Add keeps a name that is there, if there is room: those that are known already stay.
func (f *Finder) Add(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.known[name]; !ok && f.most > 0 && len(f.known) >= f.most {
		f.more = f.scan
		return
	}
	f.known[name] = f.scan
}

// Query queries the names that are known.
func (f *Finder) Query(ctx context.Context) (Survey, error) {
	f.await(ctx)
	names, more, missing, err := f.names()
	if err != nil {
		return Survey{}, err
	}
	lag := time.Duration(math.MaxInt64) // all names are on one server: if it stops for a moment, they are only old
	if bridge.InCluster(f.client) {
		lag = lagTimeout
	}
	all, unreadable, err := statuses(ctx, f.client, names, lag)
	if err != nil {
		return Survey{}, err
	}
	partial := f.dropGone(names, all, unreadable, more)
	s := surveyOf(all, unreadable) // which moves them
	s.More, s.Missing, s.Partial = more, missing, partial
	return s, nil
}

// await waits for the first scan, but not for long.
func (f *Finder) await(ctx context.Context) {
	timer := time.NewTimer(time.Until(f.begun.Add(firstWait)))
	defer timer.Stop()
	select {
	case <-f.scanned:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// names returns the names that are known, whether there are more, and why some may be missing. All are of one moment: the scan continues
// during a query, and a survey with few names that says "more" would be wrong about both. The error is that of the scans if their right is
// missing, or if no name is known: otherwise the query of the names has its own.
func (f *Finder) names() (names []string, more bool, missing, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) == 0 || failure.Denied(f.err) {
		err = f.err
	}
	return slices.Sorted(maps.Keys(f.known)), f.more >= max(0, f.scan-1), f.part, err
}

// dropGone drops names that are gone: at once where there is no room for others, else after a scan without them. It
// reports whether the first scan is still under way.
func (f *Finder) dropGone(names []string, all []fairsem.Status, unreadable []error, more bool) (partial bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, name := range names {
		switch {
		case all[i].Exists || unreadable[i] != nil:
			f.known[name] = f.scan
		case more || f.scan-f.known[name] > 1:
			delete(f.known, name)
		}
	}
	return f.scan == 0
}
