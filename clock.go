package fairsem

import (
	"sync"
	"sync/atomic"
	"time"
)

// start is the zero of this process's clock where a time must fit into an atomic.
var start = time.Now()

// instant is a moment on the monotonic clock, with how long the machine had been suspended by then, as far as it was
// noticed. On most systems the monotonic clock stands still while the machine is suspended.
type instant struct {
	time.Time
	asleep time.Duration // since the clock was made
}

// sinceStart is the time since start, suspensions included.
func (i instant) sinceStart() time.Duration { return i.Sub(start) + i.asleep }

// clock reads the time and notices suspensions of the machine. It reads the monotonic clock and the wall clock, which
// continues during a suspension, together without a system call. Only when they have moved against each other, and once
// in a while, it asks the system whether that was a suspension or a step of the wall clock.
type clock struct {
	wall      func(now time.Time) time.Duration // the wall clock at now, as time since start
	suspended func() (time.Duration, bool)      // since the machine started; false: unknown
	before    time.Duration                     // what suspended returned when the clock was made

	mu      sync.Mutex   // held while the system is asked
	checked atomic.Int64 // when the system was asked last, as time since start
	ahead   atomic.Int64 // by how much the wall clock was ahead of the monotonic one then
	asleep  atomic.Int64 // how long the machine was suspended since the clock was made
}

const (
	// The two clocks are not read at exactly the same time.
	clockJitter = time.Millisecond
	// The system is asked this often even if the clocks agree: the wall clock may have been set back during a suspension.
	clockPeriod = time.Second
	// A slewed wall clock moves against the monotonic one by less than this part of the time. The margin of a window covers as
	// much.
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
	moved := ahead - time.Duration(c.ahead.Load()) // read before asleep: check stores them in the other order
	if max(moved, -moved) > clockJitter || since-time.Duration(c.checked.Load()) >= clockPeriod {
		return c.check(ahead)
	}
	return instant{now, c.known()}
}

// known is how long the machine was suspended, as far as it was noticed.
func (c *clock) known() time.Duration { return time.Duration(c.asleep.Load()) }

// check asks the system how long the machine was suspended. If the system does not know, the wall clock counts: a jump
// forward may have been a suspension.
func (c *clock) check(ahead time.Duration) instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	since := now.Sub(start)
	ahead = max(ahead, c.wall(now)-since) // a goroutine interrupted between the two clocks reads too little
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
