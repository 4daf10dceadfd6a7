// Package gate decides whether a request may proceed: it acquires the permit of the request, or counts it, and classifies
// errors. It is for packages that limit the requests that servers handle and that clients send.
package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/bridge"
	"github.com/fairsem/fairsem/internal/held"
)

// NoWait as [Gate.MaxWait] makes a request not wait in the queue.
const NoWait time.Duration = -1

// DefaultMaxWait is that of servers.
const DefaultMaxWait = time.Second

// AnswerWait is how long a request waits for the answer of Redis with NoWait.
const AnswerWait = time.Second

// Policy is the treatment of requests when Redis does not answer.
type Policy int

// The policies.
const (
	Refuse Policy = iota // let nothing through without a permit
	Admit                // let requests through without a permit
)

// Limit is a [*fairsem.Semaphore], a [*fairsem.Mutex] or a [*fairsem.Limiter].
type Limit interface {
	Name() string
	Status(ctx context.Context) (fairsem.Status, error)
}

// Gate limits requests of type R. L is the interface that the package of its user shows as Limit.
type Gate[R any, L Limit] struct {
	Who           string // makes this gate, such as fairsemhttp.Handler: for errors
	Limit         L
	LimitOf       func(R) (L, error) // instead of Limit, unless nil
	Weight        func(R) int64      // nil: 1 for all
	MaxWait       time.Duration      // 0: as long as the context allows; or NoWait
	AnswerWait    time.Duration      // with NoWait, for the answer of Redis; 0: AnswerWait
	Stays         bool               // no MaxWait in the CallOptions of the limit ends the wait
	OnUnavailable Policy
	OnAdmitted    func(R, error) // nil: none
}

// Grant is the permission for one request.
type Grant[L Limit] struct {
	Limit     L               // the zero value: LimitOf failed
	Permit    *fairsem.Permit // nil for a Limiter, and for a request that is admitted without one
	Remaining int64           // of a Limiter; below 0: not known
}

var errLate = fmt.Errorf("%w: MaxWait has passed", fairsem.ErrNotAcquired)

// Enter returns the grant for a request, and has its scope, whose parent is ctx, end with the permit. Beside an error, the grant
// has the limit of the request, if there is one, and its remaining units, if they are known.
func (g *Gate[R, L]) Enter(ctx context.Context, scope *held.Scope, r R) (Grant[L], error) {
	limit, err := g.limitOf(r)
	if err != nil {
		return Grant[L]{}, err
	}
	weight := int64(1)
	if g.Weight != nil {
		weight = g.Weight(r)
	}
	asked := limit
	if g.Stays {
		asked = bridge.WithoutMaxWait(limit).(L)
	}
	granted, err := g.acquire(scope, asked, weight)
	granted.Limit = limit
	if err != nil && g.OnUnavailable == Admit && VerdictOf(err) == Unavailable && ctx.Err() == nil {
		if g.OnAdmitted != nil {
			g.OnAdmitted(r, err)
		}
		return Grant[L]{Limit: limit, Remaining: -1}, nil
	}
	return granted, err
}

// Lend is Enter for a loan, which it begins with ctx and which then has the permit, if the request needs one. Beside an error, and
// after a panic of a function of the gate, the loan has ended.
func (g *Gate[R, L]) Lend(ctx context.Context, loan *held.Loan, r R) (Grant[L], error) {
	loan.Scope.Begin(ctx)
	lent := false
	defer func() {
		if !lent {
			loan.End()
		}
	}()
	granted, err := g.Enter(ctx, &loan.Scope, r)
	loan.Permit, lent = granted.Permit, err == nil
	return granted, err
}

func (g *Gate[R, L]) limitOf(r R) (none L, err error) {
	if g.LimitOf == nil {
		return g.Limit, nil
	}
	limit, err := g.LimitOf(r)
	if err != nil {
		return none, fmt.Errorf("%w: %s: LimitOf: %w", fairsem.ErrInvalid, g.Who, err)
	}
	return limit, checkLimit(g.Who, limit)
}

func (g *Gate[R, L]) acquire(scope *held.Scope, limit L, n int64) (Grant[L], error) {
	wait := g.MaxWait
	if wait == NoWait {
		wait = cmp.Or(g.AnswerWait, AnswerWait)
	}
	limiter, rate := any(limit).(*fairsem.Limiter)
	if rate {
		remaining, err := g.count(scope, wait, limiter, n)
		return Grant[L]{Remaining: remaining}, g.overdue(limit, err)
	}
	var timer *time.Timer
	if wait > 0 {
		timer = scope.EndAfter(wait, errLate)
	}
	p, err := g.hold(scope, limit, n)
	switch late := timer != nil && !timer.Stop(); {
	case err == nil && !late:
		scope.Bind(p)
		return Grant[L]{Permit: p, Remaining: -1}, nil
	case err == nil: // the scope has ended
		held.Release(p)
		err = errLate
	}
	return Grant[L]{}, g.overdue(limit, err)
}

// overdue returns the error of a call that MaxWait has ended: it wraps none of a context, whose caller has canceled nothing. Any other
// error it returns as it is.
func (g *Gate[R, L]) overdue(limit L, err error) error {
	unanswered := unansweredPart(err)
	switch {
	case !errors.Is(err, errLate):
		return err
	case unanswered != nil:
		return fmt.Errorf("%s: limit %q: %w: %w", g.Who, limit.Name(), errLate, unanswered)
	}
	return fmt.Errorf("%s: limit %q: %w", g.Who, limit.Name(), errLate)
}

// unansweredPart returns the part of an error that says that Redis did not answer; nil: none does.
func unansweredPart(err error) error {
	if !errors.Is(err, fairsem.ErrUnavailable) || !errors.Is(err, errLate) {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return unansweredPart(errors.Unwrap(err))
	}
	for _, part := range joined.Unwrap() {
		if errors.Is(part, fairsem.ErrUnavailable) && !errors.Is(part, errLate) {
			return part
		}
	}
	return nil
}

func (g *Gate[R, L]) hold(ctx context.Context, limit L, n int64) (*fairsem.Permit, error) {
	switch l := any(limit).(type) {
	case *fairsem.Mutex:
		return g.lock(ctx, l, n)
	case *fairsem.Semaphore:
		if g.MaxWait == NoWait {
			return l.TryAcquire(ctx, n)
		}
		return l.Acquire(ctx, n)
	}
	return nil, checkLimit(g.Who, limit)
}

func (g *Gate[R, L]) lock(ctx context.Context, l *fairsem.Mutex, n int64) (*fairsem.Permit, error) {
	switch {
	case n != 1:
		return nil, Invalid(g.Who, "weight %d of a Mutex is not 1", n)
	case g.MaxWait == NoWait:
		return l.TryLock(ctx)
	}
	return l.Lock(ctx)
}

// count counts the request, and returns the remaining units; below 0: they are not known.
func (g *Gate[R, L]) count(ctx context.Context, wait time.Duration, l *fairsem.Limiter, n int64) (remaining int64, err error) {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, errLate) // a Limiter reads the deadline
		defer cancel()
	}
	if g.MaxWait != NoWait {
		return bridge.Wait(ctx, l, n)
	}
	d, err := l.Allow(ctx, n)
	if err != nil {
		return -1, err
	}
	if !d.Allowed {
		err = fmt.Errorf("%s: limit %q: %w", g.Who, l.Name(), &fairsem.WaitError{RetryAfter: d.RetryAfter})
	}
	return d.Remaining, err
}
