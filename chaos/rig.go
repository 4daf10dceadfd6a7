package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/redistest"
)

// The kinds of server.
const (
	single   = "single"
	durable  = "AOF always"   // a single one that writes down what it does before it says so
	lagging  = "AOF everysec" // one that may put off for two seconds what it writes down, while the disk is busy
	skewed   = "single, own clock"
	cluster  = "cluster 3+3"
	sentinel = "sentinel 1+2"
	pair     = "primary + replica" // at addresses that follow the primary
)

// rig is the servers of one run and the network before them. Only the fields of its kind are set.
type rig struct {
	kind     string
	server   *redistest.Server
	proxies  []*redistest.Proxy  // one for each place in the team, so that what one suffers spares the others
	nodes    []*redistest.Server // of a pair, the primary first
	clock    *clock
	cluster  *redistest.Cluster
	sentinel *redistest.Sentinel
	monitor  redis.UniversalClient
}

func startRig(kind, folder string) (*rig, error) {
	r := &rig{kind: kind}
	if err := r.start(folder); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

func (r *rig) start(folder string) (err error) {
	switch r.kind {
	case cluster:
		if r.cluster, err = redistest.StartCluster(); err == nil {
			r.monitor = r.cluster.Client()
		}
		return err
	case sentinel:
		if r.sentinel, err = redistest.StartSentinel(); err == nil {
			r.monitor = r.sentinel.Client()
		}
		return err
	case pair:
		return r.launchPair()
	case durable:
		return r.launch(nil, "--appendonly", "yes", "--appendfsync", "always")
	case lagging:
		return r.launch(nil, "--appendonly", "yes", "--appendfsync", "everysec")
	case skewed:
		if r.clock, err = newClock(folder); err != nil {
			return err
		}
		return r.launch(r.clock.env())
	}
	return r.launch(nil, "--enable-debug-command", "local")
}

// The workers have a user of their own, so that faults can change its rights and nobody else's. It is on
// the command line, so that it outlives a restart.
const (
	workerUser     = "worker"
	workerPassword = "chaos"
)

var userArgs = []string{"--user", workerUser, "on", ">" + workerPassword, "~*", "&*", "+@all"}

// launch starts the one server with what args say beside that.
func (r *rig) launch(env []string, args ...string) (err error) {
	if r.server, err = redistest.StartWith(env, append(slices.Clone(userArgs), args...)...); err != nil {
		return err
	}
	r.monitor = impatient(r.server.Addr())
	return r.bridge(r.server.Addr())
}

// impatient is a client that does not wait long for a server that has just been killed.
func impatient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: time.Second})
}

// ways are one for the monitor of a pair, and one each for the workers, the observer and those on call.
const ways = 1 + processes + 1 + 2

// bridge starts a proxy for each of the ways to a server.
func (r *rig) bridge(addr string) error {
	for range ways {
		proxy, err := redistest.StartProxy(addr)
		if err != nil {
			return err
		}
		r.proxies = append(r.proxies, proxy)
	}
	return nil
}

// ask sends a command to the one server, past the proxy.
func (r *rig) ask(args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return r.monitor.Do(ctx, args...).Err()
}

// address is how the nth process gets there, the first of which has number 1.
func (r *rig) address(n int, role string) address {
	switch r.kind {
	case cluster:
		var all []string
		for _, n := range r.cluster.Nodes {
			all = append(all, n.Addr())
		}
		return address{Kind: "cluster", Addrs: all}
	case sentinel:
		return address{Kind: "sentinel", Addrs: r.sentinel.Addrs(), Master: redistest.PrimaryName}
	}
	if role == atWork {
		n = 1 + (n-1)%processes // who replaces somebody, too
	}
	addr := r.proxies[n].Addr()
	if role == looks && r.kind != pair {
		addr = r.server.Addr()
	}
	return address{Kind: "single", Addrs: []string{addr}, User: workerUser, Password: workerPassword}
}

// stop stops what was started.
func (r *rig) stop() error {
	var errs []error
	if r.cluster != nil {
		return r.cluster.Stop()
	}
	if r.sentinel != nil {
		return r.sentinel.Stop()
	}
	for _, proxy := range r.proxies {
		errs = append(errs, proxy.Close())
	}
	for _, n := range r.nodes {
		errs = append(errs, n.Stop())
	}
	if r.monitor != nil {
		errs = append(errs, r.monitor.Close())
	}
	if r.server != nil {
		errs = append(errs, r.server.Stop())
	}
	return errors.Join(errs...)
}

// clock is the wall clock of one server, which can be stepped.
type clock struct {
	library string
	file    string // with the offset
	offset  int    // in seconds
}

// shim adds the seconds in the file that FAIRSEM_CLOCK names to every clock but the monotonic ones. It
// asks the kernel itself, because what it replaces is what it would have to call.
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
func newClock(folder string) (*clock, error) {
	source := filepath.Join(folder, "clock.c")
	c := &clock{library: filepath.Join(folder, "clock.so"), file: filepath.Join(folder, "clock.offset")}
	if err := os.WriteFile(source, []byte(shim), 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", c.library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the clock: %w: %s", err, out)
	}
	_, err := c.step(0)
	return c, err
}

func (c *clock) env() []string { return []string{"LD_PRELOAD=" + c.library, "FAIRSEM_CLOCK=" + c.file} }

// step moves the clock by so many seconds, and returns how far it is from the truth. A rename, so that no
// reader finds half a number.
func (c *clock) step(by int) (int, error) {
	c.offset += by
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendln(nil, c.offset), 0o600); err != nil {
		return 0, err
	}
	return c.offset, os.Rename(next, c.file)
}
