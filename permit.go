package fairsem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
)

// Permit is a number of units of a semaphore, held for as long as its context lives. Its methods may be called from any goroutine.
type Permit struct {
	ticket *ticket
	waited time.Duration
	until  atomic.Int64 // end of the lease, as time since start, suspensions included

	mu       sync.Mutex
	taken    bool            // the caller has received it
	over     error           // why the permit has ended, or nil
	ctx      context.Context // nil until Context is called
	cancel   context.CancelCauseFunc
	whenLost func() // may be nil
}

func newPermit(t *ticket, now time.Time) *Permit {
	p := &Permit{ticket: t, waited: now.Sub(t.asked)}
	p.renew(t.lease)
	return p
}

// permitContext also ends by the clock, in case no timer has fired yet: when a process that was stopped continues, its
// first call of Err tells the truth.
type permitContext struct {
	context.Context
	permit *Permit
	cancel context.CancelCauseFunc // of Context
}

func (c permitContext) Err() error {
	if c.permit.lost() {
		c.cancel(c.permit.ended())
	}
	return c.Context.Err()
}

// Context is done the moment the permit may no longer be relied on, and at the latest when it is released. Its cause, see
// [context.Cause], is then [ErrLost] or [ErrReleased]. It has the values of the context given to Acquire, but not its
// cancellation: a permit does not end with the request that asked for it.
//
// When a process that was stopped continues, or a suspended machine wakes up, the first call of Err reports that the permit
// is over. Done is closed within a second, and so are contexts derived from this one.
func (p *Permit) Context() context.Context {
	p.mustExist()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(p.ticket.values))
		p.ctx, p.cancel = permitContext{ctx, p, cancel}, cancel
		if p.over != nil {
			cancel(p.over)
		}
	}
	return p.ctx
}

// ID identifies the permit in Redis. No other permit ever has the same id.
func (p *Permit) ID() string { return p.mustExist().id }

// Token is a fencing token. It is larger than the token of every permit granted before on the same name, even after a loss of all
// state in Redis. Where at most one permit is held at a time, a store that refuses writes with a token lower than
// one it has seen is safe from holders that were paused. With several holders at a time, tokens show the order of the
// grants and fence no holder.
func (p *Permit) Token() int64 { return p.mustExist().token }

// Weight is the number of units that the permit holds.
func (p *Permit) Weight() int64 {
	t := p.mustExist()
	t.state.mu.Lock()
	defer t.state.mu.Unlock()
	return t.keeps()
}

// mustExist panics with a clear message for what a failed call returns beside its error.
func (p *Permit) mustExist() *ticket {
	if p == nil || p.ticket == nil {
		panic("fairsem: there is no permit: check the error of the call that should have returned one")
	}
	return p.ticket
}

// Waited is the time from the call of Acquire to the grant.
func (p *Permit) Waited() time.Duration { return p.waited }

// Release releases the units. Renewal stops and the context ends before anything is sent. It may be called any number of
// times, also concurrently; all calls report the same. Without a permit, because Acquire returned an error, it returns
// [ErrInvalid].
//
// It returns nil once Redis has confirmed the release, and [ErrLost] if the permit was lost before. Release is usually deferred,
// so a done ctx does not keep it from trying, and it waits for at most a second, whatever ctx allows. Without an answer by then
// the error is [ErrUnavailable], and wraps that of ctx if it is done. The attempt continues in the background, for up to a
// TTL, and the units are free one TTL after the last renewal at the latest.
func (p *Permit) Release(ctx context.Context) error {
	if p == nil || p.ticket == nil {
		return fmt.Errorf("%w: release: there is no permit: check the error of the call that should have returned one", ErrInvalid)
	}
	if ctx == nil {
		return nilContext("release", p.ticket.state.name)
	}
	p.leave()
	return wrap("release", p.ticket.state.name, p.awaitLeft(ctx))
}

// leave is the half of Release that does not wait; awaitLeft is the other half.
func (p *Permit) leave() {
	if !p.lost() {
		p.end(ErrReleased)
	}
	p.ticket.state.leave(p.ticket)
}

// releaseWait is how long Release waits for its confirmation: a deferred call must not delay its function for long.
const releaseWait = time.Second

// awaitLeft waits until the ticket is released, for at most releaseWait, or until ctx ends unless it was done before. If the
// permit was lost it does not wait.
func (p *Permit) awaitLeft(ctx context.Context) error {
	if errors.Is(p.ended(), ErrLost) {
		return ErrLost
	}
	timer := time.NewTimer(releaseWait)
	defer timer.Stop()
	done := ctx.Done()
	if ctx.Err() != nil {
		done = nil
	}
	t, began := p.ticket, time.Now()
	select {
	case <-t.released:
		return t.releaseErr
	case <-done:
	case <-timer.C:
	}
	select {
	case <-t.released: // both channels were ready
		return t.releaseErr
	default:
	}
	unanswered := fmt.Errorf("%w, and it goes on in the background", unavailable(time.Since(began), t.state.pipeline.failure()))
	if err := ended(ctx); err != nil {
		return withDoubt(err, unanswered)
	}
	return unanswered
}

// take passes the permit to its caller. It returns false if the permit has ended, or nearly so, before the caller saw it.
func (p *Permit) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = p.over == nil && p.left() >= (window{ttl: p.ticket.params.TTL}).margin()
	if p.taken && !p.ticket.lapses() {
		p.ticket.state.client.events.granted(p.ticket)
	}
	return p.taken
}

func (p *Permit) isTaken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// granted is when the client learned of the grant.
func (p *Permit) granted() time.Time { return p.ticket.asked.Add(p.waited) }

// ended returns why the permit has ended, regardless of the clock, or nil.
func (p *Permit) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// lost reports whether the permit was lost. It checks the clock, so no timer needs to have fired.
func (p *Permit) lost() bool {
	if p.left() <= 0 {
		p.end(ErrLost)
	}
	return errors.Is(p.ended(), ErrLost)
}

// left is how long the permit may still be relied on.
func (p *Permit) left() time.Duration {
	return time.Duration(p.until.Load()) - p.ticket.state.client.clock.Now().SinceStart()
}

// renew extends the life of the context to the end of the lease.
func (p *Permit) renew(lease window) { p.until.Store(int64(lease.end(0).Sub(clock.Start))) }

// end ends the permit and its context. The first cause stands.
func (p *Permit) end(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil {
		return
	}
	p.over = cause
	if p.cancel != nil {
		p.cancel(cause)
	}
	p.notifyLocked()
}

// onLoss has f called when the permit is lost, or now if it was. f runs under a lock, so it must do nothing but take a note. It costs
// less than a context that a goroutine watches.
func (p *Permit) onLoss(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whenLost = f
	p.notifyLocked()
}

func (p *Permit) notifyLocked() {
	if p.whenLost != nil && errors.Is(p.over, ErrLost) {
		p.whenLost()
	}
}
