package top

import (
	"slices"
	"strings"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// column is a column of a table of T, whose cells are the results of text or of cell. Both are clean; those of cell may have colours.
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
		return p.text.Render(text.Cut(c.text(v), width, "…"))
	}
	return c.cell(v, width, p)
}

// fit drops the columns that there is no room for, and has the others share the width, the first ones first.
// Any excess is taken from the first.
func fit[T any](columns []column[T], width int) (fitted []column[T], widths []int) {
	fitted = slices.Clone(columns)
	for need(fitted) > width {
		last, found := text.Dispensable(fitted, func(c column[T]) int { return c.rank })
		if !found {
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

// grid draws the titles and the rows, with one selected, a line each.
func grid[T any](columns []column[T], rows []T, cursor, width int, p paint) string {
	columns, widths := fit(columns, width)
	lines := make([]string, 1+len(rows))
	for i, c := range columns {
		lines[0] += pad(p.title.Render(c.title), widths[i], c)
	}
	for i, row := range rows {
		lines[1+i] = drawRow(columns, widths, row, i == cursor, width, p)
	}
	return strings.Join(lines, "\n")
}

// drawRow draws the selected row as wide as the screen, and without colours inside, which would end its style.
func drawRow[T any](columns []column[T], widths []int, row T, selected bool, width int, p paint) (line string) {
	if selected {
		p = plain
	}
	for i, c := range columns {
		line += pad(c.draw(row, widths[i], p), widths[i], c)
	}
	if selected {
		line = selection.Render(text.Pad(line, width, false))
	}
	return line
}

func pad[T any](s string, width int, c column[T]) string {
	return strings.Repeat(" ", c.gap) + text.Pad(text.Cut(s, width, "…"), width, c.right)
}
