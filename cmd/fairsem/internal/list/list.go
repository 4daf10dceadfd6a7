// Package list shows many semaphores, a row each.
package list

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/frames"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/grid"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/look"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// List is which names are to be shown, and how.
type List struct {
	Client  *fairsem.Client
	Names   *look.Names // those that match, if they are polled; nil: they are searched now
	Pattern string      // "": all
	Busy    bool        // leave out names without holders and waiters
	JSON    bool
	Prefix  string                         // of the names
	Others  func(context.Context) []string // other prefixes of names, if there are none with this one; nil: not searched
}

// Check returns an error if the pattern is none.
func (l List) Check() error {
	_, err := look.Glob(l.Pattern)
	return err
}

// Look queries the names.
func (l List) Look(ctx context.Context) (frames.Frame, error) {
	seen, err := l.find(ctx)
	if err != nil {
		return frames.Frame{}, err
	}
	all, unreadable := seen.All, seen.Unreadable
	if l.Busy {
		all = slices.DeleteFunc(slices.Clone(all), func(s fairsem.Status) bool { return !look.Busy(s) })
	}
	f := frames.Frame{Err: joinErrors(unreadable), Text: func(width, height int) string { return l.text(all, width, height) }}
	if len(all)+len(unreadable) == 0 {
		f.Note = l.emptyNote(ctx, len(seen.All) == 0 && !seen.Unwanted)
	}
	return f, nil
}

// emptyNote says that there is nothing to show, and where there may be something. unknown: there is no such name at all.
func (l List) emptyNote(ctx context.Context, unknown bool) string {
	if unknown && l.Others != nil {
		if others := l.Others(ctx); len(others) > 0 {
			return fmt.Sprintf("Nothing to show with the prefix %s; %s.", text.Brief(l.Prefix), look.Elsewhere(others))
		}
	}
	switch {
	case l.Busy:
		return "No name has a holder or a waiter."
	case l.Pattern != "":
		return fmt.Sprintf("No name in use matches %q.", l.Pattern)
	}
	return "Nothing is in use: `fairsem demo` shows an example."
}

// Follow finds the names in the background, for repeated queries, until the returned function is called.
func (l *List) Follow(ctx context.Context, pause time.Duration) (stop func(), err error) {
	wanted, err := l.Wanted()
	if err != nil {
		return nil, err
	}
	l.Names = look.Watch(l.Client, wanted, 0, pause)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends with ctx; stop waits
		defer close(ended)
		l.Names.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}, nil
}

// find finds all names that match. A pattern that matches only one name needs no scan of all keys.
func (l List) find(ctx context.Context) (look.Survey, error) {
	if look.Exact(l.Pattern) {
		if err := look.CheckName(l.Client, l.Pattern); err != nil {
			return look.Survey{}, nil // there can be no such name
		}
		return look.Some(ctx, l.Client, []string{l.Pattern})
	}
	if l.Names != nil {
		return l.waitComplete(ctx)
	}
	wanted, err := l.Wanted()
	if err != nil {
		return look.Survey{}, err
	}
	return look.All(ctx, l.Client, wanted)
}

// retryEvery is the time between queries while the first scan is under way.
const retryEvery = time.Second

// waitComplete waits until all names that were there at the start are known.
func (l List) waitComplete(ctx context.Context) (look.Survey, error) {
	for {
		seen, err := l.Names.Look(ctx)
		if err != nil || !seen.Partial {
			return seen, err
		}
		select {
		case <-l.Names.Walked():
		case <-time.After(retryEvery): // Redis may have gone away
		case <-ctx.Done():
			return seen, context.Cause(ctx)
		}
	}
}

// Wanted returns what the pattern matches.
func (l List) Wanted() (func(name string) bool, error) { return look.Glob(cmp.Or(l.Pattern, "*")) }

// joinErrors is one line whatever their number.
func joinErrors(all []error) error {
	if len(all) > 1 {
		return fmt.Errorf("%w; and %d more cannot be read", all[0], len(all)-1)
	}
	return errors.Join(all...)
}

func (l List) text(all []fairsem.Status, width, height int) string {
	switch {
	case l.JSON:
		var lines strings.Builder
		for _, s := range all {
			lines.Write(text.JSON(look.NewSemaphore(s)))
		}
		return lines.String()
	case len(all) == 0:
		return ""
	case width == 0:
		return Plain(all)
	case height > 0 && len(all) > height: // the screen would cut it off
		all = all[:height]
	}
	return Table(all, width)
}

// Table is for a terminal of so many columns. No row is longer; names are cut.
func Table(all []fairsem.Status, width int) string {
	columns := []grid.Column{{Head: "NAME", Cut: true}, {}, {Head: "USED", Right: true}, {Head: "WAITING", Right: true},
		{Head: "OLDEST", Right: true}, {Head: "EXPIRED", Right: true}, {Head: "NOTE"}}
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{text.Clean(s.Name), Bar(s, barWidth(width)), Used(s), warn(s.Waiting), oldest(s), warn(s.Expired), note(s)}
	}
	return grid.Lay(columns, rows, width)
}

// Plain is for programs: the same columns without the bar, nothing cut, the first six without a space.
func Plain(all []fairsem.Status) string {
	columns := []grid.Column{{Head: "NAME"}, {Head: "USED", Right: true}, {Head: "LIMIT", Right: true}, {Head: "WAITING", Right: true},
		{Head: "OLDEST", Right: true}, {Head: "EXPIRED", Right: true}, {Head: "NOTE"}}
	rows := make([][]string, len(all))
	for i, s := range all {
		name := strings.ReplaceAll(text.Clean(s.Name), " ", `\x20`)
		rows[i] = []string{name, count(s.Used), count(s.Limit), count(s.Waiting), text.Ago(s.OldestWait), count(s.Expired), strings.Join(look.Notes(s), ", ")}
	}
	return grid.Lay(columns, rows, 0)
}

// Used is like 3/20.
func Used(s fairsem.Status) string { return count(s.Used) + "/" + count(s.Limit) }

var (
	free  = lipgloss.NewStyle().Foreground(lipgloss.Green)
	busy  = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	faint = lipgloss.NewStyle().Faint(true)
)

// Bar is used of limit in so many columns: green with room, yellow without.
func Bar(s fairsem.Status, width int) string {
	style := free
	if look.Full(s) {
		style = busy
	}
	return style.Render(text.Bar(s.Used, s.Limit, width))
}

func barWidth(width int) int { return min(max(width/8, 8), 30) }

// warn shows a number that had better be 0.
func warn(n int64) string {
	if n == 0 {
		return faint.Render("0")
	}
	return busy.Render(count(n))
}

func oldest(s fairsem.Status) string {
	if s.Waiting == 0 {
		return faint.Render("-")
	}
	return text.Ago(s.OldestWait)
}

func note(s fairsem.Status) string {
	notes := look.Notes(s)
	if look.Paused(s) {
		notes[0] = busy.Render(notes[0])
	}
	return strings.Join(notes, ", ")
}

func count(n int64) string { return strconv.FormatInt(n, 10) }
