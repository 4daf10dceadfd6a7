package main

import (
	"math"
	"runtime"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

var began, beganHere = bothClocks()

// now returns history.Now, the time of the clock that all processes of this machine share, in nanoseconds. It reads Go's
// monotonic clock, which is the same clock on Linux, because that needs no system call: at a quarter of a million pairs per
// second, system calls would influence the result.
func now() int64 { return beganHere + int64(time.Since(began)) }

// bothClocks reads the two clocks as close together as possible. If the process were suspended between the two reads, its clock
// would always be ahead of those of the others, and it would seem to hold their permits.
func bothClocks() (here time.Time, shared int64) {
	closest := time.Duration(math.MaxInt64)
	for range 1000 {
		before, now := time.Now(), history.Now()
		if apart := time.Since(before); apart < closest {
			closest, here, shared = apart, before, now
		}
	}
	return here, shared
}

// until returns the time from now until at.
func until(at int64) time.Duration { return time.Duration(at - now()) }

// sleepLead is how much earlier holdUntil ends its sleep, because a sleep ends late by about this much.
const sleepLead = 150 * time.Microsecond

// holdUntil returns at the given time of now, within microseconds if a core is free. If a hold of 5 ms takes 5.2 ms, 4 % of the
// limit is unused, whatever the semaphore does. holdUntil occupies a thread, so only holders use it, of which there are few.
func holdUntil(at int64) {
	if d := until(at) - sleepLead; d > 0 {
		threadSleep(d)
	}
	for now() < at {
		runtime.Gosched()
	}
}
