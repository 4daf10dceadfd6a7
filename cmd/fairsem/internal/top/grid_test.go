package top

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
)

func TestColumnsThatMatterLeastGoFirstAndTheRestFillsTheWidth(t *testing.T) {
	t.Parallel()
	cell := func(s string, _ int, _ paint) string { return s }
	columns := []column[string]{
		{title: "A", gap: 1, min: 3, max: 9, cell: cell}, {title: "B", gap: 1, min: 3, rank: 2, cell: cell}, {title: "C", gap: 1, min: 3, rank: 1, cell: cell},
	}
	for width, want := range map[int]string{30: "ABC", 12: "ABC", 11: "AC", 8: "AC", 7: "A", 2: "A"} {
		fitted, widths := fit(columns, width)
		titles := ""
		for _, c := range fitted {
			titles += c.title
		}
		assert.Equal(t, want, titles, width)
		assert.Positive(t, widths[0], width)
	}
	_, widths := fit(columns, 14)
	assert.Equal(t, []int{5, 3, 3}, widths)
}

func TestSelectionIsAsWideAsTheScreenAndHasNoColoursInside(t *testing.T) {
	t.Parallel()
	cell := func(s string, _ int, p paint) string { return p.bad.Render(s) }
	columns := []column[string]{{title: "A", gap: 1, min: 3, cell: cell}, {title: "B", right: true, gap: 1, min: 3, cell: cell}}
	lines := strings.Split(grid(columns, []string{"x", "longer"}, 0, 20, colourful), "\n")
	assert.Len(t, lines, 3)
	assert.Equal(t, "\x1b[7m x     x            \x1b[m", lines[1])
	assert.Equal(t, " lo… lo…", strings.TrimRight(ansi.Strip(lines[2]), " "))
}

func TestNumbersAreShortAndHonest(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 99_999: "99999", 100_000: "100k", 2_540_000: "2.5M", 12_000_000_000: "12G", 1 << 53: "9.0P"} {
		assert.Equal(t, want, brief(n))
	}
}
