package fairsem

import (
	"container/heap"
	"sync"
	"time"

	"github.com/fairsem/fairsem/internal/clock"
)

// window is how long a permit, or a position in the queue, may be relied on. It begins before the call was sent that Redis
// answered last, and ends a margin before Redis may grant its units again. Both ends are on the monotonic clock of this
// process, and time in which the machine was suspended counts.
type window struct {
	sent clock.Instant
	ttl  time.Duration
}

// margin covers what the client cannot see: clocks that run at different rates, rounding to whole milliseconds, and the
// time that a timer takes to fire and be handled.
func (w window) margin() time.Duration { return w.ttl / 10 }

// after is the moment d after the beginning, if the machine has been suspended for asleep by then.
func (w window) after(d, asleep time.Duration) time.Time {
	return w.sent.Add(d - (asleep - w.sent.Asleep))
}

// end is the moment from which the lease may no longer be relied on.
func (w window) end(asleep time.Duration) time.Time { return w.after(w.ttl-w.margin(), asleep) }

// remaining is the time until the end; zero or less: the lease is over.
func (w window) remaining(now clock.Instant) time.Duration { return w.end(now.Asleep).Sub(now.Time) }

// tooShort reports whether less is left than a permit that is handed over is to have.
func (w window) tooShort(now clock.Instant) bool { return w.remaining(now) < w.margin() }

// due is when to renew. A third of the TTL leaves time for two more attempts.
func (w window) due(asleep time.Duration) time.Time { return w.after(w.ttl/3, asleep) }

func (w window) isDue(now clock.Instant) bool { return !now.Before(w.due(now.Asleep)) }

// ticker is what a scheduler calls. It keeps this file from the cycle of those that know a nameState.
type ticker interface{ tick(now clock.Instant) }

// scheduler calls tick on each name at the time that it asked for. A tick does no I/O, so leases end on time whatever
// the network does.
type scheduler struct {
	clock   *clock.Clock
	asleep  time.Duration // what the clock knew at the last tick
	stop    chan struct{}
	stopped chan struct{}
	nudge   chan struct{} // there is a new earliest timer

	mu      sync.Mutex
	timers  timerHeap
	running bool
}

func newScheduler(c *clock.Clock) *scheduler {
	return &scheduler{
		clock:   c,
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
		nudge:   make(chan struct{}, 1),
	}
}

// schedule makes sure that the owner of t gets a tick at that time or earlier. The first call starts the scheduler.
func (s *scheduler) schedule(t *timer, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		s.running = true
		go s.run() // ends at close, which waits for stopped
	}
	if !s.timers.add(t, at) {
		return
	}
	select {
	case s.nudge <- struct{}{}:
	default: // a nudge is already pending
	}
}

// close stops the scheduler. No timer may be scheduled afterwards.
func (s *scheduler) close() {
	s.mu.Lock()
	running := s.running
	s.running = true // a late schedule starts nothing
	s.mu.Unlock()
	close(s.stop)
	if running {
		<-s.stopped
	}
}

func (s *scheduler) run() {
	defer close(s.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.nudge:
		case <-timer.C:
		}
		timer.Reset(s.tickDue())
	}
}

// tickDue calls tick on each name that is due, and returns how long to sleep. Timers stand still while the machine is
// suspended, so it never sleeps for long; after a suspension every name is due.
func (s *scheduler) tickDue() time.Duration {
	for {
		now := s.clock.Now()
		s.mu.Lock()
		if len(s.timers) == 0 {
			s.mu.Unlock()
			return maxTTL // until the first timer comes
		}
		if now.Asleep != s.asleep {
			s.asleep = now.Asleep
			s.timers.allDue(now.Time)
		}
		first := s.timers[0]
		if wait := first.at.Sub(now.Time); wait > 0 {
			s.mu.Unlock()
			return min(wait, clock.Period)
		}
		s.timers.remove(first)
		s.mu.Unlock()
		first.owner.tick(now)
	}
}

// timer is when a name needs its next tick.
type timer struct {
	owner ticker
	at    time.Time
	index int // in the heap; -1: not in it
}

// timerHeap is a heap of timers, the earliest first. Guarded by scheduler.mu.
type timerHeap []*timer

// add sets t to at if that is earlier, and reports whether it is now the first.
func (h *timerHeap) add(t *timer, at time.Time) bool {
	switch {
	case t.index < 0:
		t.at = at
		heap.Push(h, t)
	case at.Before(t.at):
		t.at = at
		heap.Fix(h, t.index)
	}
	return (*h)[0] == t
}

// allDue sets every later timer to now.
func (h timerHeap) allDue(now time.Time) {
	for _, t := range h {
		if t.at.After(now) {
			t.at = now
		}
	}
}

func (h *timerHeap) remove(t *timer) { heap.Remove(h, t.index) }

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
