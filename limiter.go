package fairsem

import (
	"context"
	"fmt"
	"time"
)

const maxWindow = 31 * 24 * time.Hour

// Limiter limits how often something happens: at most limit units are granted in any window of a given length, wherever the
// window begins, in all processes together, first come, first served. It is a semaphore whose permits are not released: they
// expire one window after their grant, by the clock of the Redis server. So Redis stores each grant for that long, in some 300
// bytes, whatever its weight. It is safe for concurrent use. Status, Holders, SetLimit and others are methods of its
// [Inspector], for which the grants of the last window are holders.
type Limiter struct {
	*Inspector
	semaphore *Semaphore
}

// Decision is the answer of Allow.
type Decision struct {
	Allowed    bool
	Remaining  int64         // free units after this call and concurrent ones of this process; fewer while many have just expired
	RetryAfter time.Duration // if refused: until the same call would be allowed if no other came, or a lower bound, see Allow
}

// Limiter returns a handle on the rate limit of that name: at most limit units in any window of length per: 1 ms to 31 days, rounded
// up to milliseconds. Names and limits are as for [Client.Semaphore]; a window is declared together with
// its limit. A grant counts for the window that was in force when it was granted: if a longer window is declared later, it may
// contain too many units once; if a shorter one is, old grants still count for as long as before. Calls fail while a semaphore
// uses the name, and afterwards for as long as [Client.List] yields it.
//
// State that Redis loses is not restored: after a loss, a window longer than [Options.Grace] may once have up to limit units too
// many. The error is [ErrInvalid].
func (c *Client) Limiter(name string, limit int64, per time.Duration) (*Limiter, error) {
	s, err := c.semaphore("limiter", name, limit, 1)
	if err != nil {
		return nil, err
	}
	if per < time.Millisecond || per > maxWindow {
		return nil, wrap("limiter", name, fmt.Errorf("%w: window %v is not between 1ms and %v", ErrInvalid, per, maxWindow))
	}
	s.spec.Window = (per + time.Millisecond - 1).Truncate(time.Millisecond)
	return newLimiter(s), nil
}

// With returns a handle on the same limiter whose calls have these options instead of those of l. The TTL is that of the
// position in the queue. NoRefresh is for permits; with it calls return [ErrInvalid].
func (l *Limiter) With(o CallOptions) *Limiter {
	if l == nil {
		return new(Limiter)
	}
	return newLimiter(l.semaphore.With(o))
}

// Declared returns the declaration that l makes with its first operation: the limit and the length of the window. Status has the limit in
// force.
func (l *Limiter) Declared() (limit int64, per time.Duration) {
	if l == nil || l.Inspector == nil {
		return 0, 0
	}
	return l.spec.Limit, l.spec.Window
}

func newLimiter(s *Semaphore) *Limiter { return &Limiter{s.Inspector, s} }

// Wait waits in the queue until n units are granted. Redis reports when that will be; until then the process renews the position, and queries
// now and then. It is notified if the turn of its first waiter, among the first 150, moves forward by more than half a second.
//
// If the turn comes after CallOptions.MaxWait or the deadline of ctx, Wait returns a [*WaitError] at once and never joins the queue. With
// a HeadStart it has to join first, because its turn is not known before. The turn is as exact as the RetryAfter of [Limiter.Allow]. During
// a grace period Wait first waits for its end. For a paused name it assumes that the pause ends in a TTL.
//
// The other errors are those of Acquire. After an error no unit counts: units that Redis may have granted meanwhile are released,
// if Redis answers again within a TTL plus the window, or a TTL plus one minute if the window is longer.
func (l *Limiter) Wait(ctx context.Context, n int64) error {
	_, err := l.acquire(ctx, "wait", n, inQueue)
	return err
}

// Allow asks for n units and takes them if they are free and no other call waits for some. Calls of other tenants count as in
// [Semaphore.TryAcquire]. A refusal is not an error and counts for nothing. Like TryAcquire it waits for the answer of Redis,
// also for the end of [Options.Grace]. With more than 150 waiters or holders, some of which weigh more than 1, RetryAfter is a
// lower bound: the call can be refused again then, with a new RetryAfter. It is also a lower bound where tenants share the
// name: it counts the tenant's own waiters, but neither other tenants that may come first nor units that stay free ahead of a
// heavier waiter. It can be too long when a waiter leaves or expires meanwhile, and after the window was shortened. The errors
// are those of TryAcquire, but [ErrNotAcquired] only where CallOptions.MaxWait passed before Redis could say yes or no.
func (l *Limiter) Allow(ctx context.Context, n int64) (Decision, error) {
	t, err := l.acquire(ctx, "allow", n, atOnce)
	switch {
	case err == nil:
		return Decision{Allowed: true, Remaining: t.quoted.available}, nil
	case t != nil && t.refused:
		return Decision{Remaining: t.quoted.available, RetryAfter: t.quoted.retry}, nil
	}
	return Decision{}, err
}

func (l *Limiter) acquire(ctx context.Context, op string, n int64, mode waitMode) (*ticket, error) {
	if l == nil || l.Inspector == nil {
		return nil, wrap(op, "", errNoClient)
	}
	s := l.semaphore
	if s.options().NoRefresh {
		return nil, wrap(op, s.name, fmt.Errorf("%w: NoRefresh is for permits, and a Limiter has none", ErrInvalid))
	}
	return s.obtain(ctx, op, n, mode)
}
