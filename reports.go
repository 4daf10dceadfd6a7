package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
)

// The events of tickets. For a ticket that is not observed a report costs only the check. An event shares nothing with the permit that
// an observer could change.

// context is the Context of t's events, for handlers that find a trace in it.
func (t *ticket) context() context.Context { return context.WithoutCancel(t.values) }

// reportWaiting reports that t is in the queue since then: the time of the answer, at which a grant that overtook it may be handled, too.
// The position itself is reported to no one: it authenticates wake messages.
func (t *ticket) reportWaiting(e *events, at time.Time) {
	if t.observed && t.position == 0 {
		e.emit(WaitStartedEvent{At: at, Context: t.context(), Name: t.state.name, ID: t.id, Tenant: t.opts.Tenant, Weight: t.weight})
	}
}

// reportGranted reports that the caller of t gets its units.
func (t *ticket) reportGranted(e *events) {
	if !t.observed {
		return
	}
	by := GrantedAtOnce
	if t.position != 0 {
		by = cmp.Or(t.by, GrantedByRefresh)
	}
	if t.countsInWindow() {
		e.emit(AllowedEvent{
			At: t.hold.at, Context: t.context(), Name: t.state.name, ID: t.id, Tenant: t.opts.Tenant, Weight: t.weight,
			Queued: t.position != 0, Waited: t.hold.waited, By: by,
		})
		return
	}
	e.emit(GrantedEvent{
		At: t.hold.at, Context: t.context(), Name: t.state.name, ID: t.id, Tenant: t.opts.Tenant, Weight: t.weight,
		Queued: t.position != 0, Waited: t.hold.waited, Token: t.token, Numbers: slices.Clone(t.numbers), By: by,
	})
}

// reportNotAcquired reports that the call that asked for t returns err. No later event of t is reported.
func (t *ticket) reportNotAcquired(e *events, name string, err error) {
	if !t.observed {
		return
	}
	now := time.Now()
	e.emit(NotAcquiredEvent{
		At: now, Context: t.context(), Name: name, ID: t.id, Tenant: t.opts.Tenant, Weight: t.weight,
		Queued: t.position != 0, Waited: now.Sub(t.asked), Err: err,
	})
}

// reportPositionLost reports that the call that asked for t tries again.
func (t *ticket) reportPositionLost(e *events) {
	if e == nil {
		return
	}
	now := time.Now()
	e.emit(PositionLostEvent{
		At: now, Context: t.context(), Name: t.state.name, ID: t.id, Tenant: t.opts.Tenant, Weight: t.weight,
		Queued: t.position != 0, Waited: now.Sub(t.asked),
	})
}

// reportLost reports the loss of t's permit, with its reason, if it was lost while its holder had it.
func (t *ticket) reportLost(e *events, c *clock.Clock) {
	if e == nil || !t.hold.begun {
		return
	}
	lost := t.hold.ended()
	if !errors.Is(lost, ErrLost) {
		return
	}
	loss, hasReason := errors.AsType[*lossError](lost)
	switch {
	case errors.Is(lost, errOverdue):
		lost = fmt.Errorf("%w: %w", ErrLost, t.whyOver(c.Asleep()))
	case hasReason:
		lost = fmt.Errorf("%w: %w", ErrLost, loss.why) // for an observer it is part of the chain
	}
	t.reportEnd(e, c, lost)
}

// reportEnd reports, once, the end of a permit that its caller had received. A grant of a rate limit has no end to report.
// err is the result of the release.
func (t *ticket) reportEnd(e *events, c *clock.Clock, err error) {
	if e == nil || t.reported || !t.hold.begun || t.countsInWindow() || !t.hold.isTaken() {
		return
	}
	t.reported = true
	switch {
	case errors.Is(err, ErrLost):
		e.emit(LostEvent{
			At: time.Now(), Context: t.context(), Name: t.state.name, ID: t.id, Tenant: t.opts.Tenant, Weight: t.weight,
			Token: t.token, Numbers: slices.Clone(t.numbers), Held: t.held(c.Now()), Err: err,
		})
	case t.observed || err != nil:
		e.emit(ReleasedEvent{
			At: time.Now(), Context: t.context(), Name: t.state.name, ID: t.id, Tenant: t.opts.Tenant, Weight: t.weight,
			Token: t.token, Numbers: slices.Clone(t.numbers), Held: t.held(c.Now()), Err: err,
		})
	}
}
