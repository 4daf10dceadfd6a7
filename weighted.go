package fairsem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Weighted has the methods of the type of this name in golang.org/x/sync/semaphore, on a limit that
// processes share: code that uses the one goes over to the other where it makes it.
//
//	sem := semaphore.NewWeighted(10)           // at most 10 in this process
//	sem, err := client.Weighted("uploads", 10) // at most 10 in all processes together
//
// Units are given back in any split, whatever they were acquired in. What a handle has acquired is to
// be released with that handle. Its methods may be called from any goroutine.
//
// One thing changes for the caller: units are held on a lease, and a lease can be lost, to a pause or
// to a network that is down, see [ErrLost]. These methods have no way to say so; [Weighted.Err] and
// [Weighted.OnLost] do. Who needs a context that ends with the loss, or a token, uses [Semaphore].
type Weighted struct {
	*Inspector
	sem *Semaphore

	mu     sync.Mutex
	held   heldPermits // none that is known to be lost
	total  int64       // units that the caller has, with those that were lost
	lost   int64       // of these
	onLost func(n int64, err error)

	lossMu    sync.Mutex    // is locked with any other lock held, and none after it
	endings   []*heldPermit // that were lost, and are not reported
	reporting bool          // a goroutine of the client reports them
}

// stake is what the caller has of one permit.
type heldPermit struct {
	permit *Permit
	units  int64 // 0: it was given back
	lost   bool
	index  int // among those of as many units
}

// stakes are what the caller has, by how many units each has.
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

// best is the stake to give n units back of: one of as many, or else the largest that can go as a
// whole, or else the smallest, of which some is kept. There has to be one.
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

// Weighted returns a handle on the semaphore of that name with the methods of x/sync's. What stands at
// [Client.Semaphore] of names and limits is true of it, too: n is declared for everybody. As in x/sync n may be
// 0, which pauses the name: only zero units are granted, and calls for more wait until a later declaration or
// [Inspector.SetLimit] raises the limit. The error is [ErrInvalid], also for n < 0, where x/sync panics.
func (c *Client) Weighted(name string, n int64) (*Weighted, error) {
	s, err := c.semaphore(name, n, 0)
	if err != nil {
		return nil, err
	}
	return &Weighted{Inspector: s.Inspector, sem: s, held: make(heldPermits)}, nil
}

// Acquire waits until n units are free and everybody who asked before has been served. Zero units are
// had at once, without asking Redis; fewer panic.
//
// When ctx ends the error is ctx.Err(), a done ctx wins over free units, and nothing is held: what was
// in line, or granted meanwhile, is given back in the background, so a TryAcquire right after it
// may still find it in its way. Other errors, which x/sync does not have, are [ErrEvicted], [ErrClosed],
// [ErrUnavailable], [ErrInvalid] for a ctx that is nil, or what Redis said that trying again cannot heal.
//
// A call for more than the limit waits for the end of ctx and holds up nobody. It stands in no line. A
// limit can grow, though, so it asks again every third of a TTL, or of 10 s if that is shorter, and once
// it can be served goes to the end of the line. The same happens to a call in line that becomes too
// large for a limit that was lowered.
func (w *Weighted) Acquire(ctx context.Context, n int64) error {
	mustNotBeNegative(n)
	switch {
	case ctx == nil:
		return nilContext("acquire", w.sem.name)
	case n == 0:
		return ctx.Err()
	}
	for {
		p, err := w.sem.Acquire(ctx, n)
		switch {
		case err == nil:
			w.hold(p)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case n <= maxUnits && !errors.Is(err, ErrExceedsLimit):
			return err
		}
		switch err := w.sem.client.goroutines.sleep(ctx, w.timeout()/3); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return wrap("acquire", w.sem.name, err)
		}
	}
}

// patience is how long calls without a context wait for Redis at the most.
func (w *Weighted) timeout() time.Duration { return min(w.sem.client.ttl, defaultTTL) }

// TryAcquire takes n units, without waiting in line, and reports whether it has them. It is false if
// they are not free, if anybody waits for some, and if Redis has not said otherwise within a TTL, or
// within 10 s if that is shorter. What it cannot return is told as [UnreturnedEvent]. Zero units are had
// always; fewer panic.
func (w *Weighted) TryAcquire(n int64) bool {
	mustNotBeNegative(n)
	if n == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(background, w.timeout())
	defer cancel()
	p, err := w.sem.TryAcquire(ctx, n)
	if err != nil {
		if !errors.Is(err, ErrNotAcquired) && !errors.Is(err, ErrExceedsLimit) {
			w.sem.client.events.unreturned(w.sem.name, "try-acquire", n, err)
		}
		return false
	}
	w.hold(p)
	return true
}

// hold gives the units of a permit to the caller.
func (w *Weighted) hold(p *Permit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &heldPermit{permit: p, units: p.ticket.weight}
	w.total += s.units
	w.held.add(s)
	p.onLoss(func() { w.noteLoss(s) })
}

// Release gives n units back. It panics if the caller does not have so many, or if n is negative.
//
// Units that were lost go first, for they are nobody's to give back. For the others it returns when
// Redis has confirmed it, so that whoever asks next finds them free, or after a TTL, or 10 s if that is
// shorter: then it goes on in the background, and what does not get through comes back one TTL
// after the last renewal of the permit that the units are of.
func (w *Weighted) Release(n int64) {
	mustNotBeNegative(n)
	parts := w.take(n)
	if len(parts) == 0 {
		return
	}
	for i := range parts {
		parts[i].send()
	}
	enough := make(chan struct{})
	timer := time.AfterFunc(w.timeout(), func() { close(enough) })
	defer timer.Stop()
	for _, p := range parts {
		switch err := p.await(enough); {
		case errors.Is(err, ErrLost):
			w.tell(p.units)
		case err != nil:
			w.sem.client.events.unreturned(w.sem.name, "release", p.units, err)
		}
	}
}

// givingBack is what one Release gives back of one permit.
type givingBack struct {
	permit *Permit
	units  int64
	part   bool            // the caller keeps some
	taken  <-chan struct{} // of a part: closed when Redis has taken it
}

func (g *givingBack) send() {
	if g.part {
		g.taken = g.permit.ticket.state.reduce(g.permit.ticket, g.units)
	} else {
		g.permit.leave()
	}
}

// await waits until Redis has taken the units, or until enough is closed. It is ErrLost if they were lost
// before.
func (g *givingBack) await(enough <-chan struct{}) error {
	t := g.permit.ticket
	if !g.part && errors.Is(g.permit.ended(), ErrLost) {
		return ErrLost
	}
	select {
	case <-g.taken:
		return nil
	case <-t.released:
		if g.part {
			return nil // the rest was lost, or given back
		}
		return t.releaseErr
	case <-enough:
		return errNoAnswer
	}
}

// take takes n units from the caller and returns what is to be given back for them.
func (w *Weighted) take(n int64) (all []givingBack) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > w.total {
		panic("fairsem: released more than held")
	}
	w.total -= n
	for n > 0 {
		if w.lost > 0 {
			some := min(n, w.lost)
			w.lost, n = w.lost-some, n-some
			continue
		}
		s := w.held.best(n)
		if s.permit.lost() {
			w.loseLocked(s)
			continue
		}
		some := min(n, s.units)
		n -= some
		w.held.remove(s)
		if s.units -= some; s.units > 0 {
			w.held.add(s)
		}
		all = append(all, givingBack{permit: s.permit, units: some, part: s.units > 0})
	}
	return all
}

// loseLocked counts the units of a stake among the lost.
func (w *Weighted) loseLocked(s *heldPermit) {
	w.held.remove(s)
	s.lost = true
	w.lost += s.units
}

// noteLoss is called when the permit of a stake was lost. Any lock may be held.
func (w *Weighted) noteLoss(s *heldPermit) {
	w.lossMu.Lock()
	defer w.lossMu.Unlock()
	w.endings = append(w.endings, s)
	if !w.reporting {
		w.reporting = w.sem.client.goroutines.start(lossReports, w.report) // ends when all is reported
	}
}

// report tells the user of everything that was lost, in one call what came together.
func (w *Weighted) report() {
	for lost := w.takeEndings(); len(lost) > 0; lost = w.takeEndings() {
		if n := w.lose(lost); n > 0 {
			w.tell(n)
		}
	}
}

func (w *Weighted) takeEndings() (lost []*heldPermit) {
	w.lossMu.Lock()
	defer w.lossMu.Unlock()
	lost, w.endings = w.endings, nil
	w.reporting = len(lost) > 0
	return lost
}

// lose counts what the caller has of these stakes among the lost, if it is not yet, and returns how much that is: of what
// a Release has taken before, that Release tells.
func (w *Weighted) lose(all []*heldPermit) (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range all {
		if s.units > 0 && !s.lost {
			w.loseLocked(s)
		}
		n += s.units
	}
	return n
}

// Err returns an error that is [ErrLost] as long as the caller has units that were lost and that it has
// not released: somebody else may have them by now. Else it is nil. It looks at the clock, so it tells a
// process that was stopped and goes on the truth at once.
func (w *Weighted) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := w.lost
	for units, all := range w.held {
		for _, s := range all {
			if s.permit.lost() {
				lost += units
			}
		}
	}
	if lost == 0 {
		return nil
	}
	return wrap("hold", w.sem.name, fmt.Errorf("%w: %d of %d units", ErrLost, lost, w.total))
}

// OnLost has f called whenever units are lost that the caller has: with how many, and with an error
// that is [ErrLost]. It comes before Redis can let the next one in, or after an eviction at once, as the
// end of [Permit.Context] does, from one goroutine of the Client, which reports in one call what is lost at the same
// time or while f runs: an f that takes long is late for what is lost next. It may also come from the Release that found
// out, which then gave nothing back. f replaces the function that was there before. What was lost until then it is not
// told. [Client.Close] waits some seconds for f, so f must not call it.
func (w *Weighted) OnLost(f func(n int64, err error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onLost = f
}

func (w *Weighted) tell(n int64) {
	w.mu.Lock()
	f := w.onLost
	w.mu.Unlock()
	if f != nil {
		f(n, wrap("hold", w.sem.name, fmt.Errorf("%w: %d units", ErrLost, n)))
	}
}

func mustNotBeNegative(n int64) {
	if n < 0 {
		panic("fairsem: n < 0")
	}
}
