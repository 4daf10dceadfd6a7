package fairsem

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const maxWindow = 31 * 24 * time.Hour

// Limiter is a limit on how often: at most so many units are granted in any window of a length, wherever
// the window begins, in all processes together, and whoever asks first gets in first. It is a semaphore
// whose permits nobody gives back: they lapse so long after their grant, by the clock of the Redis server.
// So each grant is kept in Redis for as long, in some 300 bytes, whatever its weight. It is safe for
// concurrent use. For its [Inspector] the holders are the grants of the last window.
type Limiter struct {
	*Inspector
	semaphore *Semaphore
}

// Decision is the answer of Allow.
type Decision struct {
	Allowed    bool
	Remaining  int64         // units that nobody has, after this call and those of this process beside it; fewer while much has just expired
	RetryAfter time.Duration // not allowed: until the same call would be, if nobody else came, or a lower bound, see Allow; else 0
}

// Limiter returns a handle on the rate limit of that name: at most limit units in any window of length
// per, which is rounded up to milliseconds and may be up to 31 days. Names and limits are as for
// [Client.Semaphore], and a window is declared together with its limit. Calls fail while the name is in
// use by a semaphore, and for the time of a window and some 20 s after.
//
// State that Redis loses is not put back: a window longer than [Options.Grace] may have up to limit units
// too many once, after it. The error is [ErrInvalid].
func (c *Client) Limiter(name string, limit int64, per time.Duration) (*Limiter, error) {
	s, err := c.Semaphore(name, limit)
	if err != nil {
		return nil, err
	}
	if per <= 0 || per > maxWindow {
		return nil, wrap("limiter", name, fmt.Errorf("%w: window %v is not between 1ms and %v", ErrInvalid, per, maxWindow))
	}
	s.spec.window = (per + time.Millisecond - 1).Truncate(time.Millisecond)
	return newLimiter(s), nil
}

// With returns a handle on the same limiter whose calls have these options, instead of those that l has.
// The TTL is of the place in line; NoRefresh is for permits, and with it calls return [ErrInvalid].
func (l *Limiter) With(o CallOptions) *Limiter { return newLimiter(l.semaphore.With(o)) }

func newLimiter(s *Semaphore) *Limiter { return &Limiter{s.Inspector, s} }

// Wait waits until n units are granted. It is told when that will be, and asks for nothing until then. If its turn comes
// after CallOptions.MaxWait or the deadline of ctx, it says so at once: the error is a [*WaitError]. Of a paused name it
// supposes that it goes on in a TTL. After an error, the others of which are Acquire's, nothing counts; what Redis may have
// granted meanwhile is given back.
func (l *Limiter) Wait(ctx context.Context, n int64) error {
	_, err := l.take(ctx, "wait", n, true)
	return err
}

// Allow asks for n units, and takes them if they are there and nobody waits for some. A refusal is not an
// error, and counts for nothing. As TryAcquire does it waits for Redis to say so, also for the end of
// [Options.Grace]. With more than 150 waiters or holders, some of which weigh more than 1, RetryAfter is a lower bound:
// the call can be refused again then, and is told more. It is never too long. The errors are those of TryAcquire but for [ErrNotAcquired].
func (l *Limiter) Allow(ctx context.Context, n int64) (Decision, error) {
	quoted, err := l.take(ctx, "allow", n, false)
	switch {
	case err == nil:
		return Decision{Allowed: true, Remaining: quoted.left}, nil
	case errors.Is(err, ErrNotAcquired):
		return Decision{Remaining: quoted.left, RetryAfter: quoted.retry}, nil
	}
	return Decision{}, err
}

func (l *Limiter) take(ctx context.Context, op string, n int64, wait bool) (quote, error) {
	s := l.semaphore
	if s.opts.NoRefresh {
		return quote{}, wrap(op, s.name, fmt.Errorf("%w: NoRefresh is for permits, and a Limiter has none", ErrInvalid))
	}
	t, err := s.obtain(ctx, op, n, wait)
	if t == nil {
		return quote{}, err
	}
	return t.quoted, err
}
