package render

import (
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
}

// least is the width that a column keeps when it is cut.
const least = 8

// layOut returns one line for the headings and one for each row, each with its end. Where they do not fit width
// the columns that may be cut are, evenly, and then the lines; a width of 0 cuts nothing. Cells are clean.
func layOut(columns []column, rows [][]string, width int) string {
	if excess := fullWidth(columns, rows) - width; width > 0 && excess > 0 {
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

// fullWidth is how wide the lines are if nothing is cut.
func fullWidth(columns []column, rows [][]string) int {
	all := gap * (len(columns) - 1)
	for _, w := range widths(columns, rows) {
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
