package top

import (
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// From these heights on there is room for more than the table and one line above and below it.
const (
	roomForSummary = 8
	roomForSpace   = 12
)

// warningMost is the maximum number of lines of an error.
const warningMost = 3

// View draws the screen. The layout is fixed, and no line is longer than the screen is wide.
func (m model) View() tea.View {
	footer := m.footer()
	above := max(0, m.height-len(footer))
	lines := append(m.header(), m.body()...)
	for len(lines) < above {
		lines = append(lines, "")
	}
	lines = append(lines[:above], footer...)
	lines = lines[:min(len(lines), m.height)]
	for i, line := range lines {
		lines[i] = text.Cut(line, m.width, "")
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}

// layOut gives the table, or the help, the lines that are left.
func (m *model) layOut() {
	left := m.height - len(m.header()) - len(m.footer())
	m.pane().resize(left - 1) // below the titles
	if m.reading {
		m.manual.SetWidth(m.width)
		m.manual.SetHeight(max(1, left))
		m.manual.SetContent(manual(helper(m.width), m.keys(), m.width))
	}
}

func (m model) header() []string {
	reason, stale := m.schedule.stale(m.now)
	title := text.Spread(" "+strong.Render("fairsem top")+"  "+text.Clean(m.options.Address), m.clock()+" ", m.width)
	var warning []string
	if stale {
		warning = wrap(m.age()+": "+reason, m.width, colourful.bad)
		warning = warning[:min(len(warning), warningMost)]
	}
	switch {
	case m.height < roomForSummary && stale:
		return warning[:1]
	case m.height < roomForSummary:
		return []string{title}
	case m.height < roomForSpace && stale:
		return []string{title, warning[0]}
	case m.height < roomForSpace:
		return []string{title, m.summary()}
	case stale:
		return append([]string{title, m.summary()}, warning...)
	case m.inside:
		return []string{title, m.summary(), ""}
	}
	return []string{title, m.summary(), m.names.warning(m.paint())}
}

// answered is the time of the answer that is on the screen; zero: there is none.
func (m model) answered() time.Time {
	if m.inside {
		return m.detail.answered
	}
	return m.names.answered
}

// clock is the time of the last answer and the interval between queries.
func (m model) clock() string {
	if m.answered().IsZero() {
		return ""
	}
	return faint.Render(m.answered().Format(time.TimeOnly) + "  every " + text.Span(m.schedule.every()))
}

// age describes the age of the picture.
func (m model) age() string {
	if m.answered().IsZero() {
		return "no answer yet"
	}
	return text.Stale(m.now.Sub(m.answered()))
}

// summary summarizes the table below.
func (m model) summary() string {
	if m.inside {
		return m.detail.summary(m.paint())
	}
	return m.names.summary(m.paint())
}

func (m model) paint() paint {
	if _, stale := m.schedule.stale(m.now); stale {
		return faded
	}
	return colourful
}

func (m model) body() []string {
	if m.reading {
		return strings.Split(m.manual.View(), "\n")
	}
	if empty := m.empty(); empty != "" {
		return append([]string{""}, wrap(empty, m.width, faint)...)
	}
	return strings.Split(m.pane().view(m.width, m.paint()), "\n")
}

// empty explains why there is no table; "": there is one.
func (m model) empty() string {
	n := &m.names
	switch {
	case m.inside && (m.detail.byTenant || len(m.detail.items) > 0), !m.inside && len(n.items) > 0:
		return ""
	case m.answered().IsZero():
		return "waiting for an answer…"
	case m.inside && !m.detail.Exists:
		return "Redis does not know this name any more."
	case m.inside && m.detail.only != nil:
		return "No holders, no waiters of this tenant: esc shows those of the others."
	case m.inside:
		return "No holders, no waiters."
	case len(n.all) > 0 && n.filter == "":
		return "No holders or waiters, of any of " + render.Count(int64(len(n.all)), "name") + "."
	case len(n.all) > 0 && n.busy:
		return "No name with a holder or a waiter contains this: esc clears it."
	case len(n.all) > 0:
		return "No name contains this: esc shows all again."
	case n.partial:
		return "No name was found yet; " + stillScanning + "."
	case len(n.unreadable) > 0 || n.missing != nil:
		return "No name that can be read is in use."
	case m.options.Pattern != "":
		return "No name that is in use matches " + text.Clean(m.options.Pattern) + "."
	}
	return "No name is in use, or was in the last half minute or so."
}

func (m model) footer() []string {
	if m.prompt.kind != none {
		return m.prompt.lines(m.width, m.height, m.question())
	}
	shown := m.keys().ShortHelp()
	if m.reading {
		shown = []key.Binding{bindings.up, bindings.down, bindings.back, bindings.quit}
	}
	short := " " + helper(m.width-1).ShortHelpView(shown)
	said := m.noticeLine()
	switch {
	case m.height >= roomForSummary:
		return []string{said, short}
	case said != "":
		return []string{said}
	}
	return []string{short}
}

// noticeLine is the notice, while it is new.
func (m model) noticeLine() string {
	style := colourful.good
	if m.notice.bad {
		style = colourful.bad
	}
	if m.notice.text == "" || !m.notice.shown(m.now) {
		return ""
	}
	return style.Render(" " + m.notice.text)
}

// question is that of the prompt, with the present state.
func (m model) question() string {
	a := m.prompt.action
	now, ok := find(m.names.all, a.name)
	if m.inside {
		now, ok = m.detail.row, true
	}
	if !ok {
		now.Name = a.name
	}
	if m.prompt.kind == asksLimit {
		return limitQuestion(now.Status)
	}
	t, ok := find(m.detail.items, a.ticket.ID)
	if !ok {
		t = a.ticket
	}
	return a.question(now.Status, t)
}
