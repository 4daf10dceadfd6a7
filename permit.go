package fairsem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Permit is a number of units of a semaphore, held for as long as its context lives. Its methods may be called from any
// goroutine. A failed call returns a nil *Permit, which has no units; all its methods except Release panic.
type Permit struct {
	_      [0]func() // a Permit is known by its pointer: two of them are not to be compared
	ticket *ticket
}

// Context is done the moment the permit may no longer be relied on, and at the latest when it is released. Its cause, see
// [context.Cause], is then [ErrLost], with the reason, or [ErrReleased]. It has the values of the context given to Acquire, but not its
// cancellation: a permit does not end with the request that asked for it.
//
// When a process that was stopped continues, or a suspended machine wakes up, the first call of Err reports that the permit
// is over. Done is closed within a second, and so are contexts derived from this one.
func (p *Permit) Context() context.Context {
	t := p.mustExist()
	return t.hold.context(t.values)
}

// ID identifies the permit in Redis. No other permit ever has the same id.
func (p *Permit) ID() string { return p.mustExist().id }

// Token is a fencing token. It is larger than the token of every permit granted before on the same name. After a loss of all state
// in Redis, and on a name that Redis has forgotten because it was idle, that holds only if the clock of the server is not behind
// the one that gave the last tokens. Where at most one permit is held at a time, a store that refuses writes with a token lower
// than one it has seen is safe from holders that were paused. With several holders at a time, tokens show the order of the grants
// and fence no holder, except by number: see [Permit.Numbers].
func (p *Permit) Token() int64 { return p.mustExist().token }

// Number is the first of [Permit.Numbers], and -1 if the permit has none.
func (p *Permit) Number() int64 {
	if numbers := p.mustExist().numbers; len(numbers) > 0 {
		return numbers[0]
	}
	return -1
}

// Numbers are the numbers of the permit's units, in ascending order, if it was acquired with CallOptions.Numbered. They say which
// of the limit's units these are: which of four test databases, licences or ports. They are the lowest that no other holder of
// the name has, so at the grant each is at least 0 and below the limit. A permit keeps its numbers until it ends. Lowering the
// limit takes none away; new grants get numbers below the new limit.
//
// No two holders of a name have the same number at the same time, by the contexts of their permits, too. [Inspector.Evict] is the
// exception: the number is free immediately, and the context of the evicted permit ends right after. The tokens of the permits that
// have had a number increase. So a store that keeps, for each number, the highest token it has seen with it, and refuses a lower
// one, is safe from holders that were paused, whatever the limit is.
func (p *Permit) Numbers() []int64 { return slices.Clone(p.mustExist().numbers) }

// Weight is the number of units that the permit holds.
func (p *Permit) Weight() int64 {
	t := p.mustExist()
	t.state.mu.Lock()
	defer t.state.mu.Unlock()
	return t.keeps()
}

// mustExist panics with a clear message for the permit that a failed call returns beside its error.
func (p *Permit) mustExist() *ticket {
	if p == nil || p.ticket == nil {
		panic("fairsem: there is no permit: check the error of the call that should have returned one")
	}
	return p.ticket
}

// Waited is the time from the call of Acquire to the grant.
func (p *Permit) Waited() time.Duration { return p.mustExist().hold.waited }

// Wanted returns a channel that is closed when a call waits in the queue for units of the same name. It is for holders that could
// release early, such as an idle connection. The call may be one of this process, and may need more units than this permit has.
// It may also wait only for its own tenant, which holds its TenantLimit: then the units that are released do not help it. Every
// holder that has called Wanted is notified, not just enough of them to free the units that the call needs.
//
// The reply to each renewal carries this information, so the channel is closed at most a third of a TTL after the call began to
// wait, or earlier with the answer to another call of this Client on that name. That costs no command and no message. Answers
// from before the first call of Wanted do not count. The channel stays closed, even if no call waits any more.
//
// The end of the permit does not close it: wait for [Permit.Context] as well. After that end an open channel stays open. A permit
// with CallOptions.NoRefresh is not renewed, so only the answers to other calls close its channel.
func (p *Permit) Wanted() <-chan struct{} {
	t := p.mustExist()
	return t.state.wanted(t)
}

// Release releases the units. Renewal stops and the context ends before anything is sent. It may be called any number of
// times, also concurrently; once the outcome is known, all calls report the same. Without a permit, because Acquire returned an error, it
// returns [ErrInvalid].
//
// It returns nil once Redis has confirmed the release, and [ErrLost] if the permit was lost before, which is also [ErrEvicted] if
// it was evicted. Release is usually deferred, so a done ctx does not keep it from trying, and it waits for at most a second,
// whatever ctx allows. Without an answer by then the error is [ErrUnavailable], and wraps that of ctx if it is done. The attempt
// continues in the background, for up to a TTL, and the units are free one TTL after the last renewal at the latest. An error
// that a retry cannot fix, such as that of a go-redis client that was closed first, ends the attempt at once.
func (p *Permit) Release(ctx context.Context) error {
	if p == nil || p.ticket == nil {
		return fmt.Errorf("%w: release: there is no permit: check the error of the call that should have returned one", ErrInvalid)
	}
	if ctx == nil {
		return nilContext("release", p.ticket.state.name)
	}
	p.leave()
	return wrap("release", p.ticket.state.name, p.ticket.state.host.awaitReleases(ctx).of(p.ticket, nil))
}

// leave is the half of Release that does not wait.
func (p *Permit) leave() {
	if !p.ticket.hold.lost() {
		p.ticket.hold.end(ErrReleased)
	}
	p.ticket.state.leave(p.ticket)
}

// releaseWait is how long Release waits for its confirmation: a deferred call must not delay its function for long.
const releaseWait = time.Second

// releases is the half of Release that waits: for at most releaseWait, or until ctx ends unless it was done before.
type releases struct {
	ctx   context.Context
	done  <-chan struct{} // nil: ctx was done before
	over  <-chan struct{}
	began time.Time
}

func (h *host) awaitReleases(ctx context.Context) releases {
	began := time.Now()
	r := releases{ctx, ctx.Done(), h.releasing.Begin(began), began}
	if ctx.Err() != nil {
		r.done = nil
	}
	return r
}

// of waits until t is released or, if part is not nil, until part is closed: a part of t is released then. For a permit that was lost it
// waits only if part is not nil.
func (r releases) of(t *ticket, part <-chan struct{}) error {
	if why := t.hold.ended(); part == nil && errors.Is(why, ErrLost) {
		return why
	}
	select {
	case <-t.released:
	case <-part:
	case <-r.done:
	case <-r.over:
	}
	switch { // whichever of several that were ready was chosen
	case part != nil && (isClosed(part) || isClosed(t.released)): // the latter: the rest was lost, or released
		return nil
	case isClosed(t.released):
		return t.releaseErr
	}
	unanswered := fmt.Errorf("%w, and it goes on in the background", unavailable(time.Since(r.began), t.state.pipeline.Failure()))
	if err := ended(r.ctx); err != nil {
		return withDoubt(err, unanswered)
	}
	return unanswered
}
