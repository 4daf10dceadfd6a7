package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Request is a number of units of one semaphore, for [AcquireAll].
type Request struct {
	sem    *Semaphore
	weight int64
}

// Request returns a request for n units, for [AcquireAll]. It does no I/O.
func (s *Semaphore) Request(n int64) Request { return Request{s, n} }

// Permits are the permits that [AcquireAll] returned. Its methods may be called from any goroutine.
type Permits struct {
	_        [0]func()
	list     []*Permit       // in the order of the requests
	acquired []*Permit       // in the order in which they were acquired
	ctx      context.Context // ends with the first of them
	cancel   context.CancelCauseFunc
}

// AcquireAll waits until all requests are granted, and returns their permits. The requests may be for semaphores and locks, and of
// several Clients. The caller must release the permits.
//
// It acquires one after the other, in the order of the names and then of Options.Prefix, whatever the order of the arguments.
// So callers of AcquireAll never wait for each other in a circle, in all processes together. A caller that already holds other
// permits can still wait in a circle.
//
// While the call waits for one request it holds the permits of those before it: their units are held but idle, and other calls
// wait for them. So name the limit that the fewest calls share such that it sorts first. Each request takes a round trip, one
// after the other.
//
// Each request has the CallOptions of its handle. MaxWait bounds the wait for its own units; ctx bounds all waits together. While
// the call waits for later requests, the lease of a permit with NoRefresh runs down, and so does that of a permit whose server
// does not answer. Less than a tenth of a TTL may be left of such a lease when AcquireAll returns.
//
// If a request fails, the permits of all others are released in the background, and the error is that of Acquire for this request.
// If a permit is lost while the call waits for a later one, the error is [ErrLost] at once. The error is
// [ErrInvalid], and nothing is sent, without any request, and if two have the same name and Prefix. On one server the second would
// wait for the first: request all units of a name together. On two servers no order is the same in all processes: use
// another name or Prefix on one of them.
//
// A [Limiter] has no requests, because its grants are never released. Call it when AcquireAll has returned.
func AcquireAll(ctx context.Context, requests ...Request) (*Permits, error) {
	order, err := inOrder(ctx, requests)
	if err != nil {
		return nil, err
	}
	p := &Permits{list: make([]*Permit, len(requests))}
	p.ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	wait, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	detach := context.AfterFunc(p.ctx, func() { stop(context.Cause(p.ctx)) })
	defer detach()
	done := false
	defer func() { // also after a panic of a context or of the logger
		if !done {
			p.leave()
		}
	}()
	for _, i := range order {
		if err := p.acquire(wait, i, requests[i]); err != nil {
			return nil, err
		}
	}
	done = true
	return p, nil
}

const opAcquireAll = "acquire-all" // in errors

// inOrder checks the requests, and returns their indexes in the order in which to acquire them.
func inOrder(ctx context.Context, requests []Request) ([]int, error) {
	if len(requests) == 0 {
		return nil, wrap(opAcquireAll, "", fmt.Errorf("%w: there is no request", ErrInvalid))
	}
	order := make([]int, len(requests))
	for i, r := range requests {
		if err := r.sem.check(ctx, r.weight, opAcquireAll); err != nil {
			return nil, err
		}
		order[i] = i
	}
	compare := func(a, b int) int { return requests[a].compare(requests[b]) }
	slices.SortFunc(order, compare)
	for i := range order[1:] {
		if s := requests[order[i]].sem; compare(order[i], order[i+1]) == 0 {
			return nil, wrap(opAcquireAll, s.name, fmt.Errorf("%w: two requests have this name and the prefix %q: request all its units together, "+
				"or, if they are on two servers, use another name or Prefix on one of them", ErrInvalid, s.client.keyspace.Prefix))
		}
	}
	return order, nil
}

// compare orders requests by properties that are the same in all processes.
func (r Request) compare(other Request) int {
	return cmp.Or(cmp.Compare(r.sem.name, other.sem.name), cmp.Compare(r.sem.client.keyspace.Prefix, other.sem.client.keyspace.Prefix))
}

// acquire acquires the i-th permit. The wait ends when one of those before it is lost.
func (p *Permits) acquire(wait context.Context, i int, r Request) error {
	one, err := r.sem.acquire(wait, opAcquireAll, r.weight, inQueue)
	if err == nil {
		p.add(i, one)
	}
	p.checkAll()
	switch cause := context.Cause(p.ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, ErrReleased): // the caller does not have them yet
		return wrap(opAcquireAll, r.sem.name, ErrClosed)
	default:
		return wrap(opAcquireAll, r.sem.name, cause)
	}
}

func (p *Permits) add(i int, one *Permit) {
	p.list[i], p.acquired = one, append(p.acquired, one)
	context.AfterFunc(one.Context(), func() { p.check(one) })
}

// check ends the common context if a permit has ended.
func (p *Permits) check(one *Permit) {
	if why := one.ticket.hold.check(); why != nil {
		p.cancel(wrap("hold", one.ticket.state.name, why))
	}
}

func (p *Permits) checkAll() {
	for _, one := range p.acquired {
		p.check(one)
	}
}

// leave is the half of Release that does not wait.
func (p *Permits) leave() {
	p.checkAll()
	p.cancel(ErrReleased)
	for _, one := range slices.Backward(p.acquired) {
		one.leave()
	}
}

// jointContext ends by the clock as well, as leaseContext does.
type jointContext struct {
	context.Context
	permits *Permits
}

func (c jointContext) Err() error {
	c.permits.checkAll()
	return c.Context.Err()
}

// Context is done as soon as any of the permits may no longer be relied on, and at the latest when they are released. Its cause, see
// [context.Cause], is then [ErrLost] or [ErrReleased]; after the end of a single permit it names the semaphore. Otherwise it is
// like [Permit.Context].
func (p *Permits) Context() context.Context { return jointContext{p.mustExist().ctx, p} }

// List returns the permits in the order of the requests. The release of one of them ends Context.
func (p *Permits) List() []*Permit { return slices.Clone(p.mustExist().list) }

// mustExist panics with a clear message for the value that a failed call returns beside its error.
func (p *Permits) mustExist() *Permits {
	if p == nil || p.cancel == nil {
		panic("fairsem: there are no permits: check the error of AcquireAll")
	}
	return p
}

// Release releases all permits, in the reverse of the order in which they were acquired. Like [Permit.Release] it may be called
// any number of times and waits for at most a second, for all permits together. It releases all even if one fails, and
// joins the errors.
func (p *Permits) Release(ctx context.Context) error {
	if p == nil || p.cancel == nil {
		return fmt.Errorf("%w: release: there are no permits: check the error of AcquireAll", ErrInvalid)
	}
	if ctx == nil {
		return nilContext("release", p.list[0].ticket.state.name)
	}
	p.leave()
	var all []error
	wait := p.list[0].ticket.state.host.awaitReleases(ctx)
	for _, one := range slices.Backward(p.acquired) {
		all = append(all, wrap("release", one.ticket.state.name, wait.of(one.ticket, nil)))
	}
	return errors.Join(all...)
}
