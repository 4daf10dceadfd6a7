package top

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// detail is one name, with a table of its holders and waiters.
type detail struct {
	row
	list[ticket]
	all  []ticket // of the last answer
	more int64    // tickets that were not asked for

	tenants  tenants
	byTenant bool    // the tenants are on the screen, not the tickets
	only     *string // the tenant whose tickets are shown; nil: all
	trend    trend

	answered time.Time // the last answer; zero: there was none

	labelWidth int  // of the widest
	numbered   bool // units have numbers
}

// ticket is a row of the table: a holder or a waiter.
type ticket struct {
	fairsem.Ticket
	position int           // in the queue, from 1 on; 0: a holder
	since    time.Duration // it holds or waits, by the server's clock
}

func (t ticket) key() string { return t.ID }

// open begins with the row of the table of all names.
func (n *names) open(r row) detail { return detail{row: r, trend: n.trend} }

// update takes the answer to a query at a moment.
func (d *detail) update(at time.Time, seen inspect.Detail) {
	d.row = d.trend.add(at, []fairsem.Status{seen.Status})[0]
	d.more = seen.MoreHolders + seen.MoreWaiters
	d.numbered = render.Numbered(seen.Holders)
	d.tenants.update(seen.Tenants)
	if len(d.tenants.items) == 0 {
		d.byTenant, d.only = false, nil
	}
	d.all = nil
	for _, t := range seen.Holders {
		d.all = append(d.all, ticket{t, 0, inspect.Since(seen.At, t)})
	}
	for i, t := range seen.Waiters {
		d.all = append(d.all, ticket{t, i + 1, inspect.Since(seen.At, t)})
	}
	d.labelWidth = labelLeast
	for _, t := range d.all {
		d.labelWidth = max(d.labelWidth, text.Columns(render.Label(t.Ticket)))
	}
	d.arrange()
}

// arrange shows all tickets, or those of one tenant.
func (d *detail) arrange() {
	d.set(slices.DeleteFunc(slices.Clone(d.all), func(t ticket) bool { return d.only != nil && t.Tenant != *d.only }))
}

func (d *detail) view(width int, p paint) string { return d.draw(d.columns(), width, p) }

const (
	labelLeast = 8
	labelMost  = 40
)

func (d *detail) columns() []column[ticket] {
	columns := []column[ticket]{
		{gap: 1, min: 5, max: 7, cell: stateCell},
		{title: "LABEL", gap: 2, min: labelLeast, max: min(d.labelWidth, labelMost), text: func(t ticket) string { return render.Label(t.Ticket) }},
		{title: "UNITS", right: true, gap: 2, min: 6, rank: 1, text: func(t ticket) string { return brief(t.Weight) }},
		{title: "FOR", right: true, gap: 2, min: 7, rank: 2, text: func(t ticket) string { return text.Ago(t.since) }},
		{title: "EXPIRES", right: true, gap: 2, min: 7, rank: 3, cell: expiresCell},
		{title: "TOKEN", right: true, gap: 2, min: 6, max: 16, rank: 5, cell: tokenCell},
		{title: "ID", gap: 2, min: 12, max: 24, rank: 6, cell: func(t ticket, _ int, p paint) string { return p.title.Render(text.Word(inspect.ShortID(t.ID))) }},
	}
	if len(d.tenants.items) > 0 {
		tenant := column[ticket]{title: "TENANT", gap: 2, min: labelLeast, max: min(d.tenants.nameWidth, labelMost), rank: 4}
		tenant.text = func(t ticket) string { return text.Word(t.Tenant) }
		columns = slices.Insert(columns, 2, tenant)
	}
	if d.numbered {
		numbers := column[ticket]{title: "NUMBERS", gap: 2, min: 7, max: 16, rank: 4}
		numbers.text = func(t ticket) string { return render.Numbers(t.Ticket) }
		columns = slices.Insert(columns, len(columns)-1, numbers)
	}
	return columns
}

// stateCell distinguishes holders and positions in the queue.
func stateCell(t ticket, _ int, p paint) string {
	if t.position == 0 {
		return p.good.Render("holds")
	}
	return p.full.Render("#" + strconv.Itoa(t.position))
}

func expiresCell(t ticket, _ int, p paint) string {
	if t.ExpiresIn <= 0 {
		return p.bad.Render("ended")
	}
	return p.text.Render(text.Ago(t.ExpiresIn))
}

// tokenCell shows the whole token or its end: it is compared with others, and a rounded one would lie.
func tokenCell(t ticket, width int, p paint) string {
	if t.Token == 0 {
		return p.title.Render("-")
	}
	token := strconv.FormatInt(t.Token, 10)
	if len(token) > width {
		token = "…" + token[len(token)-width+1:]
	}
	return p.text.Render(token)
}

// summary begins with what matters most: its end may be beyond the screen.
func (d *detail) summary(p paint) string {
	const barWidth = 16
	parts := []string{p.strong.Render(shortName(d.Name)), bar(d.Status, barWidth, p) + " " + p.text.Render(inUse(d.Status))}
	if special := notes(d.Status); special != "" {
		if d.Pinned {
			special += ", declared " + declared(d.Status)
		}
		parts = append(parts, p.note.Render(special))
	}
	if d.only != nil && !d.byTenant {
		parts = append(parts, p.note.Render("only of the tenant "+text.Cut(text.Word(*d.only), 40, "…")))
	}
	parts = append(parts, p.text.Render(waiting(d.Status)))
	if d.more > 0 {
		parts = append(parts, p.note.Render(brief(d.more)+" more are not shown"))
	}
	if hidden := d.tenants.hidden; d.byTenant && hidden != "" {
		parts = append(parts, p.note.Render(hidden+" tenants are not shown"))
	}
	parts = append(parts, p.text.Render(rate(d.row)+" grants/s"))
	if d.Window == 0 {
		parts = append(parts, expiries(d.Expired, d.gain, p))
	}
	return " " + strings.Join(parts, "   ")
}

func waiting(s fairsem.Status) string {
	if s.Waiting == 0 {
		return "0 waiting"
	}
	return brief(s.Waiting) + " waiting, " + text.Ago(s.OldestWait)
}
