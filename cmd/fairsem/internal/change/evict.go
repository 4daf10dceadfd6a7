package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/bridge"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Selection selects holders and waiters to evict: those of exactly one of the fields.
type Selection struct {
	IDs    []string // in full or short
	Label  string   // a pattern of labels
	Tenant *string  // as it is or as fairsem writes it
	All    bool
}

// Check refuses a selection that can never match.
func (s Selection) Check() error {
	if slices.Contains(s.IDs, "") {
		return errors.New("an ID is empty: fairsem show lists them")
	}
	if s.Tenant != nil && len(*s.Tenant) > longestTenant {
		return fmt.Errorf("--tenant %.40q... has %d bytes: a tenant has at most %d", *s.Tenant, len(*s.Tenant), protocol.MaxTenant)
	}
	if len(s.IDs) > 0 || s.All || s.Tenant != nil {
		return nil
	}
	if _, err := inspect.Glob(s.Label); err != nil || s.Label == "" {
		return cmp.Or(err, errors.New("--label is empty: give a PATTERN such as 'host-7:*'"))
	}
	return nil
}

// longestTenant is the most bytes of a tenant as fairsem writes it: an escape of a byte has four.
const longestTenant = 4 * protocol.MaxTenant

// ErrNoMatch is the error of a selection that matches nothing. Nothing was done.
var ErrNoMatch = errors.New("nothing to evict")

// evicted is the output of --json about an eviction.
type evicted struct {
	result
	Holders []render.Holder `json:"evicted_holders"`
	Waiters []render.Waiter `json:"evicted_waiters"`
	Gone    []string        `json:"gone"` // ids that were released or given up before they could be evicted
}

// Evict revokes permits and removes waiters.
func (t Target) Evict(ctx context.Context, selection Selection) error {
	before, err := inspect.QueryTickets(ctx, t.Client, t.Name, math.MaxInt)
	if err == nil && !before.Exists {
		err = ErrUnknown
	}
	if err != nil {
		return err
	}
	c, err := selection.choose(before)
	if err != nil {
		return err
	}
	if err := t.confirm(ctx, c.announce(t, before.Status)); err != nil {
		return err
	}
	if t.Ask != nil {
		if err := c.update(ctx, t, selection); err != nil {
			return err
		}
	}
	gone, err := c.evict(ctx, t.there())
	if err != nil {
		return fmt.Errorf("some may not have been evicted: %w", err)
	}
	after, err := t.there().Status(ctx)
	if err != nil {
		return fmt.Errorf("they were evicted, but the state after that is not known: %w", err)
	}
	o := c.object(gone)
	o.result = result{len(o.Holders)+len(o.Waiters) > 0, render.NewSemaphore(before.Status), render.NewSemaphore(after)}
	words := fmt.Sprintf("%s: evicted %s", text.Quote(t.Name), ticketCount(len(o.Holders), len(o.Waiters)))
	if len(gone) > 0 {
		words += fmt.Sprintf(", %d were gone already", len(gone))
	}
	return t.report(o, words+"; "+state(after))
}

// choice is the selection at one moment.
type choice struct {
	holders, waiters []fairsem.Ticket
	positions        []int     // of the waiters in the queue
	now              time.Time // on the server
}

// update is called after the yes, for which the question may have waited for long. Waiters that were granted their permits meanwhile are
// holders; those that were selected by their ids are not evicted, and neither is anything else.
func (c *choice) update(ctx context.Context, t Target, selection Selection) error {
	if len(selection.IDs) > 0 {
		return StillWait(ctx, t.there(), c.waiters)
	}
	holders, err := inspect.Collect(t.there().Holders(ctx))
	if err != nil {
		return err
	}
	var waiters []fairsem.Ticket
	var positions []int
	for i, w := range c.waiters {
		now := slices.IndexFunc(holders, func(h fairsem.Ticket) bool { return h.ID == w.ID })
		if now >= 0 {
			c.holders = append(c.holders, holders[now])
			continue
		}
		waiters, positions = append(waiters, w), append(positions, c.positions[i])
	}
	c.waiters, c.positions = waiters, positions
	return nil
}

// choose finds the selection. What has expired has nothing that could be revoked.
func (s Selection) choose(d inspect.Detail) (choice, error) {
	expired := func(t fairsem.Ticket) bool { return t.ExpiresIn <= 0 }
	chosen, err := s.among(slices.DeleteFunc(slices.Concat(d.Holders, d.Waiters), expired))
	if err != nil {
		return choice{}, err
	}
	c := choice{now: d.At}
	for _, t := range d.Holders {
		if chosen[t.ID] {
			c.holders = append(c.holders, t)
		}
	}
	for i, t := range d.Waiters {
		if chosen[t.ID] {
			c.waiters, c.positions = append(c.waiters, t), append(c.positions, i+1)
		}
	}
	return c, nil
}

// StillWait returns an error, which wraps ErrDeclined, if a waiter that is to be evicted holds a permit now: the question may have waited
// for long, and the work of a new holder would be interrupted.
func StillWait(ctx context.Context, inspector *fairsem.Inspector, waiters []fairsem.Ticket) error {
	if len(waiters) == 0 {
		return nil
	}
	holders, err := inspect.Collect(inspector.Holders(ctx))
	if err != nil {
		return err
	}
	for _, w := range waiters {
		if slices.ContainsFunc(holders, func(h fairsem.Ticket) bool { return h.ID == w.ID }) {
			return fmt.Errorf("%w: %q was granted its permit meanwhile; ask again to evict it", ErrDeclined, w.Label)
		}
	}
	return nil
}

// among returns the ids of the selection, of which there is one at least.
func (s Selection) among(all []fairsem.Ticket) (map[string]bool, error) {
	if len(s.IDs) > 0 {
		return s.named(all)
	}
	if s.Tenant != nil {
		return ofTenant(*s.Tenant, all)
	}
	like, err := inspect.Glob(s.Label)
	if err != nil {
		return nil, err
	}
	chosen := make(map[string]bool)
	for _, t := range all {
		if err := bridge.Unread(t); err != nil && !s.All {
			return nil, fmt.Errorf("nothing was evicted, because a label cannot be read (give ids instead): %w", err)
		}
		if s.All || like(t.Label) {
			chosen[t.ID] = true
		}
	}
	if len(chosen) == 0 && s.All {
		return nil, fmt.Errorf("%w: no holders, no waiters", ErrNoMatch)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: no holder or waiter has a label like %q", ErrNoMatch, s.Label)
	}
	return chosen, nil
}

// ofTenant selects all tickets of one tenant.
func ofTenant(given string, all []fairsem.Ticket) (map[string]bool, error) {
	chosen, meant := make(map[string]bool), make(map[string]bool)
	for _, t := range all {
		if text.Means(given, t.Tenant) {
			chosen[t.ID], meant[t.Tenant] = true, true
		}
	}
	switch len(meant) {
	case 0:
		return nil, fmt.Errorf("%w: no holder or waiter is of the tenant %q", ErrNoMatch, given)
	case 1:
		return chosen, nil
	}
	return nil, fmt.Errorf("%w: %q means %d tenants: give ids; fairsem show --json has the tenants in full", ErrNoMatch, given, len(meant))
}

// named selects one ticket for each id.
func (s Selection) named(all []fairsem.Ticket) (map[string]bool, error) {
	chosen := make(map[string]bool)
	for _, given := range s.IDs {
		meant := matching(given, all)
		switch len(meant) {
		case 0:
			return nil, fmt.Errorf("%w: no holder or waiter has the id %q", ErrNoMatch, given)
		case 1:
			chosen[meant[0]] = true
		default:
			return nil, fmt.Errorf("%w: %q is short for %d ids: give more of it; fairsem show --json has it in full", ErrNoMatch, given, len(meant))
		}
	}
	return chosen, nil
}

// matching returns the ids that given stands for: those that it means, or else those that it abbreviates.
func matching(given string, all []fairsem.Ticket) []string {
	var meant, abbreviated []string
	for _, t := range all {
		switch {
		case text.Means(given, t.ID):
			meant = append(meant, t.ID)
		case inspect.Abbreviates(given, t.ID):
			abbreviated = append(abbreviated, t.ID)
		}
	}
	if len(meant) > 0 {
		return meant
	}
	return abbreviated
}

// shown is how many holders, and how many waiters, are shown before the question.
const shown = 20

func (c choice) announce(d Target, s fairsem.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "This evicts %s from %s:\n\n", ticketCount(len(c.holders), len(c.waiters)), text.Quote(d.Name))
	if len(c.holders) > 0 {
		b.WriteString(render.Holders(c.holders[:min(shown, len(c.holders))], c.now, d.Width) + "\n")
	}
	if len(c.waiters) > 0 {
		most := min(shown, len(c.waiters))
		b.WriteString(render.Waiters(c.waiters[:most], c.positions[:most], c.now, d.Width) + "\n")
	}
	if hidden := max(0, len(c.holders)-shown) + max(0, len(c.waiters)-shown); hidden > 0 {
		fmt.Fprintf(&b, "… and %d more\n\n", hidden)
	}
	fmt.Fprintf(&b, "Now: %s.", state(s))
	if len(c.holders) > 0 {
		b.WriteString(" Their units are granted to others at once; their work may continue for moments.")
	}
	return b.String()
}

// ticketCount is like "2 holders and 1 waiter".
func ticketCount(holders, waiters int) string {
	switch {
	case waiters == 0:
		return render.Count(int64(holders), "holder")
	case holders == 0:
		return render.Count(int64(waiters), "waiter")
	}
	return render.Count(int64(holders), "holder") + " and " + render.Count(int64(waiters), "waiter")
}

// evictAtOnce is how many are evicted at the same time; the client sends them together.
const evictAtOnce = 64

// evict begins with the waiters, so that none of them is granted units of an evicted holder. It returns the ids that were
// gone.
func (c choice) evict(ctx context.Context, inspector *fairsem.Inspector) (gone map[string]bool, err error) {
	gone = make(map[string]bool)
	var mu sync.Mutex // guards gone
	for _, tickets := range [][]fairsem.Ticket{c.waiters, c.holders} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(evictAtOnce)
		for _, t := range tickets {
			group.Go(func() error {
				err := inspector.Evict(ctx, t.ID)
				if !errors.Is(err, fairsem.ErrNotFound) {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				gone[t.ID] = true
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// object lists the evicted tickets, and the ids of those that were gone.
func (c choice) object(gone map[string]bool) evicted {
	o := evicted{Holders: []render.Holder{}, Waiters: []render.Waiter{}, Gone: []string{}}
	for _, t := range c.holders {
		if !gone[t.ID] {
			o.Holders = append(o.Holders, render.NewHolder(c.now, t))
		}
	}
	for i, t := range c.waiters {
		if !gone[t.ID] {
			o.Waiters = append(o.Waiters, render.NewWaiter(c.now, c.positions[i], t))
		}
	}
	for id := range gone {
		o.Gone = append(o.Gone, id)
	}
	slices.Sort(o.Gone)
	return o
}
