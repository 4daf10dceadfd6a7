// Package held ties a context or a connection of a program to the permit that allows its use. It is for packages that
// acquire and release permits on behalf of their callers.
package held

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/bridge"
)

// Release releases a permit and does not wait for Redis: its caller, such as the end of a response, is not delayed
// by a round trip, or by an outage. The release is queued when it returns, ahead of the next acquire of its caller.
func Release(p *fairsem.Permit) { bridge.Leave(p) }

// Scope is a context that has the values of another one and ends with it, with the loss of a permit or the end of its Client, or when it
// is ended, whichever comes first; [context.Cause] says which. It is a struct, so that it can be part of another allocation.
type Scope struct {
	context.Context // nil before Begin
	lease           context.Context
	cancel          context.CancelCauseFunc
	stop            func() bool
}

// Begin makes s a context. It is called once, and End after it.
func (s *Scope) Begin(parent context.Context) { s.Context, s.cancel = context.WithCancelCause(parent) }

// Bind has s end with a permit. It is called at most once, before others use s.
func (s *Scope) Bind(p *fairsem.Permit) {
	s.lease = p.Context()
	s.stop = context.AfterFunc(s.lease, s.follow)
}

// follow ends s with the permit. A permit that its holder released may have belonged to a part of the work that is over.
func (s *Scope) follow() {
	if why := context.Cause(s.lease); errors.Is(why, fairsem.ErrClosed) || !errors.Is(why, fairsem.ErrReleased) {
		s.cancel(why)
	}
}

// EndAfter ends s after that time for that reason, unless the timer is stopped before.
func (s *Scope) EndAfter(d time.Duration, why error) *time.Timer {
	return time.AfterFunc(d, func() { s.cancel(why) })
}

// End ends the context. It does not release the permit.
func (s *Scope) End() {
	if s.stop != nil {
		s.stop()
	}
	s.cancel(nil)
}

// Err also ends the context by the clock, as that of a permit does: when a process that was stopped continues, its first call
// reports the loss.
func (s *Scope) Err() error {
	if s.lease != nil && s.lease.Err() != nil {
		s.follow()
	}
	return s.Context.Err()
}

// Loan is a permit that something holds until its end, and the context of that. The zero value is ready for Scope.Begin.
type Loan struct {
	Scope  Scope
	Permit *fairsem.Permit // nil: there is none
	once   sync.Once
}

// End ends the context and releases the permit. It may be called any number of times.
func (l *Loan) End() {
	l.once.Do(func() {
		l.Scope.End()
		if l.Permit != nil {
			Release(l.Permit)
		}
	})
}

// Ended returns why the permit has ended before the context did: it was lost, or its Client was closed. If it has not, it returns nil.
func (l *Loan) Ended() error {
	if cause := context.Cause(&l.Scope); IsEnd(cause) {
		return cause
	}
	return nil
}

// IsEnd reports whether an error is, or has, that of a permit that was lost, or whose Client was closed.
func IsEnd(err error) bool {
	return errors.Is(err, fairsem.ErrLost) || errors.Is(err, fairsem.ErrClosed)
}
