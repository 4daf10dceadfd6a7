package fairsem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/goroutines"
)

// events sends each Event to the logger and the observer, in order and from one goroutine at a time. A nil events has
// neither, and no Event is made for it.
type events struct {
	observer   Observer     // nil: none
	log        *slog.Logger // nil: none
	goroutines *goroutines.Group

	calls sync.RWMutex // read-locked by each call under way; locked by close for good

	mu          sync.Mutex
	queue       []Event
	dispatching bool       // a goroutine is emptying the queue
	drained     *sync.Cond // that goroutine has ended
	closed      bool
}

func newEvents(observer Observer, log *slog.Logger, goroutines *goroutines.Group) *events {
	if observer == nil && log == nil {
		return nil
	}
	e := &events{observer: observer, log: log, goroutines: goroutines}
	e.drained = sync.NewCond(&e.mu)
	return e
}

// wants reports whether the events of level Debug are wanted. In production a logger mostly does not want them, and then
// they cost only this check. A handler is user code, so it is not called later, under a lock.
func (e *events) wants(ctx context.Context) bool {
	return e != nil && (e.observer != nil || e.log.Enabled(ctx, slog.LevelDebug))
}

// begin keeps close waiting until end is called. It reports false if close has been called: then end must not be called.
func (e *events) begin() bool { return e != nil && e.calls.TryRLock() }

func (e *events) end() { e.calls.RUnlock() }

// close returns when everything that began before has been reported. The goroutines must be closed.
func (e *events) close() {
	if e == nil {
		return
	}
	e.calls.Lock()
	e.await()
	e.dispatch()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}

// await returns when the observer has returned, which may take longer than goroutines.close waits.
func (e *events) await() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.dispatching {
		e.drained.Wait()
	}
}

// emit queues ev. It never waits, so any lock may be held.
func (e *events) emit(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.queue = append(e.queue, ev)
	if !e.dispatching {
		e.dispatching = e.goroutines.Start(goroutines.Observers, e.dispatch) // ends when the queue is empty
	}
}

func (e *events) dispatch() {
	for batch := e.nextBatch(); len(batch) > 0; batch = e.nextBatch() {
		for _, ev := range batch {
			e.record(ev)
			if e.observer != nil {
				e.observer(ev)
			}
		}
	}
}

func (e *events) nextBatch() (batch []Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	batch, e.queue = e.queue, nil
	if e.dispatching = len(batch) > 0; !e.dispatching {
		e.drained.Broadcast()
	}
	return batch
}

// record does what slog.Logger does, with the time of the event.
func (e *events) record(ev Event) {
	if e.log == nil {
		return
	}
	h := ev.headline()
	if !e.log.Enabled(h.ctx, h.level) {
		return
	}
	r := slog.NewRecord(h.at, h.level, h.message, 0)
	r.AddAttrs(details(ev)...)
	_ = e.log.Handler().Handle(h.ctx, r) // there is nowhere to report the error
}

// Why a permit was lost.
var (
	errMissing          = errors.New("it is not in Redis any more: it expired, or was removed")
	errForged           = errors.New("it is still in the queue: the message about its grant was forged")
	errAsleep           = errors.New("the machine was suspended")
	errTooLate          = errors.New("it was not renewed in time")
	errNoRefreshExpired = errors.New("its TTL is over, and it is never renewed")
)

// lostFor returns ErrLost with the reason.
func lostFor(why error) error { return fmt.Errorf("%w: %w", ErrLost, why) }

// lapse returns why a lease is over by the clock.
func (t *ticket) lapse() error {
	switch {
	case t.noRefresh:
		return errNoRefreshExpired
	case t.state.client.clock.Asleep() > t.lease.sent.Asleep:
		return errAsleep
	case t.cause != nil:
		return t.cause
	case t.busy:
		return failure.ErrNoAnswer
	default:
		return errTooLate // this process stood still
	}
}

// The methods below emit the events. For a ticket that is not observed they cost only the check.

// waiting reports that t is in the queue. The position itself is reported to no one: it authenticates wake messages.
func (e *events) waiting(t *ticket) {
	if t.observed && t.position == 0 {
		e.emit(WaitStartedEvent{At: time.Now(), Context: t.context(), Name: t.state.name, ID: t.id, Weight: t.weight})
	}
}

// granted reports that the caller of t gets what it asked for.
func (e *events) granted(t *ticket) {
	if !t.observed {
		return
	}
	by := GrantedAtOnce
	if t.position != 0 {
		by = cmp.Or(t.by, GrantedByRefresh)
	}
	if t.lapses() {
		e.emit(AllowedEvent{
			At: t.permit.granted(), Context: t.context(), Name: t.state.name, ID: t.id, Weight: t.weight,
			Queued: t.position != 0, Waited: t.permit.waited, By: by,
		})
		return
	}
	e.emit(GrantedEvent{
		At: t.permit.granted(), Context: t.context(), Name: t.state.name, ID: t.id, Weight: t.weight,
		Queued: t.position != 0, Waited: t.permit.waited, Token: t.token, By: by,
	})
}

// notAcquired reports that the call that asked for t returns err. No later event of t is reported.
func (e *events) notAcquired(name string, t *ticket, err error) {
	if !t.observed {
		return
	}
	now := time.Now()
	e.emit(NotAcquiredEvent{
		At: now, Context: t.context(), Name: name, ID: t.id, Weight: t.weight,
		Queued: t.position != 0, Waited: now.Sub(t.asked), Err: err,
	})
}

// positionLost reports that the call that asked for t tries again.
func (e *events) positionLost(t *ticket) {
	if e == nil {
		return
	}
	now := time.Now()
	e.emit(PositionLostEvent{
		At: now, Context: t.context(), Name: t.state.name, ID: t.id, Weight: t.weight,
		Queued: t.position != 0, Waited: now.Sub(t.asked),
	})
}

// lost reports the loss of t's permit, with its reason, if it was lost while its holder had it.
func (e *events) lost(t *ticket, why error) {
	if e != nil && t.permit != nil && errors.Is(t.permit.ended(), ErrLost) {
		e.finished(t, lostFor(why))
	}
}

// finished reports, once, the end of a permit that its caller had received. A grant of a rate limit has no end to report.
// err is what the release reports.
func (e *events) finished(t *ticket, err error) {
	if e == nil || t.reported || t.permit == nil || t.lapses() || !t.permit.isTaken() {
		return
	}
	t.reported = true
	switch {
	case errors.Is(err, ErrLost):
		e.emit(LostEvent{
			At: time.Now(), Context: t.context(), Name: t.state.name, ID: t.id, Weight: t.weight,
			Token: t.token, Held: t.held(), Err: err,
		})
	case t.observed || err != nil:
		e.emit(ReleasedEvent{
			At: time.Now(), Context: t.context(), Name: t.state.name, ID: t.id, Weight: t.weight,
			Token: t.token, Held: t.held(), Err: err,
		})
	}
}

func (e *events) callFailed(name, verb string, err error) {
	if e != nil {
		e.emit(CallFailedEvent{At: time.Now(), Name: name, Verb: verb, Err: err})
	}
}

func (e *events) unreturned(name, verb string, units int64, err error) {
	if e != nil {
		e.emit(UnreturnedEvent{At: time.Now(), Name: name, Verb: verb, Units: units, Err: err})
	}
}

func (e *events) disconnected(channel, node string, err error) {
	if e != nil {
		e.emit(DisconnectedEvent{At: time.Now(), Channel: channel, Node: node, Err: err})
	}
}

func (e *events) reconnected(channel, node string, silent time.Duration) {
	if e != nil {
		e.emit(ReconnectedEvent{At: time.Now(), Channel: channel, Node: node, Silent: silent})
	}
}

// context is the Context of t's events, for handlers that find a trace in it.
func (t *ticket) context() context.Context { return context.WithoutCancel(t.values) }

// held is how long the holder of t could rely on its permit, until it was released.
func (t *ticket) held() time.Duration {
	now := t.state.client.clock.Now()
	end := now.Time
	if !t.forgottenAt.IsZero() {
		end = t.forgottenAt.Add(-t.params.TTL)
	}
	if over := t.lease.end(now.Asleep); over.Before(end) {
		end = over
	}
	return end.Sub(t.permit.granted())
}
