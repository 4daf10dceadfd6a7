package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairsem/fairsem"
)

// idleWaiters counts the commands that idle waiters send.
func idleWaiters(ctx context.Context, b *bench) (s *section, err error) {
	s = &section{
		Name: "idle", Title: fmt.Sprintf("%d idle waiters in one process for 3 TTLs of %v", b.idlers, b.idleTTL),
		Columns: []string{"commands", "commands each"},
		Notes:   []string{`All that the process sends, as MONITOR shows it; "each" is per third of a TTL.`},
	}
	holder, err := b.fairsem(longTTL)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, holder.close()) }()
	f, err := b.fairsem(b.idleTTL)
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var idlers sync.WaitGroup
	defer func() {
		cancel()
		idlers.Wait()
		err = errors.Join(err, f.close())
	}()
	if err := b.startIdlers(ctx, holder, f, &idlers); err != nil {
		return s, err
	}
	seen, err := b.monitorFor(ctx, 3*b.idleTTL)
	s.add(fmt.Sprintf("%d waiters", b.idlers), figures{
		"commands": float64(seen.commands()), "commands each": float64(seen.commands()) / 9,
	})
	s.Notes = append(s.Notes, fmt.Sprintf("Seen: %v.", seen.Commands))
	s.Targets = []target{atMost(2, "at most 2 commands per TTL/3 for all together", s.Series[0].values("commands each"), digits)}
	return s, err
}

// startIdlers acquires the unit and starts waiters for it. They wait until ctx ends.
func (b *bench) startIdlers(ctx context.Context, holder, f fairsemClient, idlers *sync.WaitGroup) error {
	name := b.key()
	held, err := holder.client.Semaphore(name, 1)
	if err != nil {
		return err
	}
	if _, err := held.Acquire(ctx, 1); err != nil { // the client releases it when it is closed
		return err
	}
	sem, err := f.client.Semaphore(name, 1)
	if err != nil {
		return err
	}
	for range b.idlers {
		idlers.Go(func() { _, _ = sem.Acquire(ctx, 1) }) // ends with ctx, without a grant
	}
	return (&queue{waiters: b.idlers, sem: held}).awaitFull(ctx)
}

// monitorFor returns the commands that clients send to the server within d, and the published messages.
func (b *bench) monitorFor(ctx context.Context, d time.Duration) (traffic, error) {
	t, err := b.server.startMonitor()
	if err != nil {
		return traffic{}, err
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	seen, err := t.stop()
	return seen, errors.Join(err, ctx.Err())
}

// heldPermits measures the cost of renewing permits.
func heldPermits(ctx context.Context, b *bench) (s *section, err error) {
	s = &section{
		Name: "held", Title: fmt.Sprintf("%d held permits in one process for %v, TTL %v", b.permits, b.permitFor, b.permitTTL),
		Columns: []string{"share", "lost"},
	}
	f, err := b.fairsem(b.permitTTL)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	permits, err := b.acquire(ctx, f)
	if err != nil {
		return s, err
	}
	m, err := b.server.meter(ctx)
	if err != nil {
		return s, err
	}
	select {
	case <-time.After(b.permitFor):
	case <-ctx.Done():
		return s, ctx.Err()
	}
	cpu, err := m.cpu(ctx)
	if err != nil {
		return s, err
	}
	lost := countLost(permits)
	s.add(fmt.Sprintf("%d permits", b.permits), figures{"share": cpu / b.permitFor.Seconds(), "lost": float64(lost)})
	s.Targets = []target{
		atMost(0.01, "refresh at most 1 % of a Redis core", s.Series[0].values("share"), percent),
		none("no permit lost", s.Series[0], "lost"),
	}
	if lost > 0 {
		return s, fmt.Errorf("%d of %d permits were lost", lost, b.permits)
	}
	return s, nil
}

// acquire acquires all permits on one name.
func (b *bench) acquire(ctx context.Context, f fairsemClient) ([]*fairsem.Permit, error) {
	sem, err := f.client.Semaphore(b.key(), unlimited)
	if err != nil {
		return nil, err
	}
	permits, errs := make([]*fairsem.Permit, b.permits), make([]error, b.permits)
	var all sync.WaitGroup
	for i := range permits {
		all.Go(func() { permits[i], errs[i] = sem.Acquire(ctx, 1) }) // Redis answers, or ctx ends
	}
	all.Wait()
	return permits, errors.Join(errs...)
}

func countLost(permits []*fairsem.Permit) int {
	var lost int
	for _, p := range permits {
		if p.Context().Err() != nil {
			lost++
		}
	}
	return lost
}
