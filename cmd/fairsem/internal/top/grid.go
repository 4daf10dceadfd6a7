package top

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/table"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// column is a column of a table of T, whose cells are text, or what cell draws. Both are clean; what cell draws may have colours.
type column[T any] struct {
	title    string
	right    bool // aligned
	gap      int  // in front of it
	min, max int  // width without the gap
	rank     int  // the highest ones go first where there is no room; 0: never
	text     func(v T) string
	cell     func(v T, width int, p paint) string
}

func (c column[T]) draw(v T, width int, p paint) string {
	if c.text != nil {
		return p.text.Render(ansi.Truncate(c.text(v), width, "…"))
	}
	return c.cell(v, width, p)
}

// fit drops the columns that there is no room for, and has the others share what there is, the first ones first.
// What is still too wide is taken from the first.
func fit[T any](columns []column[T], width int) (fitted []column[T], widths []int) {
	fitted = slices.Clone(columns)
	for need(fitted) > width {
		last := 0
		for i, c := range fitted {
			if c.rank > fitted[last].rank {
				last = i
			}
		}
		if fitted[last].rank == 0 {
			break
		}
		fitted = slices.Delete(fitted, last, last+1)
	}
	left := width - need(fitted)
	for _, c := range fitted {
		more := max(0, min(left, c.max-c.min))
		left -= more
		widths = append(widths, c.min+more)
	}
	widths[0] = max(1, widths[0]+min(0, left))
	return fitted, widths
}

func need[T any](columns []column[T]) (width int) {
	for _, c := range columns {
		width += c.gap + c.min
	}
	return width
}

// grid draws the visible rows, with one selected, in so many columns and as many lines and one for the titles. It passes
// only these to bubbles' table: when rows change their order, that table does not scroll to its cursor.
func grid[T any](columns []column[T], rows []T, cursor, width int, p paint) string {
	columns, widths := fit(columns, width)
	var titles []table.Column
	left := width
	for i, c := range columns {
		titles = append(titles, table.Column{Title: pad(p.title.Render(c.title), widths[i], c), Width: c.gap + widths[i]})
		left -= c.gap + widths[i]
	}
	titles = append(titles, table.Column{Width: left}) // so that the selection is as wide as the screen
	lines := make([]table.Row, len(rows))
	for i, row := range rows {
		p := p
		if i == cursor {
			p = plain // a colour inside would end the style of the selection
		}
		for j, c := range columns {
			lines[i] = append(lines[i], pad(c.draw(row, widths[j], p), widths[j], c))
		}
		lines[i] = append(lines[i], "")
	}
	t := table.New(table.WithColumns(titles), table.WithHeight(len(rows)+1), table.WithWidth(width),
		table.WithStyles(table.Styles{Selected: selection}), table.WithRows(lines))
	t.SetCursor(cursor)
	return t.View()
}

func pad[T any](s string, width int, c column[T]) string {
	s = ansi.Truncate(s, width, "…")
	fill, gap := strings.Repeat(" ", max(0, width-lipgloss.Width(s))), strings.Repeat(" ", c.gap)
	if c.right {
		return gap + fill + s
	}
	return gap + s + fill
}
