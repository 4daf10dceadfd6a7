package web

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// maxTickets is how many holders, and how many waiters, a page shows.
const maxTickets = 200

// ticket is a holder or a waiter on the page.
type ticket struct {
	Key, Label, ID string
	Tenant         string
	Position       int // in the queue
	Token, Weight  int64
	Numbers        string // of the units; "": they have none
	For, Expires   string
	Evict          string // where to do that; "": not here
}

// tenant is a tenant on the page.
type tenant struct {
	Key, Name            string
	Used, Share, Waiting int64
	Limit, Oldest        string
}

// closeUp is the picture of one name.
type closeUp struct {
	gauge
	Title, Trouble           string
	Known, Seen              bool   // by Redis; and whether the holders and waiters are known
	Polled                   bool   // with all names; else its rate and past are not known
	Old, Age                 string // the part of the page that is older than the polls, and its age; Age "": none is
	Why                      string // there is no present answer; "": there is, or Trouble says why
	More                     bool   // there are more names than are polled
	Names                    int    // that are polled, at most
	Total                    []tile
	Use, Queue               plot
	Holders, Waiters         []ticket
	Numbered                 bool // units of holders have numbers
	MoreHolders, MoreWaiters int64
	Tenants                  []tenant
	MoreTenants              string
	Declared                 int64
	Controls                 []control
}

// control is a link to a permitted change.
type control struct{ Link, Text string }

// detail is the holders and waiters of a name.
type detail struct {
	inspect.Detail
	seen     bool      // it is known
	at       time.Time // when it was, by the clock of this machine
	age, why string    // of an old answer, and why there is none of now; "": there is, or Redis is away
}

// closeUp has the figures of the newer of two: the query of the name alone, and the poll of all.
func (p *Page) closeUp(now *snapshot, d detail, name, trouble string, in bool) closeUp {
	s, old := now.one(name), "Holders and waiters"
	_, polled := now.byName[name]
	if d.seen && (!polled || !now.at.After(d.at)) {
		s, old = d.Status, "Figures, holders and waiters"
	}
	rate := "–"
	if r, ok := now.rates[name]; ok {
		rate = perSecond(r)
	}
	c := closeUp{
		gauge: newGauge(s), Title: title(name), Trouble: trouble, Known: s.Exists, Seen: d.seen && d.Exists == s.Exists, Declared: s.Declared,
		Polled: polled, More: now.More, Names: p.Names, Old: old, Age: d.age, Why: d.why,
		Total: figures(s, rate), Use: p.plotUse(now, name, 300), Queue: p.plotQueue(now, name, 300),
		MoreHolders: d.MoreHolders, MoreWaiters: d.MoreWaiters, Numbered: render.Numbered(d.Holders),
	}
	c.Tenants, c.MoreTenants = newTenants(d.Tenants)
	for _, t := range d.Holders {
		c.Holders = append(c.Holders, newTicket(name, t, d.At, in, false))
	}
	for i, t := range d.Waiters {
		w := newTicket(name, t, d.At, in, true)
		w.Position = i + 1
		c.Waiters = append(c.Waiters, w)
	}
	if in && s.Exists {
		c.Controls = controlsOf(s)
	}
	return c
}

// oldPolls is for how many polls an answer is shown without its age.
const oldPolls = 2

// detail is for a viewer at a remote address. While Redis is away it is the last answer. A name that exists but was not
// found yet is polled from now on, if there is room.
func (p *Page) detail(ctx context.Context, now *snapshot, from, name string) detail {
	var last seen
	var err error
	away := p.away(now) != ""
	if away {
		last, _ = p.details.kept(name)
	} else if last, err = p.details.get(ctx, from, name); last.Exists {
		if _, ok := now.byName[name]; !ok {
			p.names.Add(name)
		}
	}
	d := detail{Detail: last.Detail, seen: !last.at.IsZero(), at: last.at}
	if since := time.Since(last.at); d.seen && (away || err != nil) && since > oldPolls*p.Interval {
		d.age = text.Ago(since)
	}
	switch {
	case errors.Is(err, errBusy):
		d.why = "too many other names are being queried"
	case err != nil: // the next poll reports errors that are not about this name alone
		d.why = "the last query of this name failed"
	}
	return d
}

func (p *Page) plotQueue(now *snapshot, name string, most int) plot {
	all := columns(now.series[name], most, func(p point) int64 { return p.waiting })
	return draw(all, now.at, p.gap(most), false)
}

func figures(s fairsem.Status, rate string) []tile {
	return []tile{
		{"Waiting", strconv.FormatInt(s.Waiting, 10)},
		{"Oldest wait", age(s.OldestWait)},
		{"Next lease ends", age(s.NextExpiry)},
		{"Grants/s", rate},
		{"Granted", strconv.FormatInt(s.Granted, 10)},
		{"Expired", strconv.FormatInt(s.Expired, 10)},
	}
}

func newTicket(name string, t fairsem.Ticket, now time.Time, in, waits bool) ticket {
	shownTicket := ticket{
		Key: key("t", t.ID), Label: shown(render.Label(t)), ID: shownID(t.ID), Tenant: title(t.Tenant), Token: t.Token, Weight: t.Weight, Numbers: render.Numbers(t),
		For: text.Ago(inspect.Since(now, t)), Expires: text.Ago(t.ExpiresIn),
	}
	if in {
		shownTicket.Evict = action{verb: "evict", name: name, id: t.ID, waits: waits}.path()
	}
	return shownTicket
}

// newTenants returns the tenants that are shown, and how many more there are.
func newTenants(of inspect.Tenants) (all []tenant, more string) {
	for _, t := range of.All {
		all = append(all, tenant{
			Key: key("a", t.Name), Name: title(t.Name), Used: t.Used, Share: t.Share, Waiting: t.Waiting,
			Limit: render.TenantLimit(t), Oldest: render.TenantWait(t),
		})
	}
	if of.Err != nil {
		return nil, "The tenants cannot be read: fairsem doctor may find out why."
	}
	if hidden := of.Hidden(); hidden != "" {
		more = strings.ToUpper(hidden[:1]) + hidden[1:] + " tenants."
	}
	return all, more
}

// controlsOf are those of the name. Each leads to a page that asks again.
func controlsOf(s fairsem.Status) []control {
	to := func(verb string) string { return "/act/" + verb + "?" + url.Values{"name": {s.Name}}.Encode() }
	resize, pause := control{to("resize"), "Resize"}, control{to("pause"), "Pause"}
	switch {
	case inspect.Paused(s):
		return []control{resize, {to("resume"), "Resume"}}
	case s.Pinned:
		return []control{resize, pause, {to("resume"), "Reset the limit"}}
	}
	return []control{resize, pause}
}
