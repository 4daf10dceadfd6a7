package clock

import (
	"sync/atomic"
	"time"
)

// Simulated is a machine that a test suspends, with a wall clock that the test sets. Its monotonic clock is that of the
// test, so it stands still during a suspension.
type Simulated struct {
	Silent atomic.Bool // it does not report suspensions

	steps atomic.Int64 // by how much the wall clock was set forward
	slept atomic.Int64
	asked atomic.Int64
}

// Clock returns a clock of that machine.
func (s *Simulated) Clock() *Clock { return newClock(s.wall, s.suspended) }

// Suspend lets the machine sleep for d, in no time.
func (s *Simulated) Suspend(d time.Duration) { s.slept.Add(int64(d)) }

// Step sets the wall clock forward.
func (s *Simulated) Step(d time.Duration) { s.steps.Add(int64(d)) }

// Asked is how often a clock has asked the system.
func (s *Simulated) Asked() int64 { return s.asked.Load() }

func (s *Simulated) wall(now time.Time) time.Duration {
	return now.Sub(Start) + time.Duration(s.steps.Load()+s.slept.Load())
}

func (s *Simulated) suspended() (time.Duration, bool) {
	s.asked.Add(1)
	if s.Silent.Load() {
		return 0, false
	}
	return time.Hour + time.Duration(s.slept.Load()), true // one hour of it before the clock was made
}
