package demo

import (
	"context"
	"iter"
	"slices"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// snapshot is what Redis said at one moment.
type snapshot struct {
	at               int64 // of history.Now, when the last answer was there
	status           fairsem.Status
	holders, waiters []fairsem.Ticket
}

// look asks Redis. The parts are of slightly different moments: the line comes first, so that who
// is let in meanwhile is seen twice, not never, and counts as a holder.
func look(ctx context.Context, sem *fairsem.Semaphore) (s snapshot, err error) {
	if s.waiters, err = collect(sem.Waiters(ctx)); err != nil {
		return s, err
	}
	if s.holders, err = collect(sem.Holders(ctx)); err != nil {
		return s, err
	}
	if s.status, err = sem.Status(ctx); err != nil {
		return s, err
	}
	s.at = history.Now()
	s.waiters = slices.DeleteFunc(s.waiters, func(w fairsem.Ticket) bool { return s.holds(w.ID) })
	return s, nil
}

func (s snapshot) holds(id string) bool {
	return slices.ContainsFunc(s.holders, func(h fairsem.Ticket) bool { return h.ID == id })
}

// used is how many units the holders of the snapshot have.
func (s snapshot) used() (units int64) {
	for _, h := range s.holders {
		units += h.Weight
	}
	return units
}

func collect(tickets iter.Seq2[fairsem.Ticket, error]) (all []fairsem.Ticket, err error) {
	for t, err := range tickets {
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// lineups remembers who was seen before whom in line.
type lineups map[[2]string]struct{}

func (l lineups) add(line []fairsem.Ticket) {
	for i, before := range line {
		for _, behind := range line[i+1:] {
			l[[2]string{before.ID, behind.ID}] = struct{}{}
		}
	}
}
