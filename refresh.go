package fairsem

import (
	"container/heap"
	"sync"
	"time"
)

// window is how long a permit, or a place in line, may be relied on: from before the question was
// sent that Redis answered last, to a margin before Redis may let the next one in. Both ends are on
// the monotonic clock of this process, and the time in which the machine was suspended counts.
type window struct {
	sent instant
	ttl  time.Duration
}

// margin covers what the client cannot see: clocks that run at different rates, rounding to whole
// milliseconds, and the time that a timer takes to fire and be acted on.
func (w window) margin() time.Duration { return w.ttl / 10 }

// after is when d has passed since the beginning, if the machine has been suspended for so long by then.
func (w window) after(d, asleep time.Duration) time.Time {
	return w.sent.Add(d - (asleep - w.sent.asleep))
}

// end is the moment from which on the lease may not be relied on.
func (w window) end(asleep time.Duration) time.Time { return w.after(w.ttl-w.margin(), asleep) }

// left is the time until the end; zero or less: it is over.
func (w window) left(now instant) time.Duration { return w.end(now.asleep).Sub(now.Time) }

// due is when to renew. A third of the TTL leaves room for two more tries.
func (w window) due(asleep time.Duration) time.Time { return w.after(w.ttl/3, asleep) }

func (w window) isDue(now instant) bool { return !now.Before(w.due(now.asleep)) }

// keeper calls look on every view when it asked for it. Looking does no I/O, so leases end on time
// whatever the network does.
type scheduler struct {
	clock   *clock
	asleep  time.Duration // what the clock knew when run looked last
	stop    chan struct{}
	stopped chan struct{}
	nudge   chan struct{} // there is a new earliest time

	mu      sync.Mutex
	timers  timerHeap
	running bool
}

func newScheduler(c *clock) *scheduler {
	return &scheduler{
		clock:   c,
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
		nudge:   make(chan struct{}, 1),
	}
}

// schedule has v looked after at the time at the latest. The first call starts the keeper.
func (k *scheduler) schedule(v *nameState, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.running {
		k.running = true
		go k.run() // ends at close, which waits for stopped
	}
	if !k.timers.add(v, at) {
		return
	}
	select {
	case k.nudge <- struct{}{}:
	default: // it has been told and has not looked yet
	}
}

// close ends the keeper. No view may be scheduled any more.
func (k *scheduler) close() {
	k.mu.Lock()
	running := k.running
	k.running = true // a late schedule starts nothing
	k.mu.Unlock()
	close(k.stop)
	if running {
		<-k.stopped
	}
}

func (k *scheduler) run() {
	defer close(k.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-k.nudge:
		case <-timer.C:
		}
		timer.Reset(k.tickDue())
	}
}

// lookAtDue looks at every view that is due, and returns how long to sleep. Timers stand still while the
// machine is suspended, so it never sleeps for long: after a suspension every view is due.
func (k *scheduler) tickDue() time.Duration {
	for {
		now := k.clock.now()
		k.mu.Lock()
		if len(k.timers) == 0 {
			k.mu.Unlock()
			return maxTTL
		}
		if now.asleep != k.asleep {
			k.asleep = now.asleep
			k.timers.allDue(now.Time)
		}
		first := k.timers[0]
		if wait := first.at.Sub(now.Time); wait > 0 {
			k.mu.Unlock()
			return min(wait, clockPeriod)
		}
		k.timers.remove(first)
		k.mu.Unlock()
		first.state.tick(now)
	}
}

// appointment is the place of a view in the agenda.
type timer struct {
	state *nameState
	at    time.Time
	index int // in the agenda; -1: not in it
}

// agenda is a heap of appointments, the earliest first. Guarded by keeper.mu.
type timerHeap []*timer

// add moves the appointment of v to at if that is earlier, and reports whether it is now the first.
func (a *timerHeap) add(v *nameState, at time.Time) bool {
	p := &v.timer
	switch {
	case p.index < 0:
		p.at = at
		heap.Push(a, p)
	case at.Before(p.at):
		p.at = at
		heap.Fix(a, p.index)
	}
	return (*a)[0] == p
}

// allDue has no appointment later than now.
func (a timerHeap) allDue(now time.Time) {
	for _, p := range a {
		if p.at.After(now) {
			p.at = now
		}
	}
}

func (a *timerHeap) remove(p *timer) { heap.Remove(a, p.index) }

func (a timerHeap) Len() int           { return len(a) }
func (a timerHeap) Less(i, j int) bool { return a[i].at.Before(a[j].at) }

func (a timerHeap) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

func (a *timerHeap) Push(x any) {
	p := x.(*timer)
	p.index = len(*a)
	*a = append(*a, p)
}

func (a *timerHeap) Pop() any {
	last := len(*a) - 1
	p := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	p.index = -1
	return p
}
