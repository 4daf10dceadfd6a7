package top

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// names is the sorted table of all names that match the filter.
type names struct {
	list[row]
	all     []row // of the last query
	trend   trend
	filter  string
	busy    bool // only those with a holder or a waiter
	order   int  // which one of inspect.Orders
	reverse bool

	answered   time.Time // the last answer; zero: there was none
	unreadable []error   // of names that cannot be read
	missing    error     // why there may be names that were not found; nil: for no error
	partial    bool      // there may be more than were found so far

	nameWidth, usedWidth int // of the widest
}

// update takes the status of all names at a moment.
func (n *names) update(at time.Time, all []fairsem.Status) {
	n.all = n.trend.add(at, all)
	n.nameWidth, n.usedWidth = nameLeast, len("▾IN USE")-2
	for _, s := range all {
		n.nameWidth = max(n.nameWidth, text.Columns(text.Distinct(s.Name)))
		n.usedWidth = max(n.usedWidth, len(inUse(s)))
	}
	n.arrange()
}

// Orders are those in which the table can be, by name.
func Orders() (keys []string) {
	for _, o := range inspect.Orders {
		keys = append(keys, o.Key)
	}
	return keys
}

// arrange filters and sorts the rows.
func (n *names) arrange() {
	shown := slices.DeleteFunc(slices.Clone(n.all), func(r row) bool { return !n.shows(r) })
	order := inspect.Orders[n.order]
	slices.SortFunc(shown, func(a, b row) int {
		c := order.Compare(a.Rated, b.Rated)
		if order.Key == "expired" { // names with permits that expire now come first
			c = cmp.Or(cmp.Compare(b.gain, a.gain), c)
		}
		if n.reverse {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.Name, b.Name))
	})
	n.set(shown)
}

// shows reports whether a row is among those that are wanted.
func (n *names) shows(r row) bool {
	return inspect.Shows(r.Name, n.filter) && (!n.busy || inspect.Busy(r.Status))
}

// sort selects the order that is so many titles further on.
func (n *names) sort(by int) {
	n.order = (n.order + by + len(inspect.Orders)) % len(inspect.Orders)
	n.reverse = false
	n.arrange()
}

func (n *names) view(width int, p paint) string { return n.draw(n.columns(), width, p) }

const (
	nameLeast = 14
	nameMost  = 40
	barLeast  = 8
	barMost   = 24
)

func (n *names) columns() []column[row] {
	return []column[row]{
		{title: n.title("name", "NAME"), gap: 1, min: nameLeast, max: min(n.nameWidth, nameMost), text: func(r row) string { return text.Distinct(r.Name) }},
		{gap: 2, min: barLeast, max: barMost, rank: 6, cell: func(r row, width int, p paint) string { return bar(r.Status, width, p) }},
		{title: n.title("used", "IN USE"), right: true, gap: 1, min: n.usedWidth, text: func(r row) string { return inUse(r.Status) }},
		{title: n.title("waiting", "WAITING"), right: true, gap: 1, min: 8, rank: 1, cell: waitingCell},
		{title: n.title("oldest", "OLDEST"), right: true, gap: 1, min: 7, rank: 4, cell: oldestCell},
		{title: n.title("rate", "GRANTS/S"), right: true, gap: 1, min: 9, rank: 5, cell: rateCell},
		{title: n.title("expired", "EXPIRED"), right: true, gap: 1, min: 8, rank: 3, cell: expiredCell},
		{gap: 2, min: 6, max: 24, rank: 2, cell: func(r row, _ int, p paint) string { return p.note.Render(notes(r.Status)) }},
	}
}

// title marks the column by which the table is sorted.
func (n *names) title(key, title string) string {
	if inspect.Orders[n.order].Key != key {
		return title
	}
	mark := "▾"
	if n.reverse != (key == "name") {
		mark = "▴"
	}
	if key == "name" {
		return title + " " + mark
	}
	return mark + title
}

// bar is yellow where nothing can be granted.
func bar(s fairsem.Status, width int, p paint) string {
	style := p.bar
	if inspect.Full(s) {
		style = p.full
	}
	drawn := text.Bar(s.Used, s.Limit, width)
	full := strings.TrimRight(drawn, "░")
	return style.Render(full) + p.title.Render(drawn[len(full):])
}

func inUse(s fairsem.Status) string { return brief(s.Used) + "/" + brief(s.Limit) }

func waitingCell(r row, _ int, p paint) string {
	if r.Waiting == 0 {
		return p.title.Render("0")
	}
	return p.strong.Render(brief(r.Waiting))
}

func oldestCell(r row, _ int, p paint) string {
	if r.Waiting == 0 {
		return p.title.Render("-")
	}
	return p.text.Render(text.Ago(r.OldestWait))
}

func rateCell(r row, _ int, p paint) string {
	if !r.rated || r.Rate < 0.05 {
		return p.title.Render(rate(r))
	}
	return p.text.Render(rate(r))
}

// rate is none before there are two answers to compare.
func rate(r row) string {
	switch {
	case !r.rated:
		return "-"
	case r.Rate < 0.05:
		return "0"
	case r.Rate < 9.95:
		return strconv.FormatFloat(r.Rate, 'f', 1, 64)
	}
	return brief(int64(math.Round(r.Rate)))
}

func expiredCell(r row, _ int, p paint) string {
	switch {
	case r.Window > 0:
		return p.title.Render("-") // grants of a rate always expire
	case r.gain > 0:
		return p.bad.Render("+" + brief(r.gain) + " " + brief(r.Expired))
	case r.Expired == 0:
		return p.title.Render("0")
	}
	return p.text.Render(brief(r.Expired))
}

// notes joins the remarks about a name.
func notes(s fairsem.Status) string { return strings.Join(render.Notes(s), ", ") }

// summary is about all names, those that the filter hides, too.
func (n *names) summary(p paint) string {
	var used, waiting, expired int64
	var sum row
	for _, r := range n.all {
		used += r.Used
		waiting += r.Waiting
		expired += r.Expired
		sum.gain += r.gain
		sum.Rate += r.Rate
		sum.rated = sum.rated || r.rated
	}
	parts := []string{
		p.text.Render(render.Count(int64(len(n.all)), "name")),
		p.text.Render(brief(used) + " in use"),
		p.text.Render(brief(waiting) + " waiting"),
		p.text.Render(rate(sum) + " grants/s"),
		expiries(expired, sum.gain, p),
	}
	switch {
	case n.filter != "":
		parts = slices.Insert(parts, 1, p.note.Render(brief(int64(len(n.items)))+" with "+short(n.filter)))
	case n.busy:
		parts = slices.Insert(parts, 1, p.note.Render(brief(int64(len(n.items)))+" busy"))
	}
	return " " + strings.Join(parts, "   ")
}

// stillScanning is shown until the names that were there at the start are found.
const stillScanning = "still scanning the keys of the server: there may be more names"

// warning reports names that are missing from the table.
func (n *names) warning(p paint) string {
	switch {
	case len(n.unreadable) == 0 && n.missing != nil:
		return p.note.Render(" " + plainly(n.missing))
	case len(n.unreadable) == 0 && n.partial:
		return p.note.Render(" " + stillScanning)
	case len(n.unreadable) == 0:
		return ""
	}
	return p.note.Render(" " + render.Count(int64(len(n.unreadable)), "name") + " cannot be read: " + plainly(n.unreadable[0]))
}

// expiries is red while it grows.
func expiries(all, gain int64, p paint) string {
	if gain > 0 {
		return p.bad.Render("+" + brief(gain) + " " + brief(all) + " expired")
	}
	return p.text.Render(brief(all) + " expired")
}
