package render

import (
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
)

var someColumns = []column{{Head: "NAME", Cut: true}, {Head: "N", Right: true}, {Head: "WHO", Cut: true}, {Head: "NOTE"}}

func someRows() [][]string {
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
	}, strings.Split(ansi.Strip(layOut(someColumns, someRows(), 0)), "\n"))
}

func TestTheWidestColumnsAreCutFirst(t *testing.T) {
	assert.Equal(t, []string{
		"NAME              N  WHO            NOTE",
		"a                 1  host",
		"xxxxxxxxxxxx…  1000  日本日本日本…  paused",
		"",
	}, strings.Split(ansi.Strip(layOut(someColumns, someRows(), 42)), "\n"))
}

func TestNoLineIsWiderThanItMayBe(t *testing.T) {
	whole := layOut(someColumns, someRows(), 0)
	for width := 1; width < 80; width++ {
		text := layOut(someColumns, someRows(), width)
		assert.Equal(t, 3, strings.Count(text, "\n"))
		assert.LessOrEqual(t, lipgloss.Width(text), width)
		if width >= fullWidth(someColumns, someRows()) {
			assert.Equal(t, whole, text)
		}
	}
	assert.Equal(t, lipgloss.Width(whole), fullWidth(someColumns, someRows()))
}

func TestNoRowsAreJustTheHeadings(t *testing.T) {
	assert.Equal(t, "NAME  N  WHO  NOTE\n", ansi.Strip(layOut(someColumns, nil, 80)))
}
