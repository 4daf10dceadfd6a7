// Package redistest starts private Redis servers on this machine and stops only those. It starts a single server, a server that
// requires TLS and a password, a cluster of three primaries and three replicas, or a primary with two replicas and three
// sentinels. A [Proxy] between a client and any of them can hold or cut the connections.
//
// Every server listens on 127.0.0.1 only and keeps its files in its own temporary folder. Start functions return when the
// servers are ready. If they fail, they leave nothing behind. Stop methods end every process and remove every folder that
// belongs to them. They may be called twice, and also work on paused and killed servers. On Linux a server dies with the
// process that started it, however that process ends; its folder then stays.
//
// The package uses the redis-server binary on PATH, or the one that the environment variable FAIRSEM_REDIS_SERVER names, for
// example Valkey.
//
// The core does not need a [testing.TB], so that programs can use it. Tests use the thin wrappers in testing.go. SharedServer,
// SharedSecure, SharedCluster and SharedSentinel return servers that all tests of a process share. NewServer and the like return a
// private one. Without a redis-server binary they skip the test, or fail it in CI. [Program] does the same for any program.
package redistest
