package render

import (
	"math"
	"slices"
	"strings"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// column is a column with its heading.
type column struct {
	Head  string
	Right bool // aligned to the right, like numbers
	Cut   bool // gives way where the terminal is too narrow; its cells have no escape sequences
	Rank  int  // the highest ones are left out first where there is no room for all; 0: never
}

const (
	least  = 8  // the width that a column keeps when it is cut
	enough = 12 // the width that it keeps while another column can be left out
)

// layOut returns one line for the headings and one for each row, each with its end. Where they do not fit width
// the columns that may be cut are, evenly, then whole columns are left out, and in the end the lines are cut; a width of 0 cuts nothing.
// Cells are clean.
func layOut(columns []column, rows [][]string, width int) string {
	if width > 0 {
		columns, rows = fitting(columns, rows, width)
	}
	if excess := lineWidth(columns, rows, math.MaxInt) - width; width > 0 && excess > 0 {
		rows = narrowed(columns, rows, excess)
	}
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = screen.Bold.Render(c.Head)
	}
	widths := widths(columns, rows)
	var lines strings.Builder
	for _, row := range slices.Concat([][]string{heads}, rows) {
		line := strings.TrimRight(join(columns, row, widths), " ")
		if width > 0 {
			line = text.Cut(line, width, "…")
		}
		lines.WriteString(line + "\n")
	}
	return lines.String()
}

// gap is between two columns.
const gap = 2

// join aligns the cells of a row.
func join(columns []column, row []string, widths []int) string {
	var line strings.Builder
	for i, cell := range row {
		if i > 0 {
			line.WriteString(strings.Repeat(" ", gap))
		}
		line.WriteString(text.Pad(cell, widths[i], columns[i].Right))
	}
	return line.String()
}

// fitting leaves out the columns for which there is no room, although others are cut. A line that is cut at its end loses the column that
// happens to be the last, which can be the id that people came for.
func fitting(columns []column, rows [][]string, width int) ([]column, [][]string) {
	for lineWidth(columns, rows, enough) > width {
		last, found := text.Dispensable(columns, func(c column) int { return c.Rank })
		if !found {
			break
		}
		columns, rows = without(columns, last), slices.Clone(rows)
		for r, row := range rows {
			rows[r] = without(row, last)
		}
	}
	return columns, rows
}

// without returns all but the element i.
func without[T any](all []T, i int) []T { return slices.Concat(all[:i], all[i+1:]) }

// lineWidth is how wide the lines are if a column that may be cut has at most so much.
func lineWidth(columns []column, rows [][]string, most int) int {
	all := gap * (len(columns) - 1)
	for i, w := range widths(columns, rows) {
		if columns[i].Cut {
			w = min(w, most)
		}
		all += w
	}
	return all
}

func widths(columns []column, rows [][]string) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = text.Columns(c.Head)
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], text.Columns(cell))
		}
	}
	return widths
}

// narrowed takes so many columns from the cells that may be cut, always from the widest.
func narrowed(columns []column, rows [][]string, excess int) [][]string {
	widths := widths(columns, rows)
	for ; excess > 0; excess-- {
		widest := -1
		for i, c := range columns {
			if c.Cut && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	cut := make([][]string, len(rows))
	for r, row := range rows {
		cut[r] = slices.Clone(row)
		for i, c := range columns {
			if c.Cut {
				cut[r][i] = text.Cut(row[i], widths[i], "…")
			}
		}
	}
	return cut
}
