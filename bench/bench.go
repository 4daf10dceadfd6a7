package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// settings are the values of the flags.
type settings struct {
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration"` // of a measurement under contention; others take a share of it
	Smoke    bool          `json:"smoke"`
	only     *regexp.Regexp
	out      string
}

// scale is the size of the workloads, as far as the settings do not determine it.
type scale struct {
	waiters       []int // that are in the queue during a hand-off
	handOffs      int   // to measure for each number of waiters
	idlers        int
	idleTTL       time.Duration
	permits       int
	permitTTL     time.Duration
	permitFor     time.Duration
	processes     int // that wait while another one holds
	processHold   time.Duration
	releases      int
	memoryWaiters int
	rateLimit     int64
	rateWindow    time.Duration
}

func (s settings) scale() scale {
	if s.Smoke {
		return scale{
			waiters: []int{10, 100, 1000}, handOffs: 100,
			idlers: 100, idleTTL: time.Second,
			permits: 1000, permitTTL: time.Second, permitFor: time.Second,
			processes: 10, processHold: 20 * time.Millisecond, releases: 500, // no process begins after them
			memoryWaiters: 1000,
			rateLimit:     50, rateWindow: 50 * time.Millisecond,
		}
	}
	return scale{
		waiters: []int{10, 1000, 100_000}, handOffs: 2000,
		idlers: 1000, idleTTL: 3 * time.Second,
		permits: 10_000, permitTTL: 10 * time.Second, permitFor: 30 * time.Second,
		processes: 200, processHold: 500 * time.Millisecond, releases: 10,
		memoryWaiters: 50_000,
		rateLimit:     1000, rateWindow: time.Second,
	}
}

// bench is one run of all selected workloads.
type bench struct {
	settings
	scale
	server   *server
	machine  machine
	progress io.Writer
	noNode   string // why redis-semaphore is left out; "": it is included
	keys     int    // used so far
}

// workload is a name and a function that measures and compares with the targets.
type workload struct {
	name string
	run  func(context.Context, *bench) (*section, error)
}

// workloads returns all workloads in the order of the table.
func workloads() []workload {
	var all []workload
	for _, r := range comparisons() {
		all = append(all, workload{r.name, r.run})
	}
	return append(all,
		workload{"rate", rates},
		workload{"waiters", queueLengths},
		workload{"idle", idleWaiters},
		workload{"held", heldPermits},
		workload{"herd", herd},
		workload{"memory", memory},
	)
}

// run runs the workloads that the settings select.
func (b *bench) run(ctx context.Context) ([]*section, error) {
	var sections []*section
	for _, s := range workloads() {
		if !b.only.MatchString(s.name) {
			continue
		}
		started := time.Now()
		if err := b.server.empty(ctx); err != nil {
			return nil, err
		}
		found, err := s.run(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		b.logf("%s: %.1f s", s.name, time.Since(started).Seconds())
		sections = append(sections, found)
	}
	if len(sections) == 0 {
		return nil, errors.New("no workload matches -run; the workloads are " + strings.Join(workloadNames(), ", "))
	}
	return sections, nil
}

func workloadNames() []string {
	var names []string
	for _, s := range workloads() {
		names = append(names, s.name)
	}
	return names
}

// logf reports progress.
func (b *bench) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, format+"\n", args...) // an error here cannot be reported
}

// key returns a name that was not used on this server before.
func (b *bench) key() string {
	b.keys++
	return fmt.Sprintf("bench-%d", b.keys)
}

// newBench starts the server. The caller must stop it.
func newBench(ctx context.Context, s settings, progress io.Writer) (*bench, error) {
	b := &bench{settings: s, scale: s.scale(), progress: progress, noNode: nodeMissing()}
	if b.noNode != "" {
		b.logf("redis-semaphore is left out: %s", b.noNode)
	}
	var err error
	if b.server, err = startServer(ctx); err != nil {
		return nil, err
	}
	b.machine = newMachine(ctx, b.server)
	b.logf("on %s", b.machine)
	return b, nil
}
