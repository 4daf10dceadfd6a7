package fairsemhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/held"
)

// grant is what lets one request through.
type grant struct {
	limit     Limit           // nil: LimitOf failed
	permit    *fairsem.Permit // nil for a Limiter, and for a request that is admitted without one
	remaining int64           // of a Limiter; below 0: not known
}

// gate is what a Handler and a Transport have in common.
type gate struct {
	who     string
	limit   Limit
	opts    Options
	maxWait time.Duration // 0: as long as the context allows; or NoWait
	quotes  bool          // whether what remains of a Limiter matters
}

var errLate = fmt.Errorf("%w: MaxWait has passed", fairsem.ErrNotAcquired)

// enter returns what lets a request through, and has its scope end with the permit. Beside an error, the grant has the limit of the
// request, if there is one.
func (g *gate) enter(scope *held.Scope, r *http.Request) (grant, error) {
	limit, err := g.limitOf(r)
	if err != nil {
		return grant{}, err
	}
	weight := int64(1)
	if g.opts.Weight != nil {
		weight = g.opts.Weight(r)
	}
	granted, err := g.acquire(scope, limit, weight)
	granted.limit = limit
	if err != nil && g.opts.OnUnavailable == Admit && verdictOf(err) == isUnavailable && r.Context().Err() == nil {
		if g.opts.OnAdmitted != nil {
			g.opts.OnAdmitted(r, err)
		}
		return grant{limit: limit, remaining: -1}, nil
	}
	return granted, err
}

func (g *gate) limitOf(r *http.Request) (Limit, error) {
	if g.opts.LimitOf == nil {
		return g.limit, nil
	}
	limit, err := g.opts.LimitOf(r)
	if err != nil {
		return nil, fmt.Errorf("%w: fairsemhttp.%s: LimitOf: %w", fairsem.ErrInvalid, g.who, err)
	}
	return limit, checkLimit(g.who, limit)
}

func (g *gate) acquire(scope *held.Scope, limit Limit, n int64) (grant, error) {
	wait := g.maxWait
	if wait == NoWait {
		wait = answerWait
	}
	limiter, rate := limit.(*fairsem.Limiter)
	if rate {
		return g.count(scope, wait, limiter, n)
	}
	inTime := func() bool { return true }
	if wait > 0 {
		inTime = scope.EndAfter(wait, errLate)
	}
	p, err := g.hold(scope, limit, n)
	switch late := !inTime(); {
	case err != nil:
		return grant{}, err
	case late: // the scope has ended
		held.Release(p)
		return grant{}, errLate
	}
	scope.Bind(p)
	return grant{permit: p, remaining: -1}, nil
}

func (g *gate) hold(ctx context.Context, limit Limit, n int64) (*fairsem.Permit, error) {
	switch l := limit.(type) {
	case *fairsem.Mutex:
		return g.lock(ctx, l, n)
	case *fairsem.Semaphore:
		if g.maxWait == NoWait {
			return l.TryAcquire(ctx, n)
		}
		return l.Acquire(ctx, n)
	}
	return nil, checkLimit(g.who, limit)
}

func (g *gate) lock(ctx context.Context, l *fairsem.Mutex, n int64) (*fairsem.Permit, error) {
	switch {
	case n != 1:
		return nil, invalid(g.who, "weight %d of a Mutex is not 1", n)
	case g.maxWait == NoWait:
		return l.TryLock(ctx)
	}
	return l.Lock(ctx)
}

// count counts the request. Only Allow returns what remains, so where that matters, or where nothing may wait, it comes before
// Wait.
func (g *gate) count(ctx context.Context, wait time.Duration, l *fairsem.Limiter, n int64) (grant, error) {
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, errLate) // a Limiter looks at the deadline
		defer cancel()
	}
	if !g.quotes && g.maxWait != NoWait {
		return grant{remaining: -1}, l.Wait(ctx, n)
	}
	d, err := l.Allow(ctx, n)
	if err != nil || d.Allowed {
		return grant{remaining: d.Remaining}, err
	}
	if deadline, bounded := ctx.Deadline(); g.maxWait == NoWait || bounded && time.Now().Add(d.RetryAfter).After(deadline) {
		return grant{}, fmt.Errorf("fairsemhttp: limit %q: %w", l.Name(), &fairsem.WaitError{RetryAfter: d.RetryAfter})
	}
	return grant{}, l.Wait(ctx, n) // nothing remains for a call that had to wait
}

// verdict is what an error of enter means.
type verdict int

const (
	isMistake     verdict = iota // of the program
	isBusy                       // the limit is reached
	isTooHeavy                   // the limit is lower than the weight
	isClosing                    // the Client is closed
	isUnavailable                // Redis does not answer, or not as it should
)

// verdictOf classifies an error. An error can be more than one, so the order matters.
func verdictOf(err error) verdict {
	var limited *fairsem.WaitError
	switch {
	case errors.Is(err, fairsem.ErrUnavailable):
		return isUnavailable
	case errors.Is(err, fairsem.ErrInvalid):
		return isMistake
	case errors.Is(err, fairsem.ErrExceedsLimit):
		return isTooHeavy
	case errors.Is(err, fairsem.ErrClosed):
		return isClosing
	case errors.As(err, &limited), errors.Is(err, fairsem.ErrNotAcquired), errors.Is(err, fairsem.ErrQueueFull),
		errors.Is(err, fairsem.ErrEvicted), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return isBusy
	}
	return isUnavailable
}
