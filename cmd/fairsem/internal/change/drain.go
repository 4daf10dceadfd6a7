package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/clock"
)

// ErrInUse is of a paused name that is still in use when the time is over.
var ErrInUse = errors.New("still in use")

// ErrResumed is of a paused name that has a limit again before it is no longer in use.
var ErrResumed = errors.New("the pause was ended meanwhile")

// errNoAnswer is of a paused name whose holders are not known.
var errNoAnswer = errors.New("it is paused, but the holders are not known")

const (
	// drainPoll is the time between polls for remaining holders.
	drainPoll = 100 * time.Millisecond
	// lastPoll is how long a poll may take even if the wait is over before: whether the name is in use then needs an answer.
	lastPoll = time.Second
)

// Drained waits until the paused name has no holders, for at most that long; 0: for ever. It returns an error if the
// pause ends meanwhile. Grants of a rate are not waited for: nothing holds them.
func (t Target) Drained(ctx context.Context, most time.Duration) error {
	wait := ctx
	if most > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	for reported := false; ; reported = true {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		over := wait.Err() != nil // then one more query: the last one may be old
		s, err := t.poll(ctx, wait)
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errNoAnswer, err)
		case !inspect.Paused(s):
			return fmt.Errorf("%w: %s", ErrResumed, text.Quote(t.Name))
		case s.Window > 0:
			_, _ = io.WriteString(t.Messages, "Paused. It is a rate: no grant is released, so there is nothing to wait for.\n") // as confirm
			return nil
		case s.Used == 0:
			return nil
		case !reported:
			_, _ = fmt.Fprintf(t.Messages, "Paused. Waiting for %s.\n", render.Count(s.Holders, "holder")) // as confirm
		}
		if over {
			return fmt.Errorf("%s is %w after %v, by %s; it stays paused", text.Quote(t.Name), ErrInUse, text.Span(most), render.Count(s.Holders, "holder"))
		}
		clock.Sleep(wait, drainPoll)
	}
}

// poll queries the name, until wait ends and for lastPoll at least.
func (t Target) poll(ctx, wait context.Context) (fairsem.Status, error) {
	if end, bounded := wait.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(lastPoll, time.Until(end)))
		defer cancel()
	}
	return t.there().Status(ctx)
}
