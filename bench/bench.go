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

// settings are what the command line says.
type settings struct {
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration"` // of a measurement under contention; others take a share of it
	Smoke    bool          `json:"smoke"`
	only     *regexp.Regexp
	out      string
}

// scale is how large the workloads are that are not given by the settings.
type scale struct {
	waiters       []int // that stand in line at a hand-off
	handOffs      int   // that are measured at each of these
	idlers        int
	idleTTL       time.Duration
	permits       int
	permitTTL     time.Duration
	permitFor     time.Duration
	processes     int // that wait while one holds
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
			processes: 10, processHold: 20 * time.Millisecond, releases: 5,
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

// bench is one run of everything.
type bench struct {
	settings
	scale
	server   *server
	machine  machine
	progress io.Writer
	noNode   string // why redis-semaphore is left out; "": it is not
	keys     int    // given out so far
}

// study is one workload: it measures and judges.
type study struct {
	name string
	run  func(context.Context, *bench) (*section, error)
}

// studies has all workloads, in the order of the table.
func studies() []study {
	var all []study
	for _, r := range races() {
		all = append(all, study{r.name, r.run})
	}
	return append(all,
		study{"rate", rates},
		study{"waiters", lineLengths},
		study{"idle", idleWaiters},
		study{"held", heldPermits},
		study{"herd", herd},
		study{"memory", memory},
	)
}

// run measures what the settings ask for.
func (b *bench) run(ctx context.Context) ([]*section, error) {
	var sections []*section
	for _, s := range studies() {
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
		b.say("%s: %.1f s", s.name, time.Since(started).Seconds())
		sections = append(sections, found)
	}
	if len(sections) == 0 {
		return nil, errors.New("no workload has such a name; there are " + strings.Join(studyNames(), ", "))
	}
	return sections, nil
}

func studyNames() []string {
	var names []string
	for _, s := range studies() {
		names = append(names, s.name)
	}
	return names
}

// say tells how far the bench is.
func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, format+"\n", args...) // there is nobody else to tell
}

// key returns a name that was not used before on this server.
func (b *bench) key() string {
	b.keys++
	return fmt.Sprintf("bench-%d", b.keys)
}

// newBench starts the server. The caller stops it.
func newBench(ctx context.Context, s settings, progress io.Writer) (*bench, error) {
	b := &bench{settings: s, scale: s.scale(), progress: progress, noNode: nodeMissing()}
	if b.noNode != "" {
		b.say("redis-semaphore is left out: %s", b.noNode)
	}
	var err error
	if b.server, err = startServer(ctx); err != nil {
		return nil, err
	}
	b.machine = newMachine(ctx, b.server)
	b.say("on %s", b.machine)
	return b, nil
}
