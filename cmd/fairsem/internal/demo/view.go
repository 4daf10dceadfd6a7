package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// view is a scene on a terminal of some size at some moment.
type view struct {
	*scene
	glyphs
	now   time.Time
	width int // of the picture, less than that of the terminal
}

const (
	widest   = 86 // more would tear related parts apart
	twoSided = 56 // narrower, the queue is below the units
	longest  = 69 // columns of an event
)

// render draws the scene in at most so many columns and rows. The number of rows depends on these only.
func (s *scene) render(now time.Time, width, height int, g glyphs) string {
	v := view{s, g, now, max(20, min(width-2, widest))}
	parts := [][]string{v.title(), v.body(), v.counters(), v.story()}
	var lines []string
	for _, part := range parts {
		lines = append(append(lines, ""), part...)
	}
	if len(lines) > height {
		lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	}
	lines = lines[:max(0, min(height, len(lines)))]
	for i, line := range lines {
		lines[i] = g.only(text.Cut(" "+line, width, ""))
	}
	return strings.Join(lines, "\n")
}

func (v view) title() []string {
	elapsed := v.elapsed
	if !v.at.IsZero() {
		elapsed += v.now.Sub(v.at)
	}
	title := bold.Render("fairsem demo")
	if v.width >= twoSided {
		title += fmt.Sprintf("  %d processes share %d units", Workers, Limit)
	}
	return []string{text.Spread(title, fmt.Sprintf("%.1f s", elapsed.Seconds()), v.width), faint.Render(text.Clean(v.place))}
}

// body has the units to the left and the queue to the right, or below.
func (v view) body() []string {
	const gutter = 5
	right := max(22, min(34, v.width*3/5-13))
	if v.width < twoSided {
		return append(v.units(v.width)[:Limit+3], v.queue(v.width)...)
	}
	left := v.width - right - gutter
	body := lipgloss.JoinHorizontal(lipgloss.Top, block(v.units(left), left), block(v.door(), gutter), block(v.queue(right), right))
	return strings.Split(body, "\n")
}

// block cuts and fills lines to that width.
func block(lines []string, width int) string {
	return lipgloss.PlaceHorizontal(width, lipgloss.Left, plainly.MaxWidth(width).Render(strings.Join(lines, "\n")))
}

func (v view) counters() []string {
	t := v.tally
	happened := []string{bold.Render(fmt.Sprintf("%d grants", t.grants))}
	not := []string{v.none(t.overLimit, "over the limit"), v.none(t.overtakes, "overtakes")}
	var killed []string
	if t.killed > 0 {
		killed = []string{bad.Render(fmt.Sprintf("%s %d killed", v.wrong, t.killed))}
	}
	switch {
	case v.width < twoSided:
		return []string{strings.Join(append(happened, killed...), "  "), strings.Join(not, "  ")}
	case v.width < 70:
		return []string{strings.Join(slices.Concat(happened, not, killed), "  ")}
	}
	return []string{strings.Join(slices.Concat(happened, not, killed), "     ")}
}

// none is a count that must be zero.
func (v view) none(n int, what string) string {
	if n > 0 {
		return bad.Render(fmt.Sprintf("%s %d %s", v.wrong, n, what))
	}
	return good.Render(v.right) + fmt.Sprintf(" 0 %s", what)
}

// ahead is shown while an event has not happened.
var ahead = []string{"", "soon, a worker that holds 2 units is killed", "then, its units are granted to others"}

// story shows the events. In a narrow picture there is room for the last only.
func (v view) story() (lines []string) {
	const margin = 9
	width := v.width - margin
	rows := 1
	if width < longest {
		rows = longest/max(10, width-8) + 1
	}
	for i, later := range ahead {
		last := i == max(0, len(v.events)-1)
		if v.width < twoSided && !last {
			continue
		}
		when, what, style := "", later, faint
		if i < len(v.events) {
			when, what, style = v.events[i].when(), v.events[i].Text, plainly
		}
		if last {
			style = bold
		}
		event := append(paragraph(when, what, margin, width, style), slices.Repeat([]string{" "}, rows)...)
		lines = append(lines, event[:rows]...)
	}
	return lines
}

// paragraph is text beside a heading.
func paragraph(heading, words string, margin, width int, style lipgloss.Style) []string {
	lines := strings.Split(text.Wrap(words, max(10, width)), "\n")
	for i := range lines {
		lines[i] = text.Pad(heading, margin, false) + style.Render(lines[i])
		heading = ""
	}
	return lines
}
