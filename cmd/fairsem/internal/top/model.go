package top

import (
	"context"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
)

// model is everything that is on the screen. It does no I/O, and knows the time from messages only.
type model struct {
	ctx     context.Context // of all that is asked of the source
	source  source
	options Options

	width, height int
	now           time.Time
	schedule      schedule
	names         names
	detail        detail
	inside        bool // the detail is on the screen, not the table of all names
	prompt        prompt
	notice        notice
	manual        viewport.Model
	reading       bool // the manual is on the screen
}

// pane is a table.
type pane interface {
	view(width int, p paint) string
	resize(height int)
	press(msg tea.KeyPressMsg, k keys) bool
}

// pane returns the pane on the screen.
func (m *model) pane() pane {
	switch {
	case m.inside && m.detail.byTenant:
		return &m.detail.tenants
	case m.inside:
		return &m.detail
	}
	return &m.names
}

// notice is shown for a while.
type notice struct {
	text  string
	bad   bool
	until time.Time // zero: until another one
}

// shown reports whether it is still to be shown.
func (n notice) shown(now time.Time) bool { return n.until.IsZero() || now.Before(n.until) }

const noticeSpan = 6 * time.Second

// tick is the message that a second has passed.
type tick time.Time

func nextTick() tea.Cmd { return tea.Every(time.Second, func(t time.Time) tea.Msg { return tick(t) }) }

// started is the first message.
type started time.Time

func newModel(ctx context.Context, from source, o Options) model {
	m := model{ctx: ctx, source: from, options: o, schedule: schedule{interval: o.Interval}}
	m.names.busy = o.Busy
	m.names.order = max(0, inspect.OrderIndex(o.Sort))
	return m
}

func (m model) Init() tea.Cmd {
	return tea.Batch(nextTick(), func() tea.Msg { return started(time.Now()) })
}

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m, cmd := m.handle(msg)
	m.layOut()
	return m, cmd
}

func (m model) handle(msg tea.Msg) (model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m, screen.Redraw()
	case started:
		m.now = time.Time(msg)
		return m.query()
	case tick:
		m.now = time.Time(msg)
		return m, nextTick()
	case due:
		if int(msg) == m.schedule.number {
			return m.query()
		}
	case answer:
		return m.receive(msg)
	case done:
		m.notice = msg.outcome()
		m.notice.until = m.now.Add(noticeSpan)
		return m.queryNow()
	case tea.ResumeMsg:
		return m.queryNow()
	case tea.KeyPressMsg:
		return m.press(msg)
	case tea.PasteMsg:
		return m.typeIn(msg)
	}
	return m, nil
}

// query begins a query for the current screen.
func (m model) query() (model, tea.Cmd) {
	name := ""
	if m.inside {
		name = m.detail.Name
	}
	cmd := m.schedule.begin(m.ctx, m.source, name, m.now) // changes m
	return m, cmd
}

// queryNow is query as soon as possible.
func (m model) queryNow() (model, tea.Cmd) {
	if !m.schedule.hurry() {
		return m, nil
	}
	return m.query()
}

// receive takes the answer to a query.
func (m model) receive(a answer) (model, tea.Cmd) {
	answered := a.at.Add(a.took)
	if answered.After(m.now) {
		m.now = answered
	}
	if !m.schedule.end(a) {
		return m.query()
	}
	switch {
	case a.err != nil:
	case a.detail == nil:
		m.names.update(a.at, a.survey.Statuses)
		m.names.unreadable, m.names.missing = a.survey.Unreadable, a.survey.Missing
		m.names.partial, m.names.answered = a.survey.Partial, answered
	case m.inside:
		m.detail.update(a.at, *a.detail)
		m.detail.answered = answered
	}
	return m.withdrawStale(), m.schedule.wait()
}

// withdrawStale withdraws a question if a yes would have another effect now.
func (m model) withdrawStale() model {
	a := m.prompt.action
	if m.prompt.kind != confirms || a.verb != evict {
		return m
	}
	t, there := find(m.detail.items, a.ticket.ID)
	switch {
	case !there && m.detail.more > 0:
		m.prompt = prompt{}
		return m.notify(who(a.ticket)+" is not among those shown any more", false)
	case !there:
		m.prompt = prompt{}
		return m.notify(who(a.ticket)+" is gone", false)
	case t.position == 0 && a.ticket.position > 0:
		m.prompt = prompt{}
		return m.notify(grantedMeanwhile(a.ticket), true)
	}
	return m
}

func (m model) notify(text string, bad bool) model {
	m.notice = notice{text, bad, m.now.Add(noticeSpan)}
	return m
}
