package top

import (
	"strings"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
)

// keys returns the bindings that are enabled now.
func (m model) keys() keys {
	return bindings.at(m.inside, len(m.detail.tenants.items) > 0, m.detail.byTenant, m.names.filter != "", m.options.ReadOnly)
}

// press takes a key.
func (m model) press(msg tea.KeyPressMsg) (model, tea.Cmd) {
	switch {
	case msg.String() == "ctrl+c":
		return m, tea.Quit
	case key.Matches(msg, bindings.suspend):
		return m, tea.Suspend
	case m.prompt.kind == confirms:
		return m.answer(msg)
	case m.prompt.kind != none:
		return m.typeIn(msg)
	case key.Matches(msg, bindings.quit):
		return m, tea.Quit
	case m.reading:
		m.reading = !key.Matches(msg, bindings.help, bindings.back, bindings.open)
		m.manual, _ = m.manual.Update(msg)
		return m, nil
	}
	return m.command(msg)
}

// command takes a key where there is no question.
func (m model) command(msg tea.KeyPressMsg) (model, tea.Cmd) {
	k := m.keys()
	switch {
	case key.Matches(msg, k.help):
		m.reading, m.manual = true, viewport.New()
	case key.Matches(msg, k.open):
		return m.open()
	case key.Matches(msg, k.back):
		return m.back()
	case key.Matches(msg, k.tenants):
		m.detail.byTenant = true
	case key.Matches(msg, k.filter):
		m.prompt = prompt{kind: filtering, input: typing(m.names.filter, " / ", filterMost)}
	case key.Matches(msg, k.clear):
		m.names.filter = ""
		m.names.arrange()
	case key.Matches(msg, k.sort, k.sortRight):
		m.names.sort(1)
	case key.Matches(msg, k.sortLeft):
		m.names.sort(-1)
	case key.Matches(msg, k.reverse):
		m.names.reverse = !m.names.reverse
		m.names.arrange()
	case key.Matches(msg, bindings.resize, bindings.pause, bindings.resume, bindings.evict):
		return m.change(msg), nil
	default:
		m.pane().press(msg, bindings)
	}
	return m, nil
}

// back goes up one level: from the tickets of a tenant to the tenants, to all tickets, to all names.
func (m model) back() (model, tea.Cmd) {
	d := &m.detail
	switch {
	case d.byTenant:
		d.byTenant, d.only = false, nil
	case d.only != nil:
		d.byTenant = true
	default:
		m.inside = false
		return m.queryNow()
	}
	d.arrange()
	return m, nil
}

// open drills down.
func (m model) open() (model, tea.Cmd) {
	if m.inside {
		t, ok := m.detail.tenants.selected()
		if ok && m.detail.byTenant {
			m.detail.byTenant, m.detail.only = false, &t.Name
			m.detail.arrange()
		}
		return m, nil
	}
	r, ok := m.names.selected()
	if !ok {
		return m, nil
	}
	m.detail, m.inside = m.names.open(r), true
	return m.queryNow()
}

// subject returns the name that an action would change: the open one, or the selected one.
func (m model) subject() (fairsem.Status, bool) {
	if m.inside {
		return m.detail.Status, true
	}
	r, ok := m.names.selected()
	return r.Status, ok
}

// change opens the question about a change.
func (m model) change(msg tea.KeyPressMsg) model {
	if m.options.ReadOnly {
		return m.notify("read-only: start top without --read-only to change anything", true)
	}
	now, ok := m.subject()
	if !ok {
		return m.notify("there is no name to change", true)
	}
	switch {
	case key.Matches(msg, bindings.resize):
		m.prompt = prompt{kind: asksLimit, input: typing("", " new limit: ", limitMost), action: action{verb: resize, name: now.Name}}
	case key.Matches(msg, bindings.pause):
		m.prompt = confirmPrompt(action{verb: pause, name: now.Name, fresh: !now.Exists})
	case key.Matches(msg, bindings.resume):
		if !now.Pinned {
			return m.notify(shortName(now.Name)+" has no limit set by hand", true)
		}
		m.prompt = confirmPrompt(action{verb: resume, name: now.Name})
	case !m.inside:
		return m.notify("open a name with enter to evict its holders or waiters", true)
	case m.detail.byTenant:
		return m.notify("open a tenant with enter to evict its holders or waiters", true)
	default:
		t, ok := m.detail.selected()
		if !ok {
			return m.notify("there is nothing to evict here", true)
		}
		m.prompt = confirmPrompt(action{verb: evict, name: now.Name, ticket: t})
	}
	return m
}

// answer takes the key that answers a question.
func (m model) answer(msg tea.KeyPressMsg) (model, tea.Cmd) {
	a := m.prompt.action
	m.prompt = prompt{}
	if !key.Matches(msg, bindings.yes) {
		return m.notify("nothing was changed", false), nil
	}
	m.notice = notice{text: "under way…"}
	return m, a.run(m.ctx, m.source)
}

// typeIn handles input to a prompt.
func (m model) typeIn(msg tea.Msg) (model, tea.Cmd) {
	pressed, _ := msg.(tea.KeyPressMsg)
	switch {
	case m.prompt.kind == none || m.prompt.kind == confirms:
		return m, nil // pasted text answers no question
	case key.Matches(pressed, bindings.cancel):
		if m.prompt.kind == filtering {
			m.names.filter = ""
			m.names.arrange()
		}
		m.prompt = prompt{}
		return m, nil
	case key.Matches(pressed, bindings.accept):
		return m.accept(), nil
	case m.prompt.kind == filtering && m.names.press(pressed, arrows):
		return m, nil
	}
	m.prompt.input, _ = m.prompt.input.Update(msg)
	m.prompt.wrong = ""
	if m.prompt.kind == filtering {
		m.names.filter = m.prompt.input.Value()
		m.names.arrange()
	}
	return m, nil
}

// accept applies the typed text.
func (m model) accept() model {
	if m.prompt.kind == filtering {
		m.prompt = prompt{}
		return m
	}
	limit, err := change.ParseLimit(strings.TrimSpace(m.prompt.input.Value()))
	if err != nil {
		m.prompt.wrong = err.Error() + ": enter another, or esc"
		return m
	}
	a := m.prompt.action
	if a.limit = limit; limit == 0 {
		a.verb = pause
	}
	now, _ := m.subject()
	a.fresh = now.Name == a.name && !now.Exists
	m.prompt = confirmPrompt(a)
	return m
}
