// Package inspect reads the names of semaphores and their state from Redis. It declares no limit and leaves nothing behind.
package inspect

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
)

const (
	// maxParallel is how many names are queried at the same time; the client sends them together.
	maxParallel = 64
	// roomTimeout is after which a name without an answer no longer counts for maxParallel. It may be on a primary of a cluster that
	// does not answer, and must not hold up names on others.
	roomTimeout = 200 * time.Millisecond
	// lagTimeout is how much later than the last of the others a name in a cluster may be answered that is polled, before it counts as
	// unreadable: its primary may be down. The client itself would retry for a TTL, and the others would be old by then.
	lagTimeout = time.Second
)

// CheckName refuses a name that can never be one, before any I/O.
func CheckName(client *fairsem.Client, name string) error {
	_, err := client.Semaphore(name, 1) // the 1 is never declared
	return err
}

// Survey is the result of a query of many names. Their moments differ slightly.
type Survey struct {
	Statuses   []fairsem.Status // of those that Redis knows, by name
	Unreadable []error          // errors of a single name, such as a key of the wrong type, or a primary of a cluster that does not answer
	Missing    error            // why there may be names that were not found; nil: none are missing for an error
	More       bool             // there are more names than are queried
	Partial    bool             // the first scan of the keys is still in progress, so there may be more names
	Excluded   bool             // there are names that do not match
}

// scanAll scans all keys and queries the names that match.
func scanAll(ctx context.Context, client *fairsem.Client, match func(name string) bool) (s Survey, err error) {
	var names []string
	var missing error
	found := 0
	for name, err := range client.List(ctx) {
		switch {
		case errors.Is(err, failure.ErrIncomplete):
			missing = err
		case err != nil:
			return Survey{}, err
		case match(name):
			names = append(names, name)
			found++
		default:
			found++
		}
	}
	s, err = queryNames(ctx, client, names)
	s.Missing, s.Excluded = missing, len(names) < found
	return s, err
}

// queryNames queries those names, without a scan.
func queryNames(ctx context.Context, client *fairsem.Client, names []string) (Survey, error) {
	slices.Sort(names)
	all, unreadable, err := statuses(ctx, client, names, math.MaxInt64)
	if err != nil {
		return Survey{}, err
	}
	return surveyOf(all, unreadable), nil
}

// surveyOf leaves out the statuses of names that are gone or unreadable, and nil errors. It takes over both
// slices.
func surveyOf(all []fairsem.Status, unreadable []error) Survey {
	return Survey{
		Statuses:   slices.DeleteFunc(all, func(s fairsem.Status) bool { return !s.Exists }),
		Unreadable: slices.DeleteFunc(unreadable, func(err error) bool { return err == nil }),
	}
}

// errLate is why a name is not waited for any more.
var errLate = errors.New("only other names are answered")

// isOfTheName reports whether err says something about the keys of one name only: the query of any other may work.
func isOfTheName(err error) bool { return failure.OfTheName(err) || errors.Is(err, protocol.ErrReply) }

// round is a query of many names at the same time.
type round struct {
	client     *fairsem.Client
	lag        time.Duration // from the last answer on, late ones are waited for that long
	late       *time.Timer
	stop       context.CancelCauseFunc
	all        []fairsem.Status
	unreadable []error

	answered, read atomic.Bool // a name was answered, and by more than an error that says nothing of its keys
	fail           sync.Once   // guards failed
	failed         error
}

// statuses queries each name, and waits for late answers for at most lag. An error of one name does not affect the others. If no
// query got as far as the keys of its name, such as with a wrong password, the first error is that of all: nothing is known of the
// units in use then.
func statuses(ctx context.Context, client *fairsem.Client, names []string, lag time.Duration) (all []fairsem.Status, unreadable []error, err error) {
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &round{client: client, lag: lag, stop: stop, all: make([]fairsem.Status, len(names)), unreadable: make([]error, len(names))}
	r.late = time.AfterFunc(math.MaxInt64, func() { stop(errLate) }) // set by the first answer
	defer r.late.Stop()
	var running sync.WaitGroup
	room := make(chan struct{}, maxParallel)
	for i, name := range names {
		room <- struct{}{}
		leave := sync.OnceFunc(func() { <-room })
		patience := time.AfterFunc(roomTimeout, leave)
		running.Go(func() { // ends with its query; waited for below
			r.query(within, i, name)
			patience.Stop()
			leave()
		})
	}
	running.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, nil, context.Cause(ctx)
	case len(names) > 0 && !r.read.Load():
		return nil, nil, r.failed
	}
	return r.all, r.unreadable, nil
}

// query queries the name that has the place i.
func (r *round) query(ctx context.Context, i int, name string) {
	status, err := r.client.Inspect(name).Status(ctx)
	if errors.Is(err, errLate) {
		// Without how long there was no answer: a text that does not change is shown once.
		err = failure.Reworded(err, "fairsem: status %q: %v", name, errLate)
	}
	r.all[i], r.unreadable[i] = status, err
	if err == nil || isOfTheName(err) {
		r.read.Store(true)
	} else {
		r.fail.Do(func() { r.failed = err })
	}
	switch {
	case ctx.Err() == nil && !errors.Is(err, fairsem.ErrUnavailable):
		r.answered.Store(true)
		r.late.Reset(r.lag)
	case !r.answered.Load():
		r.stop(err) // a server that is down answers nothing else either
	}
}

// Detail is the state of a name, with its holders, waiters and tenants.
type Detail struct {
	fairsem.Status
	Tenants                  Tenants
	Holders, Waiters         []fairsem.Ticket // in the order of their tokens, and of the queue
	MoreHolders, MoreWaiters int64            // how many more there are
}

// QueryDetail queries one name, with at most so many holders, waiters and tenants each. Its parts are of slightly different
// moments. It reads all tenants.
func QueryDetail(ctx context.Context, client *fairsem.Client, name string, most int) (Detail, error) {
	return queryDetail(ctx, client, name, most, math.MaxInt)
}

// PollDetail is QueryDetail for a query that is repeated: it bounds how many tenants it reads.
func PollDetail(ctx context.Context, client *fairsem.Client, name string, most int) (Detail, error) {
	return queryDetail(ctx, client, name, most, max(most, maxTenants))
}

func queryDetail(ctx context.Context, client *fairsem.Client, name string, most, read int) (d Detail, err error) {
	if d, err = QueryTickets(ctx, client, name, most); err != nil {
		return d, err
	}
	d.Tenants, err = queryTenants(ctx, client, name, most, read)
	return d, err
}

// QueryTickets is QueryDetail without the tenants. The queue is read first, so that a waiter that is granted meanwhile is seen twice
// rather than never, and counts as a holder.
func QueryTickets(ctx context.Context, client *fairsem.Client, name string, most int) (d Detail, err error) {
	there := client.Inspect(name)
	if d.Waiters, err = collect(there.Waiters(ctx), most); err != nil {
		return d, err
	}
	if d.Holders, err = collect(there.Holders(ctx), most); err != nil {
		return d, err
	}
	if d.Status, err = there.Status(ctx); err != nil {
		return d, err
	}
	held := make(map[string]bool, len(d.Holders))
	for _, h := range d.Holders {
		held[h.ID] = true
	}
	moreWaiters := len(d.Waiters) >= most
	d.Waiters = slices.DeleteFunc(d.Waiters, func(w fairsem.Ticket) bool { return held[w.ID] })
	if len(d.Holders) >= most {
		d.MoreHolders = max(0, d.Status.Holders-counted(d.Holders))
	}
	if moreWaiters {
		d.MoreWaiters = max(0, d.Waiting-counted(d.Waiters))
	}
	return d, nil
}

// counted is how many tickets a Status counts: an expired one is listed, but not counted.
func counted(all []fairsem.Ticket) (n int64) {
	for _, t := range all {
		if t.ExpiresIn > 0 {
			n++
		}
	}
	return n
}

// Collect returns all values, or the error.
func Collect[T any](seq iter.Seq2[T, error]) ([]T, error) { return collect(seq, math.MaxInt) }

// collect returns the first values, at most so many, or the error.
func collect[T any](seq iter.Seq2[T, error], most int) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		if all = append(all, v); len(all) == most {
			break
		}
	}
	return all, nil
}

// Rates computes how fast names grant, from their status at different moments. The zero value is ready.
type Rates struct {
	at      time.Time
	granted map[string]int64
}

// Add takes the status of all names at a moment, and returns the grants a second of each since the previous call; none
// for a name that was not in that.
func (r *Rates) Add(at time.Time, all []fairsem.Status) map[string]float64 {
	passed := at.Sub(r.at).Seconds()
	granted, rates := make(map[string]int64, len(all)), make(map[string]float64, len(all))
	for _, s := range all {
		granted[s.Name] = s.Granted
		before, ok := r.granted[s.Name]
		if s.Granted < before { // Redis forgot the name, and counts from the start
			before = 0
		}
		if ok && passed > 0 {
			rates[s.Name] = float64(s.Granted-before) / passed
		}
	}
	r.at, r.granted = at, granted
	return rates
}
