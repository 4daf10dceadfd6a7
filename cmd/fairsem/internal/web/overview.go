package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// mostRows is how many names a page shows. Others are found by the filter.
const mostRows = 200

// mostUnreadable is how many names that cannot be read are listed.
const mostUnreadable = 5

// filter selects names, and their order.
type filter struct{ Query, Sort string }

// longQuery is longer than any name.
const longQuery = 600

func readFilter(r *http.Request) filter {
	f := filter{Query: r.FormValue("q"), Sort: r.FormValue("sort")}
	f.Query = f.Query[:min(len(f.Query), longQuery)]
	if inspect.OrderIndex(f.Sort) < 0 {
		f.Sort = inspect.Orders[0].Key
	}
	return f
}

// path is the URL of this selection.
func (f filter) path(of string) string {
	return of + "?" + url.Values{"q": {f.Query}, "sort": {f.Sort}}.Encode()
}

// Orders are for the form.
func (filter) Orders() []inspect.Order { return inspect.Orders }

// heading is the head of a column.
type heading struct {
	inspect.Order
	Link   string
	Sorted string // for aria-sort
}

func (f filter) headings() []heading {
	var all []heading
	for _, o := range inspect.Orders {
		h := heading{Order: o, Link: filter{f.Query, o.Key}.path("/")}
		if o.Key == f.Sort {
			h.Sorted = "descending"
			if o.Key == inspect.Orders[0].Key {
				h.Sorted = "ascending"
			}
		}
		all = append(all, h)
	}
	return all
}

// row is a name on the page.
type row struct {
	gauge
	Key, Link, Title string
	Plot             plot
	Waiting, Expired int64
	Oldest, Rate     string
}

// overview is the picture of all names.
type overview struct {
	Trouble       string
	Filter        filter
	Total         []tile
	Headings      []heading
	Rows          []row
	Hidden        int      // rows, by their number
	More, Partial bool     // as in inspect.Survey
	Connected     bool     // there was a poll
	Exact         string   // the link of the name that is exactly the query, if there can be one
	Names         int      // that are polled, at most
	Unreadable    []string // why some names are missing
	Pattern       string   // of the names that are shown; "": any
	Outside       bool     // the queried name is not one of these
	Idle          int      // names that are not shown for that
}

// tile is a figure that stands out.
type tile struct{ Name, Value string }

func (p *Page) overview(now *snapshot, f filter, trouble string) overview {
	o := overview{
		Trouble: trouble, Filter: f, Connected: !now.at.IsZero(), Headings: f.headings(),
		More: now.More, Partial: now.Partial, Names: p.Names, Total: total(now.Statuses),
		Pattern: shown(p.Pattern),
	}
	for _, err := range now.Unreadable[:min(len(now.Unreadable), mostUnreadable)] {
		o.Unreadable = append(o.Unreadable, sentence(err))
	}
	if now.Missing != nil {
		o.Unreadable = append(o.Unreadable, sentence(now.Missing))
	}
	if f.Query != "" && !p.lists(now.one(f.Query)) {
		err := p.checkName(f.Query)
		o.Outside = errors.Is(err, errNotShown)
		if err == nil {
			o.Exact = link(f.Query)
		}
	}
	var found []inspect.Rated
	for _, s := range now.Statuses {
		if !p.lists(s) {
			o.Idle++
			continue
		}
		if inspect.Shows(s.Name, f.Query) {
			found = append(found, inspect.Rated{Status: s, Rate: now.rates[s.Name]})
		}
	}
	order := inspect.Orders[inspect.OrderIndex(f.Sort)]
	slices.SortFunc(found, func(a, b inspect.Rated) int { return cmp.Or(order.Compare(a, b), cmp.Compare(a.Name, b.Name)) })
	o.Hidden = max(0, len(found)-mostRows)
	for _, r := range found[:len(found)-o.Hidden] {
		o.Rows = append(o.Rows, p.row(now, r))
	}
	return o
}

// lists reports whether a name is on the page of all names.
func (p *Page) lists(s fairsem.Status) bool { return s.Exists && (!p.Busy || inspect.Busy(s)) }

func total(all []fairsem.Status) []tile {
	var used, waiting int64
	var oldest time.Duration
	for _, s := range all {
		used, waiting, oldest = used+s.Used, waiting+s.Waiting, max(oldest, s.OldestWait)
	}
	return []tile{
		{"Semaphores", strconv.Itoa(len(all))},
		{"Units in use", strconv.FormatInt(used, 10)},
		{"Waiting", strconv.FormatInt(waiting, 10)},
		{"Oldest wait", age(oldest)},
	}
}

func (p *Page) row(now *snapshot, r inspect.Rated) row {
	return row{
		gauge: newGauge(r.Status), Key: key("n", r.Name), Link: link(r.Name), Title: title(r.Name), Plot: p.plotUse(now, r.Name, 120),
		Waiting: r.Waiting, Expired: r.Expired, Oldest: age(r.OldestWait), Rate: perSecond(r.Rate),
	}
}

func (p *Page) plotUse(now *snapshot, name string, most int) plot {
	all := columns(now.series[name], most, func(p point) int64 { return p.used })
	return draw(all, now.at, p.gap(most), true)
}

// gap is the time without a poll that a plot shows as a gap.
func (p *Page) gap(most int) time.Duration { return 2*p.pollTimeout() + window/time.Duration(most) }

// gauge is how much of a limit is in use.
type gauge struct {
	Used, Limit int64
	Per         string  // the window of a limit in time
	Filled      float64 // of 100
	Full        bool
	Pinned      bool
	Paused      bool
}

func newGauge(s fairsem.Status) gauge {
	g := gauge{Used: s.Used, Limit: s.Limit, Full: inspect.Full(s), Pinned: s.Pinned, Paused: inspect.Paused(s)}
	if s.Window > 0 {
		g.Per = "per " + text.Span(s.Window)
	}
	g.Filled = min(100, 100*float64(s.Used)/float64(max(s.Limit, 1)))
	return g
}

// key is an id for an element that stands for a name or an id.
func key(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return kind + hex.EncodeToString(sum[:8])
}

func link(name string) string { return "/semaphore?" + url.Values{"name": {name}}.Encode() }

// longText is a length that fits into no cell anyway. A name has at most 512 bytes, but a label may have any number.
const longText = 256

// shown is a text from an untrusted source. It cannot reorder or break the text beside it; the templates escape it for
// HTML.
func shown(s string) string {
	if len(s) > longText*4 {
		s = s[:longText*4]
	}
	runes := []rune(text.Clean(s))
	if len(runes) > longText {
		return string(runes[:longText]) + "…"
	}
	return string(runes)
}

// title is a name or a tenant on the page. No two of at most longText characters have the same: bytes that are no UTF-8, and blanks that a
// browser leaves out, are written as escapes, and a backslash has another one before it, as in fairsem ls.
func title(name string) string { return keepBlanks(shown(text.Distinct(name))) }

// keepBlanks writes the blanks at the ends of s, and all but the first of several, as escapes.
func keepBlanks(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			b.WriteString(`\x20`)
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func age(d time.Duration) string {
	if d <= 0 {
		return "–"
	}
	return text.Ago(d)
}

func perSecond(rate float64) string {
	if rate == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f", rate)
}
