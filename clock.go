package fairsem

import (
	"sync"
	"sync/atomic"
	"time"
)

// start is what the clock of this process is read against where a time must fit into an atomic.
var start = time.Now()

// instant is a moment on the monotonic clock, which on most systems stands still while the machine is
// suspended, and beside it for how long the machine was suspended until then, as far as it was noticed.
type instant struct {
	time.Time
	asleep time.Duration // since the clock was made
}

// sinceStart is the time since start, suspensions included.
func (i instant) sinceStart() time.Duration { return i.Sub(start) + i.asleep }

// clock reads the time and notices that the machine was suspended. The wall clock, which goes on, and the
// monotonic clock are read together without a system call. Only when they have moved against each other,
// and once in a while, the system is asked whether that was a suspension or a step of the wall clock.
type clock struct {
	wall      func(now time.Time) time.Duration // what the wall clock shows at now, as time since start
	suspended func() (time.Duration, bool)      // since the machine started; false: the system does not say
	before    time.Duration                     // what suspended returned when the clock was made

	mu      sync.Mutex   // held while the system is asked
	checked atomic.Int64 // when it was asked last, as time since start
	ahead   atomic.Int64 // by how much the wall clock was ahead of the monotonic one then
	asleep  atomic.Int64 // how long the machine was suspended since the clock was made
}

const (
	// The two clocks are not read at exactly the same time.
	clockJitter = time.Millisecond
	// The system is asked this often, whatever the wall clock shows: it may have been set back meanwhile.
	clockPeriod = time.Second
	// A wall clock that is slewed moves against the monotonic one by less than this part of the time. The
	// margin of a window covers as much.
	clockSlew = 100
)

func newClock(wall func(time.Time) time.Duration, suspended func() (time.Duration, bool)) *clock {
	c := &clock{wall: wall, suspended: suspended}
	c.before, _ = suspended()
	now := time.Now()
	c.checked.Store(int64(now.Sub(start)))
	c.ahead.Store(int64(wall(now) - now.Sub(start)))
	return c
}

func wallSinceStart(now time.Time) time.Duration {
	return time.Duration(now.UnixNano() - start.UnixNano())
}

func (c *clock) now() instant {
	now := time.Now()
	since := now.Sub(start)
	ahead := c.wall(now) - since
	moved := ahead - time.Duration(c.ahead.Load()) // before asleep: check stores them in the other order
	if max(moved, -moved) > clockJitter || since-time.Duration(c.checked.Load()) >= clockPeriod {
		return c.check(ahead)
	}
	return instant{now, c.known()}
}

// known is how long the machine was suspended, as far as it was noticed.
func (c *clock) known() time.Duration { return time.Duration(c.asleep.Load()) }

// check asks the system for how long the machine was suspended. Where it does not say, the wall clock
// counts: a jump forward may have been a suspension.
func (c *clock) check(ahead time.Duration) instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	since := now.Sub(start)
	ahead = max(ahead, c.wall(now)-since) // whoever is interrupted between the two clocks reads too little
	slept, atLeast := ahead-time.Duration(c.ahead.Load()), clockJitter+(since-time.Duration(c.checked.Load()))/clockSlew
	if total, known := c.suspended(); known {
		slept, atLeast = total-c.before-c.known(), clockJitter
	}
	if slept > atLeast {
		c.asleep.Add(int64(slept))
	}
	c.ahead.Store(int64(ahead))
	c.checked.Store(int64(since))
	return instant{now, c.known()}
}
