package clock

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// suspended is how long the machine was suspended since it started: by how much CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC.
// Neither follows a step of the wall clock.
func suspended() (total time.Duration, known bool) {
	total = math.MinInt64
	for range 2 { // a thread interrupted between the two clocks reads too little
		var boot, awake unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil {
			return 0, false
		}
		total = max(total, time.Duration(boot.Nano()-awake.Nano()))
	}
	return total, true
}
