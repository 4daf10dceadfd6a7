package fair

import (
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

// Await waits until it is time for a check: until a fresh sensor says that a call waits, and for at most pause, unless that is 0. It
// returns false if the permit has ended before. With neither a fresh sensor nor a pause it waits for that end alone.
func (s Sensor) Await(pause time.Duration) bool {
	var wanted, ended <-chan struct{}
	if s.permit != nil {
		ended = s.permit.Context().Done()
	}
	if s.Fresh {
		wanted = s.permit.Wanted()
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	if pause == 0 {
		timer.Stop()
	}
	select {
	case <-wanted:
	case <-timer.C:
	case <-ended:
		return false
	}
	return true
}
