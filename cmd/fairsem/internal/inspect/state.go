package inspect

import (
	"time"

	"github.com/fairsem/fairsem"
)

// Busy reports whether the name has a holder or a waiter.
func Busy(s fairsem.Status) bool { return s.Used != 0 || s.Waiting != 0 }

// Paused reports whether all grants were stopped by hand.
func Paused(s fairsem.Status) bool { return s.Pinned && s.Limit == 0 }

// Full reports whether nothing can be granted: all units are in use, more than the limit are, or the name is paused. None
// of these is a fault, so the bar is yellow, and red is left for faults.
func Full(s fairsem.Status) bool { return s.Used >= s.Limit }

// Since is how long t has held or waited when it is now on the server.
func Since(now time.Time, t fairsem.Ticket) time.Duration { return max(0, now.Sub(t.Since)) }
