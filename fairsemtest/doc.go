// Package fairsemtest is for the tests of programs that use fairsem: a Redis in memory, and clients on it.
//
//	server := fairsemtest.NewServer(t)
//	client := server.Client(fairsem.Options{}) // each is another process
//
// There is no port, no container, and nothing to clean up: the end of the test ends it all. What answers is
// miniredis, and it runs the library's own scripts, so limits, order, leases and tokens are what they are on
// Redis. A test has a server of its own, and tests may run in parallel.
//
// # Time
//
// Where a test is about time, have it in a bubble of [testing/synctest], the server with it. There
// time.Sleep moves the clocks of the server and of all processes alike, and what happens in that time
// happens in its order: renewals, the loss of what [Server.Kill] or [Server.Down] cut off, and then the grant
// to who is next. An hour takes half a second for each process that holds or waits with the default TTL, and
// ten milliseconds with a TTL of an hour.
//
// Outside a bubble the clocks of the processes go as they go, and a client trusts its lease by its own. So
// [Server.Advance] moves the server's clock, for what dead processes left behind, and takes nothing from
// the living; [Server.Expire] does that, and their permits end with [fairsem.ErrLost]. Either is felt within a
// millisecond or so.
//
// # What is not real
//
// This is not Redis. A script takes it a fraction of a millisecond instead of microseconds, so it tells nothing of
// speed. It is never full, evicts nothing, denies nobody a right, and has neither a cluster nor a failover nor
// replicas: with [fairsem.Options.WaitReplicas] nothing is granted. It forgets nothing, so nothing is put
// back, and [fairsem.Options.Grace] is a millisecond unless set. When it is down it says so at once, where a
// network may be silent. And nothing here stops your code as a SIGSTOP would: a killed process is
// one that nobody hears any more.
//
// Where any of that matters, test on a real server: how long callers wait under load, rights and TLS, Sentinel and
// Cluster, restarts. And let one test start the program as it will run.
package fairsemtest
