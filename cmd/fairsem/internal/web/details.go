package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// How often single names are queried, all names together. A network gets half of it.
const (
	detailEvery = time.Second / 8
	detailBurst = 16
	detailWait  = 2 * time.Second // for a turn
)

// mostDetails bounds the number of names in the cache.
const mostDetails = 64

// errBusy is for a name that was not queried, because others are.
var errBusy = errors.New("too many names are being queried")

// details are the holders and waiters of the names that are viewed. The load on Redis is bounded, whatever the number of
// viewers and names.
type details struct {
	timeout  time.Duration
	fresh    time.Duration // for so long an answer is as good as new
	query    func(context.Context, string) (inspect.Detail, error)
	each     *rates
	all      *rate.Limiter
	inFlight singleflight.Group

	mu      sync.Mutex
	last    map[string]seen // good ones; guarded by mu
	changed time.Time       // answers to earlier queries are not as good as new; guarded by mu
}

type seen struct {
	inspect.Detail
	asked, at time.Time // by the clock of this machine
}

func newDetails(timeout, fresh time.Duration, ask func(context.Context, string) (inspect.Detail, error)) *details {
	return &details{
		timeout: timeout, fresh: fresh, query: ask, last: make(map[string]seen),
		each: newRates(2*detailEvery, detailBurst/2), all: rate.NewLimiter(rate.Every(detailEvery), detailBurst),
	}
}

// get returns the present state of the name, for a viewer at a remote address. If Redis does not answer, or the name is
// not queried, it is the last answer, which can be old, with the error; the zero value if there was none.
func (d *details) get(ctx context.Context, from, name string) (seen, error) {
	if now, fresh := d.kept(name); fresh {
		return now, nil
	}
	// Others share the answer, so the end of one request must not end the query.
	ctx = context.WithoutCancel(ctx)
	answer, err, _ := d.inFlight.Do(flight(from, name), func() (any, error) { return d.ask(ctx, from, name) })
	if err != nil {
		old, _ := d.kept(name)
		return old, err
	}
	return answer.(seen), nil
}

// flight names a query that is shared.
func flight(from, name string) string { return network(from).String() + " " + name }

// expire is for a change from a remote address: from now on no answer from before is as good as new.
func (d *details) expire(from, name string) {
	d.inFlight.Forget(flight(from, name))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = time.Now()
}

// ask waits for a turn, and asks Redis, unless another network's turn has brought the answer meanwhile.
func (d *details) ask(ctx context.Context, from, name string) (seen, error) {
	turn, cancel := context.WithTimeout(ctx, detailWait)
	defer cancel()
	for _, limit := range []*rate.Limiter{d.each.of(from), d.all} {
		if limit.Wait(turn) != nil {
			return seen{}, errBusy
		}
		if now, fresh := d.kept(name); fresh {
			return now, nil
		}
	}
	ctx, cancel = context.WithTimeout(ctx, d.timeout)
	defer cancel()
	asked := time.Now()
	answer, err := d.query(ctx, name)
	if err != nil {
		return seen{}, err
	}
	s := seen{answer, asked, time.Now()}
	d.keep(name, s)
	return s, nil
}

// kept is the last answer, the zero value if there was none, and whether it is as good as new.
func (d *details) kept(name string) (last seen, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last = d.last[name]
	return last, last.asked.After(d.changed) && time.Since(last.at) < d.fresh
}

// forgetAfter is how long a name is kept after the last request.
const forgetAfter = 2 * time.Minute

// keep drops names without recent requests, and where there is no room the oldest answer.
func (d *details) keep(name string, s seen) {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldest := name
	d.last[name] = s
	for other, old := range d.last {
		if s.At.Sub(old.At) > forgetAfter {
			delete(d.last, other)
		} else if old.at.Before(d.last[oldest].at) {
			oldest = other
		}
	}
	if len(d.last) > mostDetails {
		delete(d.last, oldest)
	}
}
