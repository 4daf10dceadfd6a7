package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// action is a change that needs a yes, or is in progress.
type action struct {
	verb   verb
	name   string
	limit  int64  // to be pinned
	fresh  bool   // Redis did not know the name any more when the question came up, which said so
	ticket ticket // to be evicted, as it was when the question came up
}

type verb int

const (
	resize verb = iota
	pause
	resume
	evict
)

// done is the message that an action has ended.
type done struct {
	action
	err error
}

// run makes the change in the background.
func (a action) run(ctx context.Context, s source) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		var err error
		switch a.verb {
		case resize, pause:
			err = a.pin(ctx, s)
		case resume:
			err = change.Outcome(s.ResetLimit(ctx, a.name))
		case evict:
			err = a.evict(ctx, s)
		}
		return done{a, err}
	}
}

// pin sets the limit of no name that Redis has forgotten since the last answer: that would stay for ever, and nobody was told.
func (a action) pin(ctx context.Context, s source) error {
	if !a.fresh {
		if now, err := s.Status(ctx, a.name); err != nil || !now.Exists {
			return cmp.Or(err, change.ErrUnknown)
		}
	}
	return change.Outcome(s.SetLimit(ctx, a.name, a.limit))
}

// evict evicts no waiter that was granted its permit before the yes: the screen is as old as the last answer.
func (a action) evict(ctx context.Context, s source) error {
	if a.ticket.position > 0 {
		if err := s.StillWaits(ctx, a.name, a.ticket.Ticket); err != nil {
			return err
		}
	}
	return change.Outcome(s.Evict(ctx, a.name, a.ticket.ID))
}

// question states the present state, and asks. now is the last status of the name; t is the ticket to evict.
func (a action) question(now fairsem.Status, t ticket) string {
	name := shortName(a.name)
	switch a.verb {
	case resize:
		return fmt.Sprintf("Set the limit of %s to %d? It is %d now, with %d in use and %d waiting.%s%s",
			name, a.limit, now.Limit, now.Used, now.Waiting, shrinks(now, a.limit), unknown(now))
	case pause:
		return fmt.Sprintf("Pause %s? Nothing is granted until it is resumed; %d of %d in use now, %d waiting.%s%s",
			name, now.Used, now.Limit, now.Waiting, forgets(now), unknown(now))
	case resume:
		return fmt.Sprintf("Reset the limit of %s? It is set to %d by hand and goes back to %s; %d in use now, %d waiting.",
			name, now.Limit, declared(now), now.Used, now.Waiting)
	}
	if t.position > 0 {
		return fmt.Sprintf("Evict %s, number %d in the queue of %s? It wants %s and has waited for %s.\nid %s",
			who(t), t.position, name, render.Count(t.Weight, "unit"), text.Ago(t.since), text.Word(inspect.PlainID(t.ID)))
	}
	return fmt.Sprintf("Evict %s from %s? It has held %s for %s, and its work may continue for a moment.\nid %s",
		who(t), name, render.Count(t.Weight, "unit"), text.Ago(t.since), text.Word(inspect.PlainID(t.ID)))
}

// unknown warns of a limit for a name that is not in use any more: Redis would store it for ever.
func unknown(now fairsem.Status) string {
	if now.Exists {
		return ""
	}
	return " Redis does not know this name any more: the limit is stored until it is reset."
}

// shrinks explains what a lower limit means for the holders.
func shrinks(now fairsem.Status, limit int64) string {
	if now.Used <= limit {
		return ""
	}
	return fmt.Sprintf(" No permit is revoked, and nothing is granted while %d or more are in use.", limit)
}

// forgets names the limit that a pause replaces.
func forgets(now fairsem.Status) string {
	if !now.Pinned || inspect.Paused(now) {
		return ""
	}
	return fmt.Sprintf(" The limit of %d was set by hand: resume does not restore it.", now.Limit)
}

// outcome describes the result.
func (d done) outcome() notice {
	name := shortName(d.name)
	if d.err != nil {
		return d.failure(name)
	}
	switch d.verb {
	case resize:
		return notice{text: fmt.Sprintf("the limit of %s is set to %d", name, d.limit)}
	case pause:
		return notice{text: name + " is paused"}
	case resume:
		return notice{text: name + " has its declared limit again"}
	}
	return notice{text: fmt.Sprintf("%s was evicted from %s", who(d.ticket), name)}
}

func (d done) failure(name string) notice {
	switch {
	case d.verb == evict && errors.Is(d.err, fairsem.ErrNotFound):
		return notice{text: who(d.ticket) + " was gone already", bad: true}
	case errors.Is(d.err, change.ErrDeclined):
		return notice{text: grantedMeanwhile(d.ticket), bad: true}
	case errors.Is(d.err, change.ErrUnknown):
		return notice{text: fmt.Sprintf("Redis does not know %s any more: nothing was changed", name), bad: true}
	case errors.Is(d.err, change.ErrUncertain):
		return notice{text: fmt.Sprintf("no answer about %s: %s", name, change.ErrUncertain), bad: true}
	}
	return notice{text: plainly(d.err), bad: true}
}

// grantedMeanwhile is why a waiter is not evicted.
func grantedMeanwhile(t ticket) string {
	return who(t) + " was granted its permit meanwhile: ask again to evict it"
}

// who is the label of a ticket in a sentence.
func who(t ticket) string {
	if t.Label == "" {
		return "a caller" // the process has been silent for long
	}
	return short(t.Label)
}
