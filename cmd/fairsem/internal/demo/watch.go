package demo

import (
	"context"
	"slices"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/history"
)

// snapshot is the state in Redis at one moment.
type snapshot struct {
	inspect.Detail
	asked, at int64 // of history.Now, before the first question, and when the last answer was there
}

// maxTickets is more than there are workers, so that surplus tickets are seen, too.
const maxTickets = 100

func observe(ctx context.Context, client *fairsem.Client, name string) (snapshot, error) {
	asked := history.Now()
	d, err := inspect.PollDetail(ctx, client, name, maxTickets)
	return snapshot{d, asked, history.Now()}, err
}

func (s snapshot) holds(id string) bool {
	return slices.ContainsFunc(s.Holders, func(h fairsem.Ticket) bool { return h.ID == id })
}

// used is how many units the holders of the snapshot have.
func (s snapshot) used() (units int64) {
	for _, h := range s.Holders {
		units += h.Weight
	}
	return units
}

// orderings are the pairs that were seen in the queue, the earlier one first.
type orderings map[[2]string]struct{}

func (l orderings) add(line []fairsem.Ticket) {
	for i, before := range line {
		for _, behind := range line[i+1:] {
			l[[2]string{before.ID, behind.ID}] = struct{}{}
		}
	}
}
