package main

// placement is on which cores Redis and the workers run. It matters if client and server wait for each other: on a virtual
// machine, waking a core takes longer than a round trip. If client and server happen to share a core, the result differs by a
// factor of three.
type placement int

const (
	anyCore placement = iota // the kernel decides
	oneCore                  // all on one core: no core must be woken, and all work counts
	ownCore                  // Redis has its own core
)
