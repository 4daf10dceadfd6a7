package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/redistest"
)

// The kinds of server.
const (
	single   = "single"
	durable  = "AOF always"   // a single one that writes to its file before it answers
	lagging  = "AOF everysec" // a single one that may write to its file up to two seconds later, while the disk is busy
	skewed   = "single, own clock"
	cluster  = "cluster 3+3"
	sentinel = "sentinel 1+2"
	pair     = "primary + replica" // the proxies follow the primary
)

// deployment is the servers of one run and their proxies. Only the fields of its kind are set.
type deployment struct {
	kind     string
	server   *redistest.Server
	proxies  []*redistest.Proxy  // one for each process, so that a fault can affect one process only
	nodes    []*redistest.Server // of a pair, the primary first
	clock    *ownClock
	cluster  *redistest.Cluster
	sentinel *redistest.Sentinel
	monitor  redis.UniversalClient
}

func startDeployment(kind, folder string) (*deployment, error) {
	d := &deployment{kind: kind}
	if err := d.start(folder); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *deployment) start(folder string) (err error) {
	switch d.kind {
	case cluster:
		if d.cluster, err = redistest.StartCluster(); err == nil {
			d.monitor = d.cluster.Client()
		}
		return err
	case sentinel:
		if d.sentinel, err = redistest.StartSentinel(); err == nil {
			d.monitor = d.sentinel.Client()
		}
		return err
	case pair:
		return d.startPair()
	case durable:
		return d.startServer(nil, "--appendonly", "yes", "--appendfsync", "always")
	case lagging:
		return d.startServer(nil, "--appendonly", "yes", "--appendfsync", "everysec")
	case skewed:
		if d.clock, err = newOwnClock(folder); err != nil {
			return err
		}
		return d.startServer(d.clock.env())
	}
	return d.startServer(nil, debugArgs(redisVersion(context.Background()))...)
}

// debugArgs allow DEBUG. Redis before 7 allows it anyway, and does not start with a setting that it does not know.
func debugArgs(version string) []string {
	if strings.HasPrefix(version, "Redis server v=6.") {
		return nil
	}
	return []string{"--enable-debug-command", "local"}
}

// The workers have their own user, so that faults can change its rights without affecting others. It is on the command line, so
// that it still exists after a restart.
const (
	workerUser     = "worker"
	workerPassword = "chaos"
)

var userArgs = []string{"--user", workerUser, "on", ">" + workerPassword, "~*", "&*", "+@all"}

// startServer starts the single server with these arguments, and its proxies.
func (d *deployment) startServer(env []string, args ...string) (err error) {
	if d.server, err = redistest.StartWith(env, append(slices.Clone(userArgs), args...)...); err != nil {
		return err
	}
	d.monitor = noRetryClient(d.server.Addr())
	return d.startProxies(d.server.Addr())
}

// noRetryClient returns a client that does not wait long for a server that has just been killed.
func noRetryClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second})
}

// proxyCount is one proxy for the monitor of a pair, and one for each worker, for the observer and for the processes on call.
const proxyCount = 1 + workers + 1 + 2

// startProxies starts all proxies to a server.
func (d *deployment) startProxies(addr string) error {
	for range proxyCount {
		proxy, err := redistest.StartProxy(addr)
		if err != nil {
			return err
		}
		d.proxies = append(d.proxies, proxy)
	}
	return nil
}

// do sends a command to the server, bypassing the proxies.
func (d *deployment) do(args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return d.monitor.Do(ctx, args...).Err()
}

// address returns the address for the nth process. The first process has number 1.
func (d *deployment) address(n int, role string) address {
	switch d.kind {
	case cluster:
		var all []string
		for _, n := range d.cluster.Nodes {
			all = append(all, n.Addr())
		}
		return address{Kind: "cluster", Addrs: all}
	case sentinel:
		return address{Kind: "sentinel", Addrs: d.sentinel.Addrs(), Primary: redistest.PrimaryName}
	}
	if role == roleWorker {
		n = 1 + (n-1)%workers // also for a worker that replaces a killed one
	}
	addr := d.proxies[n].Addr()
	if role == roleObserver && d.kind != pair {
		addr = d.server.Addr()
	}
	return address{Kind: "single", Addrs: []string{addr}, User: workerUser, Password: workerPassword}
}

// stop stops all servers and proxies.
func (d *deployment) stop() error {
	var errs []error
	if d.cluster != nil {
		return d.cluster.Stop()
	}
	if d.sentinel != nil {
		return d.sentinel.Stop()
	}
	for _, proxy := range d.proxies {
		errs = append(errs, proxy.Close())
	}
	for _, n := range d.nodes {
		errs = append(errs, n.Stop())
	}
	if d.monitor != nil {
		errs = append(errs, d.monitor.Close())
	}
	if d.server != nil {
		errs = append(errs, d.server.Stop())
	}
	return errors.Join(errs...)
}

// ownClock is the wall clock of one server. Faults can step it.
type ownClock struct {
	library string
	file    string // with the offset
	offset  int    // in seconds
}

// shim adds the seconds in the file that FAIRSEM_CLOCK names to every clock but the monotonic ones. It calls the kernel directly,
// because it replaces the functions of the C library.
const shim = `#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
  long seconds = 0;
  FILE *file = fopen(getenv("FAIRSEM_CLOCK"), "r");
  if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
  return seconds;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
  int failed = syscall(SYS_clock_gettime, id, ts);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) ts->tv_sec += offset();
  return failed;
}

int gettimeofday(struct timeval *tv, void *zone) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  tv->tv_sec = ts.tv_sec;
  tv->tv_usec = ts.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  if (out) *out = ts.tv_sec;
  return ts.tv_sec;
}
`

// newClock compiles the shim into a folder.
func newOwnClock(folder string) (*ownClock, error) {
	source := filepath.Join(folder, "clock.c")
	c := &ownClock{library: filepath.Join(folder, "clock.so"), file: filepath.Join(folder, "clock.offset")}
	if err := os.WriteFile(source, []byte(shim), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", c.library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the clock: %w: %s", err, out)
	}
	_, err := c.step(0)
	return c, err
}

func (c *ownClock) env() []string {
	return []string{"LD_PRELOAD=" + c.library, "FAIRSEM_CLOCK=" + c.file}
}

// step moves the clock by a number of seconds, and returns its total offset. It renames a new file, so that no reader finds half a
// number.
func (c *ownClock) step(by int) (int, error) {
	c.offset += by
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendln(nil, c.offset), 0o600); err != nil {
		return 0, err
	}
	return c.offset, os.Rename(next, c.file)
}
