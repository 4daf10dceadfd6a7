package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
)

// herd makes many processes wait for one unit, each of them once. It counts the processes that a release wakes.
func herd(ctx context.Context, b *bench) (s *section, err error) {
	s = &section{
		Name: "herd", Title: fmt.Sprintf("limit 1, %d waiting processes; the first %d hold for %v", b.processes, min(b.releases, b.processes), b.processHold),
		Columns: []string{"woken each", "commands each", "samples"},
		Notes:   []string{"Each process wants the unit once; those that do not hold it release it at once. Per release: messages to processes, and commands that all processes together send, the release itself included. The PINGs with which silent subscriptions are checked are left out."},
	}
	b.logf("herd: %d processes", b.processes)
	name, jobs := b.herdJobs()
	c, _, err := startWorkers(ctx, jobs)
	defer func() { err = errors.Join(err, c.stop()) }()
	if err != nil {
		return s, err
	}
	f, err := b.releaseToHerd(ctx, c, name)
	if err != nil {
		return s, err
	}
	s.add(fmt.Sprintf("%d processes", b.processes), f)
	s.Targets = []target{
		atMost(1, "a release wakes one process", s.Series[0].values("woken each"), digits),
		atMost(1, "and only the process that releases sends a command", s.Series[0].values("commands each"), digits),
	}
	return s, nil
}

// herdTTL is so long that no process renews anything during the measurement.
const herdTTL = 10 * time.Minute

func (b *bench) herdJobs() (name string, jobs []job) {
	j := job{
		Contender: fair, Addr: b.server.addr(), Key: b.key(), Goroutines: 1, Names: 1, Limit: 1,
		Hold: b.processHold, Calls: 1, Journal: true, TTL: herdTTL,
	}
	for j.Process = range b.processes {
		jobs = append(jobs, j)
	}
	return j.name(0), jobs
}

// releaseToHerd holds the unit until all processes wait for it, and then monitors the server while they get it one after the
// other. Only the first b.releases of them hold it for the full time.
func (b *bench) releaseToHerd(ctx context.Context, c workerSet, name string) (f figures, err error) {
	first, err := b.fairsem(herdTTL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, first.close()) }()
	sem, err := first.client.Semaphore(name, 1)
	if err != nil {
		return nil, err
	}
	permit, err := sem.Acquire(ctx, 1)
	if err != nil {
		return nil, err
	}
	started := make(chan herdStart, 1)
	go func() { started <- b.startHerd(ctx, sem, permit) }() // ends when all processes wait, or after a timeout; this function waits for it below
	outcomes, err := c.run(window{now(), now() + int64(b.releases)*int64(b.processHold)})
	g := <-started
	if err := errors.Join(err, g.err); err != nil {
		return nil, err
	}
	seen, err := g.monitor.stop()
	if err != nil {
		return nil, err
	}
	return b.herdFigures(outcomes, g, seen)
}

// herdStart is the state when the permit is released: the monitor, and the number of subscribers of each channel.
type herdStart struct {
	monitor     *monitor
	subscribers map[string]int64
	err         error
}

// startHerd releases the permit once all processes wait for it and have subscribed.
func (b *bench) startHerd(ctx context.Context, sem *fairsem.Semaphore, permit *fairsem.Permit) (g herdStart) {
	if g.err = (&queue{waiters: b.processes, sem: sem}).awaitFull(ctx); g.err != nil {
		return g
	}
	if g.subscribers, g.err = b.awaitSubscribers(ctx); g.err != nil {
		return g
	}
	time.Sleep(monitorDelay) // a process that has just subscribed checks whether it missed a message
	if g.monitor, g.err = b.server.startMonitor(); g.err != nil {
		return g
	}
	g.err = permit.Release(ctx)
	return g
}

// awaitSubscribers waits until there is a channel for each process, and returns the number of subscribers of each channel.
func (b *bench) awaitSubscribers(ctx context.Context) (map[string]int64, error) {
	var channels []string
	for overdue := time.Now().Add(fillTimeout); len(channels) < b.processes; time.Sleep(pollEvery) {
		var err error
		if channels, err = b.server.rdb.PubSubChannels(ctx, "*").Result(); err != nil {
			return nil, err
		}
		if time.Now().After(overdue) {
			return nil, fmt.Errorf("only %d of %d processes have subscribed", len(channels), b.processes)
		}
	}
	return b.server.rdb.PubSubNumSub(ctx, channels...).Result()
}

func (b *bench) herdFigures(outcomes []outcome, g herdStart, seen traffic) (figures, error) {
	for _, v := range (run{outcomes: outcomes}).records() {
		if v.granted() == 0 {
			return nil, errors.New("a process was not granted the unit in time")
		}
	}
	var woken float64
	for channel, messages := range seen.Published {
		woken += float64(messages) * float64(g.subscribers[channel])
	}
	releases := float64(b.processes) // one more release finds no waiter
	return figures{
		"woken each":    woken / releases,
		"commands each": float64(seen.commands()-seen.Commands["PING"]) / (releases + 1),
		"samples":       releases,
	}, nil
}
