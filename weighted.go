package fairsem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Weighted has the methods of the type of the same name in golang.org/x/sync/semaphore, for a limit that processes share. Code
// that uses that type needs to change one line, where it is created:
//
//	sem := semaphore.NewWeighted(10)           // at most 10 in this process
//	sem, err := client.Weighted("uploads", 10) // at most 10 in all processes together
//
// Units may be released in any split, however they were acquired. Units acquired with a handle must be released with the
// same handle. Its methods may be called from any goroutine.
//
// One thing differs: units are held on a lease, and a lease can be lost to a pause or a network outage, see [ErrLost]. These
// methods cannot return that; [Weighted.Err] and [Weighted.OnLost] report it. For a context that ends with the loss, or a
// fencing token, use [Semaphore].
type Weighted struct {
	*Inspector
	sem *Semaphore

	mu     sync.Mutex
	held   heldPermits // without those that are known to be lost
	total  int64       // units of the caller, including lost ones
	lost   int64       // units that were lost
	why    error       // how they were lost; nil: none were
	onLost func(n int64, err error)

	lossMu    sync.Mutex
	endings   []*heldPermit // lost and not yet reported
	reporting bool          // a goroutine of the client reports them
}

// heldPermit is the units of one permit that the caller holds.
type heldPermit struct {
	permit *Permit
	units  int64 // 0: released
	lost   bool
	index  int // among those with as many units
}

// heldPermits are all that the caller holds, by their number of units.
type heldPermits map[int64][]*heldPermit

func (all heldPermits) add(s *heldPermit) {
	s.index = len(all[s.units])
	all[s.units] = append(all[s.units], s)
}

func (all heldPermits) remove(s *heldPermit) {
	alike := all[s.units]
	last := len(alike) - 1
	if last == 0 {
		delete(all, s.units)
		return
	}
	alike[s.index] = alike[last]
	alike[s.index].index = s.index
	all[s.units] = slices.Delete(alike, last, last+1)
}

// best returns the permit from which to release n units: one with exactly n units, else the largest that is released as a
// whole, else the smallest, of which a part is released. There must be one.
func (all heldPermits) best(n int64) *heldPermit {
	below, above := int64(0), int64(math.MaxInt64)
	if len(all[n]) > 0 {
		below = n
	} else {
		for units := range all {
			if units < n {
				below = max(below, units)
			} else {
				above = min(above, units)
			}
		}
	}
	alike := all[above]
	if below > 0 {
		alike = all[below]
	}
	return alike[len(alike)-1]
}

// Weighted returns a handle on the semaphore of that name with the methods of x/sync's. Names and limits are as for
// [Client.Semaphore]: n is declared for all processes. As in x/sync n may be 0, which pauses the name: only zero units are
// granted, and calls for more wait until a later declaration or [Inspector.SetLimit] raises the limit. The error is
// [ErrInvalid], also for n < 0, where x/sync panics.
func (c *Client) Weighted(name string, n int64) (*Weighted, error) {
	s, err := c.semaphore("weighted", name, n, 0)
	if err != nil {
		return nil, err
	}
	return &Weighted{Inspector: s.Inspector, sem: s, held: make(heldPermits)}, nil
}

// With returns a handle on the same semaphore whose calls have these options. The new handle holds nothing. Units acquired with
// it must be released with it, not with w. So each tenant needs its own Weighted.
func (w *Weighted) With(o CallOptions) *Weighted {
	if w == nil || w.sem == nil {
		return new(Weighted)
	}
	s := w.sem.With(o)
	return &Weighted{Inspector: s.Inspector, sem: s, held: make(heldPermits)}
}

// Acquire waits until n units are free and all earlier calls of the same tenant have been granted. Zero units are granted at once,
// without asking Redis; a negative n panics.
//
// When ctx ends the error is ctx.Err(), and nothing is held. A done ctx wins over free units. The position in the queue, or a permit
// granted meanwhile, is released in the background, so a TryAcquire right after it may still be refused because of it.
// Other errors, which x/sync does not have, are [ErrEvicted], [ErrClosed], [ErrUnavailable], [ErrInvalid] for a nil ctx or for options that
// cannot work, [ErrQueueFull], or an error of Redis that a retry cannot heal.
//
// A call for more than the limit waits for the end of ctx and blocks no other call, because it is not in the queue. But a limit
// can grow, so it asks again every third of a TTL, or of 10 s if that is shorter, and joins the end of the queue once it can be
// granted. The same happens to a waiter that becomes too large for a limit that was lowered, and to a call for more than the
// limit of its tenant. A call for more than the TenantLimit of its own handle, see [Weighted.With], asks nothing and always waits
// for the end of ctx: only another handle can have a higher one. CallOptions.MaxWait bounds all these waits, with
// [ErrNotAcquired].
func (w *Weighted) Acquire(ctx context.Context, n int64) error {
	mustNotBeNegative(n)
	switch {
	case w == nil || w.sem == nil:
		return wrap("acquire", "", errNoClient)
	case ctx == nil:
		return nilContext("acquire", w.sem.name)
	case n == 0:
		return ctx.Err()
	}
	asked := time.Now()
	p, err := w.sem.acquire(ctx, "acquire", n, untilFits)
	if n > protocol.MaxUnits || errors.Is(err, ErrExceedsLimit) { // nothing was asked, because no limit can grow so far
		err = wrap("acquire", w.sem.name, w.sem.sleep(ctx, math.MaxInt64, w.sem.options().latest(asked)))
	}
	switch {
	case err == nil:
		w.hold(p)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// brief is a TTL, and at most 10 s: the timeout of calls without a context, and three times the wait between the tries of calls above the limit.
func (c *Client) brief() time.Duration { return min(c.ttl, defaultTTL) }

// TryAcquire acquires n units without waiting in the queue, and reports whether it did. It returns false if they are not free, if
// other calls wait, of which those of other tenants count as in [Semaphore.TryAcquire], and if Redis does not answer within a
// TTL, or within 10 s if that is shorter. An error that it cannot return is reported as an [UnreturnedEvent]. Zero units are always
// granted; a negative n panics.
func (w *Weighted) TryAcquire(n int64) bool {
	mustNotBeNegative(n)
	if n == 0 {
		return true
	}
	if w == nil || w.sem == nil {
		panic("fairsem: TryAcquire of a zero Weighted: make it with Client.Weighted")
	}
	if w.sem.client.events.begin() { // until the error that it cannot return is reported
		defer w.sem.client.events.end()
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.sem.client.brief())
	defer cancel()
	p, err := w.sem.TryAcquire(ctx, n)
	if err != nil {
		refused := errors.Is(err, ErrNotAcquired) && !errors.Is(err, ErrUnavailable) // which it is, too, where MaxWait passed
		if !refused && !errors.Is(err, ErrExceedsLimit) {
			w.sem.client.events.unreturned(w.sem.name, w.sem.options().Tenant, "try-acquire", n, err)
		}
		return false
	}
	w.hold(p)
	return true
}

// hold adds the units of a permit to those of the caller.
func (w *Weighted) hold(p *Permit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &heldPermit{permit: p, units: p.ticket.weight}
	w.total += s.units
	w.held.add(s)
	p.ticket.hold.onLoss(func() { w.noteLoss(s) })
}

// Release releases n units. It panics if the caller does not hold that many, or if n is negative.
//
// Units that were lost count first, because they are no longer the caller's to release. For the others it returns once Redis
// has confirmed the release, so that the next caller finds them free, or after a second, because it is usually deferred. It then
// continues in the background, and units whose release does not get through are free one TTL after the last renewal of their permit.
func (w *Weighted) Release(n int64) {
	mustNotBeNegative(n)
	parts := w.deduct(n)
	if len(parts) == 0 {
		return
	}
	for i := range parts {
		parts[i].send()
	}
	for _, l := range w.confirm(parts) {
		w.notify(l.units, l.why)
	}
}

// unitLoss is the units that a Release found to be lost.
type unitLoss struct {
	units int64
	why   error
}

// confirm waits for the releases that were sent, reports those that failed, and returns the lost units. Close waits for it, but not for the
// function of the user that the losses are then reported to.
func (w *Weighted) confirm(parts []partialRelease) (lost []unitLoss) {
	if w.sem.client.events.begin() {
		defer w.sem.client.events.end()
	}
	wait := w.sem.client.awaitReleases(context.Background())
	for _, p := range parts {
		switch err := wait.of(p.permit.ticket, p.taken); {
		case errors.Is(err, ErrLost):
			lost = append(lost, unitLoss{p.units, err})
		case err != nil:
			w.sem.client.events.unreturned(w.sem.name, w.sem.options().Tenant, "release", p.units, err)
		}
	}
	return lost
}

// partialRelease is the part of one permit that one Release releases.
type partialRelease struct {
	permit *Permit
	units  int64
	part   bool            // the caller keeps some of its units
	taken  <-chan struct{} // of a part: closed when Redis has confirmed it
}

func (p *partialRelease) send() {
	if p.part {
		p.taken = p.permit.ticket.state.reduce(p.permit.ticket, p.units)
	} else {
		p.permit.leave()
	}
}

// deduct takes n units from those of the caller and returns the parts of permits to release for them.
func (w *Weighted) deduct(n int64) (all []partialRelease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > w.total {
		panic("fairsem: released more than held")
	}
	w.total -= n
	for n > 0 {
		if w.lost > 0 {
			some := min(n, w.lost)
			if w.lost, n = w.lost-some, n-some; w.lost == 0 {
				w.why = nil
			}
			continue
		}
		s := w.held.best(n)
		if s.permit.ticket.hold.lost() {
			w.loseLocked(s)
			continue
		}
		some := min(n, s.units)
		n -= some
		w.held.remove(s)
		if s.units -= some; s.units > 0 {
			w.held.add(s)
		}
		all = append(all, partialRelease{permit: s.permit, units: some, part: s.units > 0})
	}
	return all
}

// loseLocked counts the units of s among the lost.
func (w *Weighted) loseLocked(s *heldPermit) {
	w.held.remove(s)
	s.lost = true
	w.lost, w.why = w.lost+s.units, s.explain(w.why)
}

// explain returns how s and others were lost; why is that of the others, or nil. An eviction says more than another loss.
func (s *heldPermit) explain(why error) error {
	if how := s.permit.ticket.hold.ended(); why == nil || errors.Is(how, ErrEvicted) {
		return how
	}
	return why
}

// noteLoss is called when the permit of s was lost. Any lock may be held.
func (w *Weighted) noteLoss(s *heldPermit) {
	w.lossMu.Lock()
	defer w.lossMu.Unlock()
	w.endings = append(w.endings, s)
	if !w.reporting {
		w.startReportLocked()
	}
}

// report notifies the caller of everything that was lost; losses that come together are reported in one call.
func (w *Weighted) report() {
	done := false
	defer func() {
		if !done { // the function of the caller has ended the goroutine, as FailNow of a test does
			w.lossMu.Lock()
			defer w.lossMu.Unlock()
			w.startReportLocked()
		}
	}()
	for lost := w.takeEndings(); len(lost) > 0; lost = w.takeEndings() {
		if n, why := w.lose(lost); n > 0 {
			w.notify(n, why)
		}
	}
	done = true
}

func (w *Weighted) startReportLocked() {
	w.reporting = w.sem.client.goroutines.Start(goroutines.LossReports, w.report) // ends when all losses are reported
}

func (w *Weighted) takeEndings() (lost []*heldPermit) {
	w.lossMu.Lock()
	defer w.lossMu.Unlock()
	lost, w.endings = w.endings, nil
	w.reporting = len(lost) > 0
	return lost
}

// lose counts the units of these permits that the caller still holds among the lost, and returns how many they are, and how they were
// lost. Units that a Release has deducted before are reported by that Release.
func (w *Weighted) lose(all []*heldPermit) (n int64, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range all {
		if s.units == 0 {
			continue
		}
		if !s.lost {
			w.loseLocked(s)
		}
		n, why = n+s.units, s.explain(why)
	}
	return n, why
}

// Err returns an error that is [ErrLost] as long as the caller has units that were lost and that it has not released: they may
// have been granted to another caller. It is also [ErrEvicted] if any of them were evicted. Else it returns nil. It checks the clock, so
// a process that was stopped learns the truth at once when it continues.
func (w *Weighted) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	lost, why := w.lost, w.why
	for units, all := range w.held {
		for _, s := range all {
			if s.permit.ticket.hold.lost() {
				lost, why = lost+units, s.explain(why)
			}
		}
	}
	if lost == 0 {
		return nil
	}
	return wrap("hold", w.sem.name, fmt.Errorf("%w (%d of %d units)", why, lost, w.total))
}

// OnLost sets the function that is called when the caller loses units. n is their number; err is [ErrLost], and also [ErrEvicted] if any
// were evicted. The call begins before the units can be granted to anyone else; after an eviction, right after. Calls come from one
// goroutine at a time, except from a Release that discovers a loss: it did not release the units that were lost. Losses during a call are
// reported together in the next one. f replaces the previous function. It must not call [Client.Close], which waits some seconds for it.
func (w *Weighted) OnLost(f func(n int64, err error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onLost = f
}

func (w *Weighted) notify(n int64, why error) {
	w.mu.Lock()
	f := w.onLost
	w.mu.Unlock()
	if f != nil {
		f(n, wrap("hold", w.sem.name, fmt.Errorf("%w (%d units)", why, n)))
	}
}

func mustNotBeNegative(n int64) {
	if n < 0 {
		panic("fairsem: n < 0")
	}
}
