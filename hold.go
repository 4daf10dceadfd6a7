package fairsem

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
)

// hold is the client's knowledge of a permit: until when it may be relied on, and why it has ended.
type hold struct {
	begun  bool // there is a permit; guarded by nameState.mu
	at     time.Time
	waited time.Duration
	ttl    time.Duration
	clock  *clock.Clock
	until  atomic.Int64 // end of the lease, as time since clock.Start, suspensions included

	mu       sync.Mutex
	taken    bool            // the caller has received it
	over     error           // why it has ended, or nil
	ctx      context.Context // nil until context is called
	cancel   context.CancelCauseFunc
	whenLost func() // may be nil
}

// begin is called once, with the grant.
func (h *hold) begin(c *clock.Clock, asked, now time.Time, lease window) {
	h.begun, h.at, h.waited, h.ttl, h.clock = true, now, now.Sub(asked), lease.ttl, c
	h.renew(lease)
}

// leaseContext also ends by the clock, in case no timer has fired yet: when a process that was stopped continues, its
// first call of Err tells the truth.
type leaseContext struct {
	context.Context
	hold   *hold
	cancel context.CancelCauseFunc // of Context
}

func (c leaseContext) Err() error {
	if c.hold.lost() {
		c.cancel(c.hold.ended())
	}
	return c.Context.Err()
}

// context is Permit.Context, with the values of another context.
func (h *hold) context(values context.Context) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(values))
		h.ctx, h.cancel = leaseContext{ctx, h, cancel}, cancel
		if h.over != nil {
			cancel(h.over)
		}
	}
	return h.ctx
}

// claim passes the permit to its caller. It returns false if the permit has ended, or nearly so, before the caller saw it.
// Otherwise it calls report, if that is not nil, before anything can be reported of the end of the permit.
func (h *hold) claim(report func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken = h.over == nil && h.remaining() >= (window{ttl: h.ttl}).margin()
	if h.taken && report != nil {
		report()
	}
	return h.taken
}

func (h *hold) isTaken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken
}

// ended returns why the permit has ended, regardless of the clock, or nil.
func (h *hold) ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// check returns why the permit has ended, or nil. It checks the clock, so no timer needs to have fired.
func (h *hold) check() error {
	if h.remaining() <= 0 {
		h.end(errOverdue)
	}
	return h.ended()
}

// lost reports whether the permit was lost.
func (h *hold) lost() bool { return errors.Is(h.check(), ErrLost) }

// remaining is how long the permit may still be relied on.
func (h *hold) remaining() time.Duration {
	return time.Duration(h.until.Load()) - h.clock.Now().SinceStart()
}

// renew extends the life of the context to the end of the lease.
func (h *hold) renew(lease window) { h.until.Store(int64(lease.end(0).Sub(clock.Start))) }

// end ends the permit and its context. The first cause stands.
func (h *hold) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return
	}
	h.over = cause
	if h.cancel != nil {
		h.cancel(cause)
	}
	h.notifyLocked()
}

// onLoss has f called when the permit is lost, or now if it was. f runs under a lock, so it must do nothing but take a note. It costs
// less than a context that a goroutine watches.
func (h *hold) onLoss(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.whenLost = f
	h.notifyLocked()
}

func (h *hold) notifyLocked() {
	if h.whenLost != nil && errors.Is(h.over, ErrLost) {
		h.whenLost()
	}
}
