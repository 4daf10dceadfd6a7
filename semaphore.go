package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem/internal/protocol"
)

// Semaphore is a handle on a semaphore in Redis. It is safe for concurrent use. Status, Holders, Waiters, Tenants, SetLimit,
// ResetLimit and Evict are methods of its [Inspector]. Where no process has declared a limit, Status has that of the handle.
type Semaphore struct {
	*Inspector
	opts *CallOptions // never written, as tickets have it, too; nil: none
}

var noOptions CallOptions

func (s *Semaphore) options() *CallOptions { return cmp.Or(s.opts, &noOptions) }

// Semaphore returns a handle on the semaphore of that name, of which at most limit units are in use at once: 1 to 2^53-1. It does no
// I/O, and thousands of handles are fine. The name may be any 1 to 512 bytes, and must not start with "}".
//
// The limit belongs to the semaphore: the declaration that this client makes with its first operation replaces those that other
// clients made before, and stays until a later client declares another limit, or Redis forgets the idle name: see
// [Client.List]. A client that returns to a limit it has declared before does not declare it again. It remembers at least
// 16,384 limits; beyond that, a changed limit may not be declared. A lower limit revokes no permit; no new permit is granted
// until enough units are released.
//
// The error is [ErrInvalid].
func (c *Client) Semaphore(name string, limit int64) (*Semaphore, error) {
	return c.semaphore("semaphore", name, limit, 1)
}

// semaphore is Semaphore for a limit of at least least; kind is how its caller is named in errors.
func (c *Client) semaphore(kind, name string, limit, least int64) (*Semaphore, error) {
	if err := c.check(); err != nil {
		return nil, wrap(kind, name, err)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if limit < least || limit > protocol.MaxUnits {
		return nil, wrap(kind, name, fmt.Errorf("%w: limit %d is not between %d and %d", ErrInvalid, limit, least, int64(protocol.MaxUnits)))
	}
	return &Semaphore{Inspector: &Inspector{client: c, name: name, spec: protocol.LimitSpec{Limit: limit}}}, nil
}

// With returns a handle on the same semaphore whose calls have these options instead of those of s. With options that can
// never work, Acquire, TryAcquire and Do return [ErrInvalid].
func (s *Semaphore) With(o CallOptions) *Semaphore {
	if s == nil {
		return &Semaphore{opts: &o}
	}
	return &Semaphore{s.of(o.account()), &o}
}

// Acquire waits until n units, at least 1, are free and all earlier calls of the same tenant have been granted, and returns the
// permit for them. The order is first come, first served, whatever the weights: a large request at the head of the queue blocks
// the small ones behind it. All calls belong to one tenant unless CallOptions.Tenant names others; that field describes which
// tenant is next. The caller must release the permit: until it does, or the Client is closed, the permit is renewed for as long
// as the process lives.
//
// With a done ctx it fails at once and sends nothing. If ctx ends while the call waits, Acquire returns within 50 ms, with an
// error that wraps ctx.Err() and [context.Cause]. The error is also [ErrUnavailable] if Redis has never answered the call, or if
// its last query has been unanswered for 100 ms or for half the time since the call began, whichever is shorter. The position in
// the queue, or a permit that was granted meanwhile, is released in the background. The position expires if, for two thirds of a
// TTL, the process or Redis is paused or the two cannot reach each other. The call then rejoins at the end of the queue. It does
// the same if the limit was below n when its turn came but no longer is when the process is notified.
//
// Other errors are [ErrNotAcquired] after CallOptions.MaxWait, [ErrExceedsLimit], [ErrQueueFull], [ErrEvicted],
// [ErrInvalid], [ErrClosed], [ErrUnavailable], or an error of Redis that a retry cannot heal, such as a missing right. After any
// error the caller holds nothing, and its remaining entries in Redis expire within a TTL.
func (s *Semaphore) Acquire(ctx context.Context, n int64) (*Permit, error) {
	return s.acquire(ctx, "acquire", n, inQueue)
}

// TryAcquire is Acquire without waiting in the queue: if n units are not free, or if other calls wait, it returns
// [ErrNotAcquired]. Where tenants share the name, waiting calls of other tenants matter only if one of those tenants is next.
// It also returns ErrNotAcquired if the tenant would exceed its TenantLimit. It waits for the answer of Redis, for as long as
// ctx allows: for a TTL at most if there is none, and for the end of Options.Grace.
func (s *Semaphore) TryAcquire(ctx context.Context, n int64) (*Permit, error) {
	return s.acquire(ctx, "try-acquire", n, atOnce)
}

// Do runs fn while it holds n units, which it releases when fn returns or panics. The context of fn has the values of ctx
// and ends with ctx or with the permit, whichever comes first; [context.Cause] says which. As with [Permit.Context], its Err
// reports a loss at the first call, and contexts derived from it follow within a second. The result joins the errors of fn and
// of the release, so it is [ErrLost] if the permit was lost while fn ran.
func (s *Semaphore) Do(ctx context.Context, n int64, fn func(context.Context) error) error {
	return s.do(ctx, "do", n, fn)
}

// do is Do; op is how its caller is named in errors.
func (s *Semaphore) do(ctx context.Context, op string, n int64, fn func(context.Context) error) (err error) {
	if s == nil || s.Inspector == nil {
		return wrap(op, "", errNoClient)
	}
	if fn == nil {
		return wrap(op, s.name, fmt.Errorf("%w: the function is nil", ErrInvalid))
	}
	p, err := s.acquire(ctx, op, n, inQueue)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Release(ctx)) }()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(p.Context(), func() { cancel(context.Cause(p.Context())) })
	defer stop()
	return fn(leaseContext{inner, &p.ticket.hold, cancel})
}

// waitMode is the event that a call waits for.
type waitMode int

const (
	atOnce    waitMode = iota // for the answer of Redis, as TryAcquire
	inQueue                   // for its turn, as Acquire
	untilFits                 // for the limit to grow, too, as Weighted.Acquire
)

// acquire is Acquire, or a call that waits for something else; op is how its caller is named in errors.
func (s *Semaphore) acquire(ctx context.Context, op string, n int64, mode waitMode) (*Permit, error) {
	t, err := s.obtain(ctx, op, n, mode)
	if err != nil {
		return nil, err
	}
	return &Permit{ticket: t}, nil
}

// obtain returns a ticket that has its permit. Beside an error it returns the ticket that was not granted, if there was one.
func (s *Semaphore) obtain(ctx context.Context, op string, n int64, mode waitMode) (*ticket, error) {
	if err := s.check(ctx, n, op); err != nil {
		return nil, err
	}
	if s.client.events.begin() {
		defer s.client.events.end()
	}
	asked := time.Now()
	for {
		t, err := s.client.ask(ctx, s, n, mode != atOnce, asked)
		if err == nil {
			err = s.await(ctx, t, s.options().latest(asked))
		}
		if mode != atOnce && t.refused { // it would have waited in vain
			err = &WaitError{t.quoted.retry}
		}
		if mode == untilFits && errors.Is(err, ErrExceedsLimit) && ctx.Err() == nil {
			if err = s.sleep(ctx, s.client.brief()/3, s.options().latest(asked)); err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, errPositionLost):
			t.reportPositionLost(s.client.events)
		default:
			err = wrap(op, s.name, s.options().explain(err, n, s.spec.Limit))
			t.reportNotAcquired(s.client.events, s.name, err)
			return t, err
		}
	}
}

// sleep waits for d. The error is [ErrNotAcquired] if the time latest comes first.
func (s *Semaphore) sleep(ctx context.Context, d time.Duration, latest time.Time) error {
	late := !latest.IsZero() && time.Until(latest) < d
	if late {
		d = time.Until(latest)
	}
	err := s.client.goroutines.Sleep(ctx, d)
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case err == nil && late:
		return errLate
	}
	return err
}

// await waits for the outcome of a ticket. It gives the ticket up if ctx ends first, if the time latest passes, or if the
// permit was lost before the caller received it.
func (s *Semaphore) await(ctx context.Context, t *ticket, latest time.Time) error {
	var late <-chan time.Time
	if !latest.IsZero() {
		timer := time.NewTimer(time.Until(latest))
		defer timer.Stop()
		late = timer.C
	}
	isLate := false
	select {
	case <-t.done:
	case <-ctx.Done():
	case <-late:
		isLate = !t.isDone()
	}
	if err := ended(ctx); err != nil {
		return withDoubt(err, t.state.leaveUngranted(t))
	}
	if isLate {
		return withDoubt(errLate, t.state.leaveUngranted(t))
	}
	if t.err != nil {
		t.refused = errors.Is(t.err, ErrNotAcquired)
		return t.err
	}
	if !s.claim(t) {
		t.state.leave(t) // the client was closed, or this goroutine stood still for nearly a TTL
		if errors.Is(t.hold.ended(), ErrEvicted) {
			return ErrEvicted // an evicted permit is not to be acquired again
		}
		return errPositionLost
	}
	if t.countsInWindow() && !t.state.removeRateGrant(t) {
		return errPositionLost
	}
	return nil
}

// claim passes the permit of t to its caller, unless it has ended.
func (s *Semaphore) claim(t *ticket) bool {
	if t.observed && !t.countsInWindow() {
		return t.hold.claim(func() { t.reportGranted(s.client.events) })
	}
	return t.hold.claim(nil)
}

// check does all checks that need no I/O.
func (s *Semaphore) check(ctx context.Context, n int64, op string) error {
	if s == nil || s.Inspector == nil {
		return wrap(op, "", errNoClient)
	}
	if ctx == nil {
		return nilContext(op, s.name)
	}
	if n < 1 || n > protocol.MaxUnits {
		return wrap(op, s.name, fmt.Errorf("%w: weight %d is not between 1 and %d", ErrInvalid, n, int64(protocol.MaxUnits)))
	}
	if err := s.options().check(); err != nil {
		return wrap(op, s.name, err)
	}
	if s.options().Numbered && (n > protocol.MaxNumbers || s.spec.Window > 0) {
		return wrap(op, s.name, fmt.Errorf("%w: Numbered is not for a Limiter, nor for a weight above %d", ErrInvalid, protocol.MaxNumbers))
	}
	if limit := s.options().TenantLimit; limit > 0 && n > limit {
		return wrap(op, s.name, fmt.Errorf("%w: %d is more than the TenantLimit %d of tenant %q", ErrExceedsLimit, n, limit, s.options().Tenant))
	}
	return wrap(op, s.name, ended(ctx))
}

// ask opens a ticket. The error is [ErrClosed]; the ticket that comes with it was never sent.
func (c *Client) ask(ctx context.Context, s *Semaphore, n int64, wait bool, asked time.Time) (*ticket, error) {
	t := &ticket{
		seq:      c.lastSeq.Add(1),
		weight:   n,
		opts:     s.options(),
		spec:     s.spec,
		ttl:      cmp.Or(s.options().TTL, c.ttl),
		waits:    wait,
		observed: c.events.wants(ctx),
		asked:    asked,
		values:   ctx,
		done:     make(chan struct{}),
	}
	if wait && s.spec.Window > 0 && t.opts.HeadStart == 0 { // with a head start its turn is not known beforehand
		t.waitUntil = t.opts.cutShort(ctx, asked)
	}
	t.id = c.keyspace.TicketID(t.seq, s.options().Tenant, s.options().Numbered)
	for {
		v, err := c.stateOf(s.name)
		if err != nil {
			return t, err
		}
		if v.open(t) {
			c.announce(asked, t.ttl)
			return t, nil
		}
	}
}
