package top

import (
	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
)

// paint is the set of styles for text. The zero value changes nothing.
type paint struct {
	text   lipgloss.Style
	strong lipgloss.Style
	title  lipgloss.Style // of a column, and other small print
	bar    lipgloss.Style
	full   lipgloss.Style // a bar
	note   lipgloss.Style
	good   lipgloss.Style
	bad    lipgloss.Style
}

var (
	colourful = paint{
		strong: strong,
		title:  faint,
		bar:    screen.Good,
		full:   screen.Warn,
		note:   screen.Note,
		good:   screen.Good,
		bad:    screen.Bad,
	}
	strong    = screen.Bold
	faint     = screen.Faint
	faded     = paint{faint, faint, faint, faint, faint, faint, faint, faint}
	plain     = paint{}
	selection = screen.Plain.Reverse(true)
)
