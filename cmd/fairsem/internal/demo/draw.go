package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// units is a box with a row for each unit.
func (v view) units(width int) []string {
	used := bold
	if v.used() > Limit {
		used = bad
	}
	rows := make([]string, Limit)
	for i := range rows {
		rows[i] = text.Cut(v.unitRow(i, width-4), width-4, "")
	}
	box := lipgloss.NewStyle().Border(v.border).BorderForeground(lipgloss.NoColor{}).Padding(0, 1).Width(width)
	lines := []string{used.Render(fmt.Sprintf("%d of %d units in use", v.used(), Limit))}
	lines = append(lines, strings.Split(box.Render(strings.Join(rows, "\n")), "\n")...)
	legend := fmt.Sprintf("%s unit  %s lease  %s moved up", v.unit, v.rest, v.up)
	return append(lines, faint.Render(legend))
}

func (v view) unitRow(i, width int) string {
	c := v.callers[v.slots[i]]
	if c == nil {
		return faint.Render(v.free + "  " + v.vacancy(width-3))
	}
	style := v.style(c)
	first := i == 0 || v.slots[i-1] != c.ID
	bracket := " "
	switch {
	case !first:
		bracket = v.lower
	case c.Weight > 1:
		bracket = v.upper
	}
	mark := style.Render(v.unit + bracket)
	switch {
	case !first:
		return mark + " " + style.Render(v.note(c))
	case c.Weight == 1 && v.note(c) != "":
		return mark + " " + style.Render(name(c)+"  "+v.note(c))
	}
	return mark + " " + style.Render(name(c)) + "  " + v.lease(c, max(0, width-20))
}

// vacancy explains why a unit is free although there are waiters.
func (v view) vacancy(width int) string {
	if len(v.Waiters) == 0 || v.Waiters[0].Weight <= Limit-v.used() {
		return "free"
	}
	head := v.callers[v.Waiters[0].ID]
	who := "kept for " + strings.TrimRight(name(head), " ")
	if why := fmt.Sprintf(", which needs %d", head.Weight); text.Columns(who+why) <= width {
		who += why
	}
	return who
}

// note is the remark about a holder in a special state.
func (v view) note(c *caller) string {
	switch {
	case c.ID == v.dead:
		return v.wrong + " killed with kill -9"
	case v.justGranted(c) && c.waited() == 0:
		return "granted at once"
	case v.justGranted(c):
		return fmt.Sprintf("granted after %.1f s", c.waited().Seconds())
	}
	return ""
}

func (v view) style(c *caller) lipgloss.Style {
	switch {
	case c.ID == v.dead:
		return bad
	case v.justGranted(c):
		return good
	}
	return plainly
}

func (v view) justGranted(c *caller) bool { return c.ID != v.dead && v.now.Sub(c.granted) < fresh }

// lease is a bar of the rest of the lease, which goes down between two frames. A renewal fills it again.
func (v view) lease(c *caller, width int) string {
	left := max(0, c.ExpiresIn-v.now.Sub(v.at))
	halves := int(left * time.Duration(2*width) / ttl)
	halves = max(0, min(2*width, halves))
	bar := strings.Repeat(v.rest, halves/2) + strings.Repeat(v.half, halves%2)
	track := faint.Render(strings.Repeat(v.spent, width-(halves+1)/2))
	if c.ID != v.dead {
		return bar + track
	}
	return bad.Render(bar) + track + bad.Render(fmt.Sprintf(" %3.1f s", left.Seconds()))
}

// door is the way from the head of the queue to the units that were just granted.
func (v view) door() []string {
	const head, units = 1, 2 // rows
	lines := make([]string, Workers)
	for i, id := range slices.Backward(v.slots[:]) {
		c := v.callers[id]
		in := c != nil && v.justGranted(c)
		switch deeper := lines[units+i+1] != ""; {
		case in && deeper:
			lines[units+i] = good.Render(" " + v.in + v.fork)
		case in:
			lines[units+i] = good.Render(" " + v.in + v.corner)
		case deeper:
			lines[units+i] = good.Render("   " + v.wall)
		}
	}
	if lines[units] != "" {
		lines[head] = good.Render("   " + v.start)
	}
	return lines
}

// queue has a row for each position.
func (v view) queue(width int) []string {
	header := bold.Render("queue") + ": first come, first served"
	if width < text.Columns(header) {
		header = bold.Render("queue")
	}
	lines := []string{header}
	for i := range Workers - 1 {
		number, style := faint, plainly
		if i == 0 {
			number, style = bold, bold
		}
		line := number.Render(fmt.Sprintf("%d.", i+1))
		if i < len(v.Waiters) {
			c := v.callers[v.Waiters[i].ID]
			line += fmt.Sprintf(" %s %-2s %s", style.Render(name(c)), strings.Repeat(v.unit, int(max(0, min(c.Weight, Limit)))), v.trail(c))
		}
		lines = append(lines, line)
	}
	return lines
}

// trail has a sign for each position that it moved up. The last one is highlighted for a while.
func (v view) trail(c *caller) string {
	climbed := min(c.climbed, Workers)
	if climbed > 0 && v.now.Sub(c.moved) < fresh {
		return strings.Repeat(v.up, climbed-1) + moving.Render(v.up)
	}
	return strings.Repeat(v.up, climbed)
}

// name is a label in the eight columns that those of the demo have.
func name(c *caller) string { return text.Fit(c.Label, len("worker 1")) }
