package main

import "fmt"

// clockFaults step the clock of the server. It goes one way in a run: the way back is the other fault.
// A step forward ends leases, those of places in line too. After a step back Redis expires keys later.
func clockFaults() []fault {
	return []fault{
		{name: "clock stepped by -60 s", kind: skewed, not: []promise{tidy}, strike: stepClock(-60)},
		{name: "clock stepped by +60 s", kind: skewed, not: []promise{held, linear, inOrder, alive, told}, strike: stepClock(+60)},
	}
}

func stepClock(by int) func(*arena) (string, error) {
	return func(a *arena) (string, error) {
		offset, err := a.rig.clock.step(by)
		return fmt.Sprintf("clock off by %d s", offset), err
	}
}
