// Package render turns the state of semaphores into text: tables for terminals, columns for pipes, and JSON.
package render

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// List returns many semaphores, a row each: as a table for a terminal of so many columns, and for a pipe if width is 0.
func List(all []fairsem.Status, width int) string {
	switch {
	case len(all) == 0:
		return ""
	case width == 0:
		return plainList(all)
	}
	return listTable(all, width)
}

// ListJSON returns many semaphores, an object a line each.
func ListJSON(all []fairsem.Status) string {
	var lines strings.Builder
	for _, s := range all {
		lines.Write(text.JSON(NewSemaphore(s)))
	}
	return lines.String()
}

// listTable is for a terminal of so many columns. No row is longer: names are cut, and columns are left out, the bar first.
func listTable(all []fairsem.Status, width int) string {
	columns := []column{{Head: "NAME", Cut: true}, {Rank: 4}, {Head: "USED", Right: true}, {Head: "WAITING", Right: true, Rank: 1},
		{Head: "OLDEST", Right: true, Rank: 2}, {Head: "EXPIRED", Right: true, Rank: 3}, {Head: "NOTE"}}
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{text.Distinct(s.Name), bar(s, barWidth(width)), Used(s), warn(s.Waiting), oldest(s), warn(s.Expired), note(s)}
	}
	return layOut(columns, rows, width)
}

// plainList is for programs: the same columns without the bar, nothing cut, none empty or with a space.
func plainList(all []fairsem.Status) string {
	columns := []column{{Head: "NAME"}, {Head: "USED", Right: true}, {Head: "LIMIT", Right: true}, {Head: "WAITING", Right: true},
		{Head: "OLDEST", Right: true}, {Head: "EXPIRED", Right: true}, {Head: "NOTE"}}
	rows := make([][]string, len(all))
	for i, s := range all {
		name := strings.ReplaceAll(text.Distinct(s.Name), " ", `\x20`)
		rows[i] = []string{name, number(s.Used), number(s.Limit), number(s.Waiting), text.Ago(s.OldestWait), number(s.Expired), plainNote(s)}
	}
	return layOut(columns, rows, 0)
}

// plainNote is like paused,rate:20/1s.
func plainNote(s fairsem.Status) string {
	return strings.ReplaceAll(cmp.Or(strings.Join(Notes(s), ","), "-"), " ", ":")
}

// Used is like 3/20.
func Used(s fairsem.Status) string { return number(s.Used) + "/" + number(s.Limit) }

// bar is used of limit in so many columns: green with room, yellow without.
func bar(s fairsem.Status, width int) string {
	style := screen.Good
	if inspect.Full(s) {
		style = screen.Warn
	}
	return style.Render(text.Bar(s.Used, s.Limit, width))
}

func barWidth(width int) int { return min(max(width/8, 8), 30) }

// warn shows a number that had better be 0.
func warn(n int64) string {
	if n == 0 {
		return screen.Faint.Render("0")
	}
	return screen.Warn.Render(number(n))
}

func oldest(s fairsem.Status) string {
	if s.Waiting == 0 {
		return screen.Faint.Render("-")
	}
	return text.Ago(s.OldestWait)
}

func note(s fairsem.Status) string {
	notes := Notes(s)
	if inspect.Paused(s) {
		notes[0] = screen.Warn.Render(notes[0])
	}
	return strings.Join(notes, ", ")
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
