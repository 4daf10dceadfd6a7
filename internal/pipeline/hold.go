package pipeline

import (
	"time"

	"github.com/fairsem/fairsem/internal/goroutines"
)

// The callers that an answer or a message wakes mostly call again at once: one that has got a permit releases it, and one that
// has released a permit acquires the next. Without a hold the first of them would start a batch alone, and the others would
// share the one after it. A hold waits for no caller and does no I/O, so it always ends. While one lasts, only urgent
// requests start a batch.

// A hold is for this many callers. One alone has no other to share a batch with. More of them share batches without a hold,
// and the server would be idle while they run.
const minWoken, maxWoken = 2, 8

// maxHold is after how long a hold is ignored. In a process whose processors are all busy it may last until many
// other goroutines have run.
const maxHold = time.Millisecond

// Wake calls f, which wakes callers, and holds the next batch for them. f returns how many it has woken of names with a
// queue. Wake itself does not wait for them.
func (p *Pipeline) Wake(f func() (woken int)) {
	p.mu.Lock()
	p.addHoldLocked()
	p.mu.Unlock()
	woken := f()
	if holdsFor(woken) && p.Goroutines.Start(goroutines.ScriptCalls, p.holdLoop) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds--
	p.startLocked()
}

// holdLoop is a sendLoop that begins with a hold.
func (p *Pipeline) holdLoop() {
	p.yields()
	if p.endHold() {
		p.sendLoop()
	}
}

// handOut passes the responses to the requests, and holds the next batch for the callers that this wakes. It reports false
// if the sendLoop of the batch is no longer needed. Meanwhile that loop is not in flight, so that an urgent request leaves.
func (b *batch) handOut(responses []Response) bool {
	if b.ids > maxWoken {
		b.pass(responses)
		return true
	}
	b.pipeline.beginHold()
	if holdsFor(b.pass(responses)) {
		b.pipeline.yields()
	}
	return b.pipeline.endHold()
}

// pass passes the responses to the requests. It returns how many callers of names with a queue this has woken.
func (b *batch) pass(responses []Response) (woken int) {
	for i, r := range b.prepared {
		if !responses[i].sentAgain {
			woken += r.Done(responses[i], b.sent)
		}
	}
	return woken
}

func holdsFor(woken int) bool { return minWoken <= woken && woken <= maxWoken }

// yields lets other goroutines run. When the first time is over, callers that run on other threads may still be about to call.
func (p *Pipeline) yields() {
	p.Yield()
	p.Yield()
}

// beginHold is called by a sendLoop that is in flight. It is not until endHold.
func (p *Pipeline) beginHold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addHoldLocked()
	p.inFlight--
	p.startLocked()
}

// endHold reports whether the caller is to send: if so, it is in flight.
func (p *Pipeline) endHold() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds--
	sends := p.canStartLocked()
	if sends {
		p.inFlight++
	}
	return sends
}

// addHoldLocked counts one more hold. The time counts from the first of several, so that they do not prolong each other.
func (p *Pipeline) addHoldLocked() {
	if p.holds == 0 {
		p.heldSince = time.Now()
	}
	p.holds++
}

func (p *Pipeline) holdsLocked() bool { return p.holds > 0 && time.Since(p.heldSince) < maxHold }
