package main

import (
	"runtime"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

var (
	began     = time.Now()
	beganHere = history.Now()
)

// now is history.Now, the clock that all processes of this machine share, in nanoseconds. It reads
// Go's monotonic clock, which is the same clock on Linux, without a system call each time: at a
// quarter of a million pairs per second those would be measured too.
func now() int64 { return beganHere + int64(time.Since(began)) }

// until is how long it is to that time of now.
func until(at int64) time.Duration { return time.Duration(at - now()) }

// nap is how early holdUntil wakes from its sleep, which is late by about this.
const nap = 150 * time.Microsecond

// holdUntil returns at that time of now, within microseconds where a core is free. A hold of 5 ms that
// lasts 5.2 ms is 4 % of the limit unused that no semaphore can win back. It takes a thread, so it is
// for holders, of which there are few.
func holdUntil(at int64) {
	if d := until(at) - nap; d > 0 {
		rest(d)
	}
	for now() < at {
		runtime.Gosched()
	}
}
