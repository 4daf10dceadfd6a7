package render

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

var bold = lipgloss.NewStyle().Bold(true)

// Detail returns one semaphore with its holders and its queue, for a terminal of so many columns; 0: for a pipe.
func Detail(d inspect.Detail, width int) string {
	var b strings.Builder
	line := func(parts ...string) {
		s := strings.Join(parts, "  ")
		if width > 0 {
			s = ansi.Truncate(s, width, "…")
		}
		b.WriteString(s + "\n")
	}
	line(bold.Render(text.Clean(d.Name)))
	line(bar(d.Status, 20), Used(d.Status)+" in use", queueSummary(d.Status))
	line(faint.Render(limitLine(d.Status)))
	line(faint.Render(history(d.Status)))
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

func queueSummary(d fairsem.Status) string {
	if d.Waiting == 0 {
		return "no waiters"
	}
	s := fmt.Sprintf("%d waiting, the oldest for %s", d.Waiting, text.Ago(d.OldestWait))
	if wait, known := d.ExpectedWait(); known {
		s += fmt.Sprintf("; a new call would wait for about %s", text.Ago(wait))
	}
	return s
}

func limitLine(s fairsem.Status) string {
	limit, declared := fmt.Sprintf("limit %d", s.Limit), fmt.Sprintf("the declared limit is %d", s.Declared)
	switch {
	case s.Window > 0:
		limit, declared = "rate "+Rate(s.Limit, s.Window), "the declared rate is "+Rate(s.Declared, s.Window)
	case s.Declared == 0:
		declared = "no limit is declared"
	}
	switch {
	case inspect.Paused(s):
		return "paused: nothing is granted until it is resumed or resized; " + declared
	case s.Pinned:
		return limit + ", set by hand; " + declared
	case s.Declared == 0:
		return declared
	}
	return limit
}

func history(d fairsem.Status) string {
	s := fmt.Sprintf("%d granted so far", d.Granted)
	if d.Window == 0 {
		s += fmt.Sprintf(", %d expired", d.Expired)
	}
	return s
}

// Holders returns a table of them; now is the time of the server. On a terminal, which has a width, the ids are short.
func Holders(holders []fairsem.Ticket, now time.Time, width int) string {
	columns := []column{{Head: "HOLDER", Cut: true}, {Head: "UNITS", Right: true}, {Head: "HELD", Right: true},
		{Head: "EXPIRES", Right: true}, {Head: "TOKEN", Right: true}, {Head: "ID", Cut: true}}
	rows := make([][]string, len(holders))
	for i, t := range holders {
		rows[i] = []string{label(t), count(t.Weight), text.Ago(inspect.Since(now, t)), text.Ago(t.ExpiresIn), count(t.Token), text.Clean(t.ID)}
	}
	return withIDs(columns, rows, holders, width)
}

// Waiters is like Holders; positions are those in the queue.
func Waiters(waiters []fairsem.Ticket, positions []int, now time.Time, width int) string {
	columns := []column{{Head: "POSITION", Right: true}, {Head: "WAITER", Cut: true}, {Head: "UNITS", Right: true}, {Head: "WAITED", Right: true},
		{Head: "EXPIRES", Right: true}, {Head: "ID", Cut: true}}
	rows := make([][]string, len(waiters))
	for i, t := range waiters {
		rows[i] = []string{strconv.Itoa(positions[i]), label(t), count(t.Weight), text.Ago(inspect.Since(now, t)), text.Ago(t.ExpiresIn), text.Clean(t.ID)}
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
func withIDs(columns []column, rows [][]string, tickets []fairsem.Ticket, width int) string {
	if width > 0 {
		for i, t := range tickets {
			rows[i][len(columns)-1] = text.Clean(inspect.ShortID(t.ID))
		}
	}
	return layOut(columns, rows, width)
}

func label(t fairsem.Ticket) string {
	if t.Label == "" {
		return "?"
	}
	return text.Clean(t.Label)
}
