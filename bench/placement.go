package main

// placement is on which cores Redis and the workers run. It matters where everybody waits for
// everybody: on a virtual machine, to wake a core that sleeps costs more than a whole round trip
// does, and whether client and server happen to share a core decides about a factor of three.
type placement int

const (
	anywhere placement = iota // as the kernel likes
	together                  // all on one core: nobody waits for a core to wake, all work counts
	apart                     // Redis has a core of its own
)
