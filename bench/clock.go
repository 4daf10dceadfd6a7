package main

import (
	"math"
	"runtime"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

var began, beganHere = bothClocks()

// now is history.Now, the clock that all processes of this machine share, in nanoseconds. It reads
// Go's monotonic clock, which is the same clock on Linux, without a system call each time: at a
// quarter of a million pairs per second those would be measured too.
func now() int64 { return beganHere + int64(time.Since(began)) }

// bothClocks reads the two clocks at one time, as nearly as can be: a process that is put aside between
// the readings would be ahead of the others ever after, and seem to hold what they hold.
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
