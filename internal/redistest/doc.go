// Package redistest starts private Redis servers on this machine and stops exactly those: a single server, one that
// speaks TLS only and wants a password, a cluster of three masters and three replicas, or a primary with two replicas under
// three sentinels. [Proxy] puts a network that can be held up or cut between a client and any of them.
//
// Everything listens on 127.0.0.1 only and keeps its files in a temporary folder of its own. Start functions return when
// the thing is ready to use; when they fail nothing is left behind. Stop methods end every process and remove every folder
// they are responsible for, may be called twice, and work on paused and killed servers too. On Linux a server dies with
// the process that started it, however that ends; its folder stays then.
//
// The redis-server binary on PATH is used, or the one that the environment variable FAIRSEM_REDIS_SERVER names (a Valkey,
// say); Redis 7.0 is the oldest that can form the cluster.
//
// The core needs no [testing.TB], so that programs can use it. Tests find thin wrappers in testing.go: SharedServer,
// SharedSecure, SharedCluster and SharedSentinel give what one test process has one of, NewServer and the like give a
// private one. Where there is no server to start they skip the test, or fail it in CI; [Program] does so for any program.
package redistest
