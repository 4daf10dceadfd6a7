// Package clock reads the time, with how long the machine was suspended, and waits.
package clock

import (
	"sync"
	"sync/atomic"
	"time"
)

// Start is the zero of this process's clock where a time must fit into an atomic.
var Start = time.Now()

// Instant is a moment on the monotonic clock, with how long the machine had been suspended by then, as far as it was
// noticed. On most systems the monotonic clock stands still while the machine is suspended.
type Instant struct {
	time.Time
	Asleep time.Duration // since the clock was made
}

// SinceStart is the time since start, suspensions included.
func (i Instant) SinceStart() time.Duration { return i.Sub(Start) + i.Asleep }

// Clock reads the time and notices suspensions of the machine. It reads the monotonic clock and the wall clock, which
// continues during a suspension, together without a system call. Only when they have moved against each other, and once
// in a while, it asks the system whether that was a suspension or a step of the wall clock.
type Clock struct {
	wall      func(now time.Time) time.Duration // the wall clock at now, as time since start
	suspended func() (time.Duration, bool)      // since the machine started; false: unknown
	before    time.Duration                     // the result of suspended when the clock was made

	mu      sync.Mutex   // held while the system is asked
	checked atomic.Int64 // when the system was asked last, as time since start
	ahead   atomic.Int64 // by how much the wall clock was ahead of the monotonic one then
	asleep  atomic.Int64 // how long the machine was suspended since the clock was made
}

const (
	// Jitter allows for two clocks that are not read at exactly the same time.
	Jitter = time.Millisecond
	// Period is how often the system is asked even if the clocks agree: the wall clock may have been set back during a suspension.
	Period = time.Second
	// A slewed wall clock moves against the monotonic one by less than this part of the time. The margin of a lease covers
	// as much.
	slew = 100
)

// New returns the clock of this machine.
func New() *Clock { return newClock(wall, suspended) }

func newClock(wall func(time.Time) time.Duration, suspended func() (time.Duration, bool)) *Clock {
	c := &Clock{wall: wall, suspended: suspended}
	c.before, _ = suspended()
	now := time.Now()
	c.checked.Store(int64(now.Sub(Start)))
	c.ahead.Store(int64(wall(now) - now.Sub(Start)))
	return c
}

// wall is the wall clock at now, as time since Start.
func wall(now time.Time) time.Duration {
	return time.Duration(now.UnixNano() - Start.UnixNano())
}

// Now reads the clock. It makes no system call, except now and then.
func (c *Clock) Now() Instant {
	now := time.Now()
	since := now.Sub(Start)
	ahead := c.wall(now) - since
	moved := ahead - time.Duration(c.ahead.Load()) // read before asleep: check stores them in the other order
	if max(moved, -moved) > Jitter || since-time.Duration(c.checked.Load()) >= Period {
		return c.check(ahead)
	}
	return Instant{now, c.Asleep()}
}

// Asleep is how long the machine was suspended, as far as it was noticed.
func (c *Clock) Asleep() time.Duration { return time.Duration(c.asleep.Load()) }

// check asks the system how long the machine was suspended. If the system does not know, the wall clock counts: a jump
// forward may have been a suspension.
func (c *Clock) check(ahead time.Duration) Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	since := now.Sub(Start)
	ahead = max(ahead, c.wall(now)-since) // a goroutine interrupted between the two clocks reads too little
	slept, atLeast := ahead-time.Duration(c.ahead.Load()), Jitter+(since-time.Duration(c.checked.Load()))/slew
	if total, known := c.suspended(); known {
		slept, atLeast = total-c.before-c.Asleep(), Jitter
	}
	if slept > atLeast {
		c.asleep.Add(int64(slept))
	}
	c.ahead.Store(int64(ahead))
	c.checked.Store(int64(since))
	return Instant{now, c.Asleep()}
}
