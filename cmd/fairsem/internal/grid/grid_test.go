package grid_test

import (
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/grid"
)

var columns = []grid.Column{{Head: "NAME", Cut: true}, {Head: "N", Right: true}, {Head: "WHO", Cut: true}, {Head: "NOTE"}}

func rows() [][]string {
	red := lipgloss.NewStyle().Foreground(lipgloss.Red)
	return [][]string{
		{"a", "1", "host", ""},
		{strings.Repeat("x", 30), red.Render("1000"), strings.Repeat("日本", 5), "paused"},
	}
}

func TestColumnsAreAlignedAndNumbersToTheRight(t *testing.T) {
	assert.Equal(t, []string{
		"NAME                               N  WHO                   NOTE",
		"a                                  1  host",
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx  1000  日本日本日本日本日本  paused",
		"",
	}, strings.Split(ansi.Strip(grid.Lay(columns, rows(), 0)), "\n"))
}

func TestWhatIsTooWideGivesWayFromTheWidestColumnOn(t *testing.T) {
	assert.Equal(t, []string{
		"NAME              N  WHO            NOTE",
		"a                 1  host",
		"xxxxxxxxxxxx…  1000  日本日本日本…  paused",
		"",
	}, strings.Split(ansi.Strip(grid.Lay(columns, rows(), 42)), "\n"))
}

func TestNoLineIsWiderThanItMayBe(t *testing.T) {
	whole := grid.Lay(columns, rows(), 0)
	for width := 1; width < 80; width++ {
		text := grid.Lay(columns, rows(), width)
		assert.Equal(t, 3, strings.Count(text, "\n"))
		assert.LessOrEqual(t, lipgloss.Width(text), width)
		if width >= grid.Width(columns, rows()) {
			assert.Equal(t, whole, text)
		}
	}
	assert.Equal(t, lipgloss.Width(whole), grid.Width(columns, rows()))
}

func TestNoRowsAreJustTheHeadings(t *testing.T) {
	assert.Equal(t, "NAME  N  WHO  NOTE\n", ansi.Strip(grid.Lay(columns, nil, 80)))
}
