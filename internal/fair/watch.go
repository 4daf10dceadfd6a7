package fair

import (
	"cmp"
	"iter"
	"time"

	"github.com/fairsem/fairsem"
)

// Sensor is a permit of a pool, which brings the message that a call waits. The message comes with a renewal, at most once for each
// permit.
type Sensor struct {
	permit *fairsem.Permit // nil: none is held
	Fresh  bool            // the message can still come
}

// SensorOf returns a fresh one, if one of the permits is.
func SensorOf(permits iter.Seq[*fairsem.Permit]) (s Sensor) {
	for p := range permits {
		if p.Context().Err() != nil {
			continue
		}
		s.permit = p
		select {
		case <-p.Wanted():
		default:
			s.Fresh = true
			return s
		}
	}
	return s
}

// Ended reports whether no permit was held.
func (s Sensor) Ended() bool { return s.permit == nil }

// CheckWait is how long a check may wait for Redis.
const CheckWait = 2 * time.Second

// Schedule is when a pool checks next. The first check of the zero Schedule is due at once.
type Schedule struct {
	pause time.Duration // 0: not known
	due   time.Time     // zero: now
}

// Pause is the time between checks while others wait: that of the last census that was given to Follow, or a second.
func (s *Schedule) Pause() time.Duration { return cmp.Or(s.pause, firstPause) }

// Follow takes the pause from a census in which others wait: only that knows the TTL. The check that is due stays as it is.
func (s *Schedule) Follow(now Census) { s.pause = now.Pause() }

// Due is when the next check is due, as for Watch.
func (s *Schedule) Due() time.Time { return cmp.Or(s.due, time.Now()) }

// Next has the next check be due in that time.
func (s *Schedule) Next(in time.Duration) { s.due = time.Now().Add(in) }

// Watch calls check whenever it is time for one, and returns when sensor returns one that has ended. sensor also returns when a check is
// due without a message; the zero Time: no sooner.
func Watch(sensor func() (s Sensor, due time.Time), check func()) {
	for {
		s, due := sensor()
		if s.Ended() {
			return
		}
		if s.await(due) {
			check()
		}
	}
}

// await waits until it is time for a check: until a fresh sensor says that a call waits, or until a check is due, unless that is the
// zero Time. If the permit ends before, it returns false, unless the check is due. The sensor must not have ended.
func (s Sensor) await(due time.Time) bool {
	var wanted <-chan struct{}
	if s.Fresh {
		wanted = s.permit.Wanted()
	}
	var timeout <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-wanted:
	case <-timeout:
	case <-s.permit.Context().Done():
		return !due.IsZero() && !time.Now().Before(due) // of permits that end often, one always has
	}
	return true
}
