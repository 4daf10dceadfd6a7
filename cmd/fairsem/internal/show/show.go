// Package show shows one semaphore with its holders and its queue.
package show

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/frames"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/grid"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/list"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/look"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Show is which name is to be shown, and how.
type Show struct {
	Client *fairsem.Client
	Name   string
	Rows   int // of holders, and of waiters, at most
	JSON   bool
	Absent error // for a name that Redis does not know; nil: that is no error
}

// detail is a name with its holders and waiters.
type detail struct{ look.Detail }

// Look queries the name.
func (s Show) Look(ctx context.Context) (f frames.Frame, err error) {
	var d detail
	if d.Detail, err = look.Deep(ctx, s.Client, s.Name, s.Rows); err != nil {
		return f, err
	}
	if !d.Exists {
		return frames.Frame{Text: func(int, int) string { return "" }, Note: fmt.Sprintf("%q is not in use.", s.Name)}, s.Absent
	}
	f.Text = func(width, _ int) string {
		if s.JSON {
			return string(text.JSON(d.object()))
		}
		return d.text(width)
	}
	return f, nil
}

// object is what --json writes.
type object struct {
	look.Semaphore
	HeldBy      []look.Holder `json:"held_by"` // in the order of their tokens
	MoreHolders int64         `json:"more_holders"`
	Queue       []look.Waiter `json:"queue"` // in its order
	MoreWaiters int64         `json:"more_waiters"`
}

func (d detail) object() object {
	o := object{
		Semaphore: look.NewSemaphore(d.Status), MoreHolders: d.MoreHolders, MoreWaiters: d.MoreWaiters,
		HeldBy: make([]look.Holder, len(d.Holders)), Queue: make([]look.Waiter, len(d.Waiters)),
	}
	for i, t := range d.Holders {
		o.HeldBy[i] = look.NewHolder(d.At, t)
	}
	for i, t := range d.Waiters {
		o.Queue[i] = look.NewWaiter(d.At, i+1, t)
	}
	return o
}

var (
	bold  = lipgloss.NewStyle().Bold(true)
	faint = lipgloss.NewStyle().Faint(true)
)

// text is for a terminal of so many columns; 0: for a pipe.
func (d detail) text(width int) string {
	var b strings.Builder
	line := func(parts ...string) {
		s := strings.Join(parts, "  ")
		if width > 0 {
			s = ansi.Truncate(s, width, "…")
		}
		b.WriteString(s + "\n")
	}
	line(bold.Render(text.Clean(d.Name)))
	line(list.Bar(d.Status, 20), list.Used(d.Status)+" in use", d.queueSummary())
	line(faint.Render(d.limit()))
	line(faint.Render(d.history()))
	if len(d.Holders) > 0 {
		line()
		b.WriteString(Holders(d.Holders, d.At, width))
		more(line, d.MoreHolders)
	}
	if len(d.Waiters) > 0 {
		line()
		b.WriteString(Waiters(d.Waiters, upTo(len(d.Waiters)), d.At, width))
		more(line, d.MoreWaiters)
	}
	return b.String()
}

func more(line func(...string), n int64) {
	if n > 0 {
		line(faint.Render(fmt.Sprintf("… and %d more: --rows shows them", n)))
	}
}

func (d detail) queueSummary() string {
	if d.Waiting == 0 {
		return "no waiters"
	}
	s := fmt.Sprintf("%d waiting, the oldest for %s", d.Waiting, text.Ago(d.OldestWait))
	if wait, known := d.ExpectedWait(); known {
		s += fmt.Sprintf("; a new call would wait for about %s", text.Ago(wait))
	}
	return s
}

func (d detail) limit() string {
	limit, declared := fmt.Sprintf("limit %d", d.Limit), fmt.Sprintf("the declared limit is %d", d.Declared)
	switch {
	case d.Window > 0:
		limit, declared = "rate "+look.Rate(d.Limit, d.Window), "the declared rate is "+look.Rate(d.Declared, d.Window)
	case d.Declared == 0:
		declared = "no limit is declared"
	}
	switch {
	case look.Paused(d.Status):
		return "paused: nothing is granted until it is resumed or resized; " + declared
	case d.Pinned:
		return limit + ", set by hand; " + declared
	case d.Declared == 0:
		return declared
	}
	return limit
}

func (d detail) history() string {
	s := fmt.Sprintf("%d granted so far", d.Granted)
	if d.Window == 0 {
		s += fmt.Sprintf(", %d expired", d.Expired)
	}
	return s
}

// Count is like "1 holder" and "2 holders".
func Count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.FormatInt(n, 10) + " " + what
}

// Holders is a table of them when it is now on the server. On a terminal, which has a width, the ids are short.
func Holders(holders []fairsem.Ticket, now time.Time, width int) string {
	columns := []grid.Column{{Head: "HOLDER", Cut: true}, {Head: "UNITS", Right: true}, {Head: "HELD", Right: true},
		{Head: "EXPIRES", Right: true}, {Head: "TOKEN", Right: true}, {Head: "ID", Cut: true}}
	rows := make([][]string, len(holders))
	for i, t := range holders {
		rows[i] = []string{label(t), count(t.Weight), text.Ago(look.Since(now, t)), text.Ago(t.ExpiresIn), count(t.Token), text.Clean(t.ID)}
	}
	return withIDs(columns, rows, holders, width)
}

// Waiters is like Holders; positions are those in the queue.
func Waiters(waiters []fairsem.Ticket, positions []int, now time.Time, width int) string {
	columns := []grid.Column{{Head: "POSITION", Right: true}, {Head: "WAITER", Cut: true}, {Head: "UNITS", Right: true}, {Head: "WAITED", Right: true},
		{Head: "EXPIRES", Right: true}, {Head: "ID", Cut: true}}
	rows := make([][]string, len(waiters))
	for i, t := range waiters {
		rows[i] = []string{strconv.Itoa(positions[i]), label(t), count(t.Weight), text.Ago(look.Since(now, t)), text.Ago(t.ExpiresIn), text.Clean(t.ID)}
	}
	return withIDs(columns, rows, waiters, width)
}

// upTo returns 1 to n.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// withIDs lays out rows whose last column is the id.
func withIDs(columns []grid.Column, rows [][]string, tickets []fairsem.Ticket, width int) string {
	if width > 0 {
		for i, t := range tickets {
			rows[i][len(columns)-1] = text.Clean(look.ShortID(t.ID))
		}
	}
	return grid.Lay(columns, rows, width)
}

func label(t fairsem.Ticket) string {
	if t.Label == "" {
		return "?"
	}
	return text.Clean(t.Label)
}

func count(n int64) string { return strconv.FormatInt(n, 10) }
