package fairsem

import (
	"context"
	"log/slog"
	"sync"
	"time"

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
	e.goOn(nil) // with the events queued since the goroutines ended; not in this one, which the observer may end
	e.await()
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
	var batch []Event
	done := false
	defer func() {
		if !done { // the observer has ended the goroutine, as FailNow of a test does
			e.goOn(batch)
		}
	}()
	for batch = e.nextBatch(); len(batch) > 0; {
		ev := batch[0]
		batch = batch[1:]
		e.record(ev)
		if e.observer != nil {
			e.observer(ev)
		}
		if len(batch) == 0 {
			batch = e.nextBatch()
		}
	}
	done = true
}

// goOn goes on with the rest of a batch, in another goroutine.
func (e *events) goOn(rest []Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = append(rest, e.queue...)
	e.dispatching = true
	go e.dispatch() // ends when the queue is empty; await waits for it
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

// record works like slog.Logger, with the time of the event.
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

func (e *events) callFailed(name, verb string, err error) {
	if e != nil {
		e.emit(CallFailedEvent{At: time.Now(), Name: name, Verb: verb, Err: err})
	}
}

func (e *events) unreturned(name, tenant, verb string, units int64, err error) {
	if e != nil {
		e.emit(UnreturnedEvent{At: time.Now(), Name: name, Tenant: tenant, Verb: verb, Units: units, Err: err})
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
