package change

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// ErrInUse is of a paused name that is still in use when the time is over.
var ErrInUse = errors.New("still in use")

// drainPoll is the time between polls for remaining holders.
const drainPoll = 100 * time.Millisecond

// Drained waits until the paused name has no holders, for at most that long; 0: for ever. It returns an error if the
// pause ends meanwhile.
func (d Target) Drained(ctx context.Context, most time.Duration) error {
	var over <-chan time.Time
	if most > 0 {
		over = time.After(most)
	}
	for reported := false; ; reported = true {
		s, err := d.there().Status(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("it is paused, but the holders are not known: %w", err)
		case !inspect.Paused(s):
			return fmt.Errorf("%w: the pause was ended meanwhile: %s", ErrDeclined, text.Quote(d.Name))
		case s.Used == 0:
			return nil
		case !reported:
			_, _ = fmt.Fprintf(d.Messages, "Paused. Waiting for %s.\n", render.Count(s.Holders, "holder")) // as confirm
		}
		select {
		case <-over:
			return fmt.Errorf("%s is %w after %v, by %s; it stays paused", text.Quote(d.Name), ErrInUse, text.Span(most), render.Count(s.Holders, "holder"))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(drainPoll):
		}
	}
}
