package render

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
)

// column is a column with its heading.
type column struct {
	Head  string
	Right bool // aligned to the right, like numbers
	Cut   bool // gives way where the terminal is too narrow; its cells have no escape sequences
}

// least is the width that a column keeps when it is cut.
const least = 8

var head = lipgloss.NewStyle().Bold(true)

// layOut returns one line for the headings and one for each row, each with its end. Where they do not fit width
// the columns that may be cut are, evenly, and then the lines; a width of 0 cuts nothing. Cells are clean.
func layOut(columns []column, rows [][]string, width int) string {
	if excess := fullWidth(columns, rows) - width; width > 0 && excess > 0 {
		rows = narrowed(columns, rows, excess)
	}
	lines := strings.Split(render(columns, rows), "\n")
	for i, line := range lines {
		if width > 0 {
			line = ansi.Truncate(line, width, "…")
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func render(columns []column, rows [][]string) string {
	t := table.New().Wrap(false).Rows(rows...).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(false).BorderHeader(false).
		StyleFunc(func(row, i int) lipgloss.Style {
			style := lipgloss.NewStyle()
			if row == table.HeaderRow {
				style = head
			}
			if i < len(columns)-1 {
				style = style.PaddingRight(gap)
			}
			if columns[i].Right {
				style = style.Align(lipgloss.Right)
			}
			return style
		})
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i] = c.Head
	}
	return t.Headers(heads...).String()
}

// gap is between two columns.
const gap = 2

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
		widths[i] = ansi.StringWidth(c.Head)
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
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
				cut[r][i] = ansi.Truncate(row[i], widths[i], "…")
			}
		}
	}
	return cut
}
