package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem"
)

// herd has many processes wait for one unit, each for its only turn, and counts whom a release wakes.
func herd(ctx context.Context, b *bench) (s *section, err error) {
	s = &section{
		Name: "herd", Title: fmt.Sprintf("limit 1, holds of %v, %d waiting processes", b.processHold, b.processes),
		Columns: []string{"woken each", "commands each", "samples"},
		Notes:   []string{"Each process wants the unit once. Per release: messages to processes, and commands that all processes together send, the release itself included."},
	}
	b.say("herd: %d processes", b.processes)
	name, jobs := b.herdJobs()
	c, _, err := muster(ctx, jobs)
	defer func() { err = errors.Join(err, c.dismiss()) }()
	if err != nil {
		return s, err
	}
	f, err := b.stampede(ctx, c, name)
	if err != nil {
		return s, err
	}
	s.add(fmt.Sprintf("%d processes", b.processes), f)
	s.Targets = []target{
		atMost(1, "a release wakes one process", s.Series[0].values("woken each"), digits),
		atMost(1, "and nobody but the releaser sends anything", s.Series[0].values("commands each"), digits),
	}
	return s, nil
}

// herdTTL is so long that nobody renews anything meanwhile.
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

// stampede holds the unit until all processes wait for it, and watches the server while they have
// their turns. So many of them hold for as long as they should; the rest only get through.
func (b *bench) stampede(ctx context.Context, c crew, name string) (f figures, err error) {
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
	let := make(chan gate, 1)
	go func() { let <- b.openGate(ctx, sem, permit) }() // ends when all wait, or do not in time; waited for below
	outcomes, err := c.work(window{now(), now() + int64(b.releases)*int64(b.processHold)})
	g := <-let
	if err := errors.Join(err, g.err); err != nil {
		return nil, err
	}
	seen, err := g.tap.stop()
	if err != nil {
		return nil, err
	}
	return b.herdFigures(outcomes, g, seen)
}

// gate is a tap on a line that is complete, and how many listen to each channel.
type gate struct {
	tap       *tap
	listeners map[string]int64
	err       error
}

// openGate releases the permit once all processes wait for it and listen.
func (b *bench) openGate(ctx context.Context, sem *fairsem.Semaphore, permit *fairsem.Permit) (g gate) {
	if g.err = (&line{waiting: b.processes, sem: sem}).formed(ctx); g.err != nil {
		return g
	}
	if g.listeners, g.err = b.listening(ctx); g.err != nil {
		return g
	}
	time.Sleep(settle) // who has just begun to listen asks whether it missed something
	if g.tap, g.err = b.server.listen(); g.err != nil {
		return g
	}
	g.err = permit.Release(ctx)
	return g
}

// listening waits until there is a channel for each process, and returns how many listen to each.
func (b *bench) listening(ctx context.Context) (map[string]int64, error) {
	var channels []string
	for overdue := time.Now().Add(formWithin); len(channels) < b.processes; time.Sleep(lookEvery) {
		var err error
		if channels, err = b.server.rdb.PubSubChannels(ctx, "*").Result(); err != nil {
			return nil, err
		}
		if time.Now().After(overdue) {
			return nil, fmt.Errorf("only %d of %d processes listen", len(channels), b.processes)
		}
	}
	return b.server.rdb.PubSubNumSub(ctx, channels...).Result()
}

func (b *bench) herdFigures(outcomes []outcome, g gate, seen traffic) (figures, error) {
	for _, v := range (run{outcomes: outcomes}).visits() {
		if v.granted() == 0 {
			return nil, errors.New("a process gave up")
		}
	}
	var woken float64
	for channel, messages := range seen.Published {
		woken += float64(messages) * float64(g.listeners[channel])
	}
	releases := float64(b.processes) // and one more, which finds nobody waiting
	return figures{
		"woken each":    woken / releases,
		"commands each": float64(seen.commands()) / (releases + 1),
		"samples":       releases,
	}, nil
}
