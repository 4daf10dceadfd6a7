package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Detail returns one semaphore with its holders and its queue, for a terminal of so many columns; 0: for a pipe.
func Detail(d inspect.Detail, width int) string {
	var b strings.Builder
	line := func(parts ...string) {
		s := strings.Join(parts, "  ")
		if width > 0 {
			s = text.Cut(s, width, "…")
		}
		b.WriteString(s + "\n")
	}
	line(screen.Bold.Render(text.Distinct(d.Name)))
	sentence := func(s string, style lipgloss.Style) {
		for _, part := range wrapped(s, width) {
			line(style.Render(part))
		}
	}
	sentence(bar(d.Status, 20)+"  "+Used(d.Status)+" in use  "+queueSummary(d), lipgloss.NewStyle())
	sentence(limitLine(d.Status), screen.Faint)
	sentence(history(d.Status), screen.Faint)
	if of := d.Tenants; of.Err != nil {
		line()
		sentence("the tenants are not known: "+text.Clean(of.Err.Error()), lipgloss.NewStyle())
	} else if len(of.All) > 0 {
		line()
		b.WriteString(tenants(of.All, width))
		if hidden := of.Hidden(); hidden != "" {
			line(screen.Faint.Render("… and " + hidden + ": --rows shows them"))
		}
	}
	if len(d.Holders) > 0 {
		line()
		b.WriteString(Holders(d.Holders, d.At, width))
		more(line, d.MoreHolders)
	}
	if len(d.Waiters) > 0 {
		line()
		b.WriteString(Waiters(d.Waiters, nil, d.At, width))
		more(line, d.MoreWaiters)
	}
	return b.String()
}

// wrapped are the lines of a sentence on a terminal of so many columns: cut, it would lose its point.
func wrapped(s string, width int) []string {
	if width > 0 {
		s = text.Wrap(s, width)
	}
	return strings.Split(s, "\n")
}

func more(line func(...string), n int64) {
	if n > 0 {
		line(screen.Faint.Render(fmt.Sprintf("… and %d more: --rows shows them", n)))
	}
}

func queueSummary(d inspect.Detail) string {
	if d.Waiting == 0 {
		return "no waiters"
	}
	s := fmt.Sprintf("%d waiting, the oldest for %s", d.Waiting, text.Ago(d.OldestWait))
	if wait, known := expectedWait(d); known {
		s += fmt.Sprintf("; a new call would wait for about %s", text.Ago(wait))
	}
	return s
}

// expectedWait is how long a new call would wait. Where tenants share the name, that depends on whose call it is.
func expectedWait(d inspect.Detail) (wait time.Duration, known bool) {
	if len(d.Tenants.All) > 0 {
		return 0, false
	}
	return d.ExpectedWait()
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
	columns := []column{{Head: "HOLDER", Cut: true}, {Head: "UNITS", Right: true, Rank: 4}, {Head: "HELD", Right: true, Rank: 3},
		{Head: "EXPIRES", Right: true, Rank: 5}, {Head: "TOKEN", Right: true, Rank: 6}}
	rows := make([][]string, len(holders))
	for i, t := range holders {
		rows[i] = []string{Label(t), number(t.Weight), text.Ago(inspect.Since(now, t)), text.Ago(t.ExpiresIn), number(t.Token)}
	}
	if Numbered(holders) {
		columns = append(columns, column{Head: "NUMBERS", Cut: true, Rank: 2})
		for i, t := range holders {
			rows[i] = append(rows[i], Numbers(t))
		}
	}
	return withIDs(columns, rows, holders, width)
}

// Numbered reports whether the units of any of the holders have numbers.
func Numbered(holders []fairsem.Ticket) bool {
	return slices.ContainsFunc(holders, func(t fairsem.Ticket) bool { return len(t.Numbers) > 0 })
}

// Numbers returns the numbers of the units of t, with those that follow each other as one range: 0-2,5.
func Numbers(t fairsem.Ticket) string {
	all := t.Numbers
	var parts []string
	for first := 0; first < len(all); {
		last := first
		for last+1 < len(all) && all[last+1] == all[last]+1 {
			last++
		}
		part := number(all[first])
		if last > first {
			part += "-" + number(all[last])
		}
		parts = append(parts, part)
		first = last + 1
	}
	return strings.Join(parts, ",")
}

// Waiters is like Holders; positions are those in the queue, nil being from the first on.
func Waiters(waiters []fairsem.Ticket, positions []int, now time.Time, width int) string {
	columns := []column{{Head: "POSITION", Right: true}, {Head: "WAITER", Cut: true}, {Head: "UNITS", Right: true, Rank: 4},
		{Head: "WAITED", Right: true, Rank: 3}, {Head: "EXPIRES", Right: true, Rank: 5}}
	rows := make([][]string, len(waiters))
	for i, t := range waiters {
		position := i + 1
		if positions != nil {
			position = positions[i]
		}
		rows[i] = []string{strconv.Itoa(position), Label(t), number(t.Weight), text.Ago(inspect.Since(now, t)), text.Ago(t.ExpiresIn)}
	}
	return withIDs(columns, rows, waiters, width)
}

// withIDs lays out rows with two more columns: the tenant, if a ticket has one, and the id. Both can be pasted into a command, unless
// they are cut.
func withIDs(columns []column, rows [][]string, tickets []fairsem.Ticket, width int) string {
	idOf := inspect.PlainID
	if width > 0 {
		idOf = inspect.ShortID
	}
	shared := slices.ContainsFunc(tickets, func(t fairsem.Ticket) bool { return t.Tenant != "" })
	if shared {
		columns = append(columns, column{Head: "TENANT", Cut: true, Rank: 1})
	}
	columns = append(columns, column{Head: "ID", Cut: true})
	for i, t := range tickets {
		if shared {
			rows[i] = append(rows[i], text.Word(t.Tenant))
		}
		rows[i] = append(rows[i], text.Word(idOf(t.ID)))
	}
	return layOut(columns, rows, width)
}

// tenants returns a table of them.
func tenants(all []fairsem.Tenant, width int) string {
	columns := []column{{Head: "TENANT", Cut: true}, {Head: "USED", Right: true}, {Head: "SHARE", Right: true, Rank: 3}, {Head: "LIMIT", Right: true, Rank: 2},
		{Head: "WAITING", Right: true}, {Head: "OLDEST", Right: true, Rank: 1}}
	rows := make([][]string, len(all))
	for i, t := range all {
		rows[i] = []string{text.Word(t.Name), number(t.Used), number(t.Share), TenantLimit(t), number(t.Waiting), TenantWait(t)}
	}
	return layOut(columns, rows, width)
}

// TenantLimit is the most units that t may hold, or "-" if it may hold as many as the limit of the name.
func TenantLimit(t fairsem.Tenant) string {
	if t.Limit == 0 {
		return "-"
	}
	return number(t.Limit)
}

// TenantWait is how long the first waiter of t has waited, or "-" if it has none.
func TenantWait(t fairsem.Tenant) string {
	if t.Waiting == 0 {
		return "-"
	}
	return text.Ago(t.OldestWait)
}

// Label is the label of t, or "?" if Redis does not have it: the process has been silent for long, or Redis has lost its state, and the
// process has not sent its label again.
func Label(t fairsem.Ticket) string {
	if t.Label == "" {
		return "?"
	}
	return text.Clean(t.Label)
}
