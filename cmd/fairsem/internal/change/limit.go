package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/protocol"
)

// ParseLimit parses a limit; 0 is that of a pause. Its error begins with the input.
func ParseLimit(given string) (int64, error) {
	limit, err := strconv.ParseInt(given, 10, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), limit < 0:
		return 0, fmt.Errorf("%q is not a number of units", given)
	case limit > protocol.MaxUnits:
		return 0, fmt.Errorf("%s is above the maximum, %d", given, int64(protocol.MaxUnits))
	}
	return limit, nil
}

// Resize sets the limit by hand, to more than 0. A name that Redis does not know is refused unless fresh.
func (t Target) Resize(ctx context.Context, limit int64, fresh bool) error {
	return t.pin(ctx, fresh, step{
		done: func(s fairsem.Status) bool { return s.Pinned && s.Limit == limit },
		what: func(s fairsem.Status) string {
			return fmt.Sprintf("This sets the limit of %s to %d for all callers%s.", text.Quote(t.Name), limit, drain(s, limit))
		},
		do: func(ctx context.Context) error { return t.there().SetLimit(ctx, limit) },
	})
}

// drain explains that a limit takes effect only after releases, where more is in use.
func drain(s fairsem.Status, limit int64) string {
	if s.Used <= limit {
		return ""
	}
	return fmt.Sprintf("; %d of the units in use must be released before anything is granted", s.Used-limit)
}

// Pause sets the limit to 0 by hand. A name that Redis does not know is refused unless fresh. settle, if not nil, is
// called before the result is reported; its error is returned after that.
func (t Target) Pause(ctx context.Context, fresh bool, settle func(context.Context) error) error {
	return t.pin(ctx, fresh, step{
		settle: settle,
		done:   inspect.Paused,
		what: func(s fairsem.Status) string {
			what := fmt.Sprintf("This pauses %s: nothing is granted until it is resumed; holders keep their permits.", text.Quote(t.Name))
			if s.Pinned {
				what += fmt.Sprintf(" The limit of %d that was set by hand is lost: `fairsem resize` sets it again, `fairsem resume` does not.", s.Limit)
			}
			return what
		},
		do: func(ctx context.Context) error { return t.there().SetLimit(ctx, 0) },
	})
}

// Resume removes a limit that was set by hand, also that of a pause, so that the declared limit applies again.
func (t Target) Resume(ctx context.Context) error {
	return t.pin(ctx, false, step{
		done: func(s fairsem.Status) bool { return !s.Pinned },
		what: func(s fairsem.Status) string {
			if s.Declared == 0 {
				return fmt.Sprintf("This removes the limit of %s; no process has declared another.", text.Quote(t.Name))
			}
			return fmt.Sprintf("This restores the declared limit of %s, which is %d%s.", text.Quote(t.Name), s.Declared, drain(s, s.Declared))
		},
		do: func(ctx context.Context) error { return t.there().ResetLimit(ctx) },
	})
}

// step is one change of a limit.
type step struct {
	done func(fairsem.Status) bool // whether there is nothing to do
	what func(fairsem.Status) string
	do   func(context.Context) error

	settle func(context.Context) error // nil: there is nothing to wait for
}

func (t Target) pin(ctx context.Context, fresh bool, change step) error {
	before, err := t.known(ctx)
	if fresh && errors.Is(err, ErrUnknown) {
		err = nil
	}
	if err != nil {
		return err
	}
	words := "nothing to do; "
	changed := !before.Exists || !change.done(before)
	if changed {
		words = ""
		if err := t.make(ctx, fresh, change, before); err != nil {
			return err
		}
	}
	var unsettled error // the change was made all the same, and is reported
	if change.settle != nil {
		unsettled = change.settle(ctx)
	}
	if errors.Is(unsettled, errNoAnswer) {
		return unsettled // another query would wait again
	}
	after, err := t.there().Status(ctx)
	if err != nil && changed {
		err = fmt.Errorf("the limit was changed, but the state after that is not known: %w", err)
	}
	if err != nil {
		return cmp.Or(unsettled, err)
	}
	reported := t.report(result{changed, render.NewSemaphore(before), render.NewSemaphore(after)}, fmt.Sprintf("%s: %s%s", text.Quote(t.Name), words, state(after)))
	return cmp.Or(unsettled, reported)
}

// make asks and makes the change. A name that Redis has forgotten before the yes is refused, unless fresh allows a new one: a limit that is
// set for it would stay for ever.
func (t Target) make(ctx context.Context, fresh bool, change step, before fairsem.Status) error {
	now := "Redis does not know the name yet."
	if before.Exists {
		now = "Now: " + state(before) + "."
	}
	if err := t.confirm(ctx, change.what(before)+"\n"+now); err != nil {
		return err
	}
	if t.Ask != nil && before.Exists && !fresh {
		if _, err := t.known(ctx); err != nil {
			return err
		}
	}
	return Outcome(change.do(ctx))
}
