package main

import (
	"fmt"
	"time"
)

// clockFaults step the clock of the server, in each run in one direction only. A step forward ends leases, also those of waiters.
// After a step back, Redis expires keys later. The pauses leave time after the grace period that a step may begin.
func clockFaults() []fault {
	return []fault{
		{name: "clock stepped by -60 s", kind: skewed, exempt: []promise{keysExpire}, maxPause: 2 * time.Second, strike: stepClock(-60)},
		{name: "clock stepped by +60 s", kind: skewed, exempt: []promise{limitByContext, oneOrder, fifo, fairShares, ownNumbers, liveOnArrival, lossReported}, maxPause: 2 * time.Second, strike: stepClock(+60)},
	}
}

func stepClock(by int) func(*environment) (string, error) {
	return func(env *environment) (string, error) {
		offset, err := env.deployment.clock.step(by)
		return fmt.Sprintf("clock off by %d s", offset), err
	}
}
