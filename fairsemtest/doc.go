// Package fairsemtest is for the tests of programs that use fairsem: a Redis in memory, and clients of it.
//
//	server := fairsemtest.NewServer(t)
//	client := server.Client(fairsem.Options{}) // each is another process
//
// There is no port, no container, and nothing to clean up: the end of the test closes all clients of [Server.Client]. The server is miniredis, and
// it runs the library's own scripts, so limits, order, leases and tokens are as on Redis. Each test has a server of its
// own, and tests may run in parallel.
//
// # Time
//
// Run a test about time in a bubble of [testing/synctest], and create the server inside it. There time.Sleep moves the
// clocks of the server and of all processes alike, and the events of that time come in their order: renewals, the loss
// of permits that [Server.Kill] or [Server.Down] disconnected, and then the grant to the head of the queue. An hour takes half a
// second for each process that holds or waits with the default TTL, and ten milliseconds with a TTL of an hour.
//
// Outside a bubble the clocks of the processes run in real time, and a client trusts its lease by its own. So
// [Server.Advance] moves the server's clock, which expires the permits and positions of dead processes, and revokes nothing from the
// living. [Server.Expire] does that, and their permits end with [fairsem.ErrLost]. Both take effect within a millisecond
// or so.
//
// # What is not real
//
// This is not Redis. A script takes a fraction of a millisecond instead of microseconds, so a test says nothing about
// speed, and one that holds thousands of names takes seconds to close. The server is never full, evicts nothing, denies no right, and has neither a cluster nor a failover nor
// replicas: with [fairsem.Options.WaitReplicas] nothing is granted. It loses nothing, so nothing is restored, and
// [fairsem.Options.Grace] is a millisecond by default. When it is down it refuses at once, where a network may be silent.
// And nothing here stops your code as a SIGSTOP would: a killed process is one whose messages no longer arrive.
//
// Where any of that matters, test on a real server: how long callers wait under load, rights and TLS, Sentinel and
// Cluster, restarts. And let one test start the program as it will run.
package fairsemtest
