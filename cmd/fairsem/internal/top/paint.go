package top

import "charm.land/lipgloss/v2"

// paint is what text is drawn with. The zero value changes nothing.
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

// The sixteen colours that every terminal has, in the shades that its user likes.
var (
	colourful = paint{
		strong: strong,
		title:  faint,
		bar:    lipgloss.NewStyle().Foreground(lipgloss.Green),
		full:   lipgloss.NewStyle().Foreground(lipgloss.Yellow),
		note:   lipgloss.NewStyle().Foreground(lipgloss.Cyan),
		good:   lipgloss.NewStyle().Foreground(lipgloss.Green),
		bad:    lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true),
	}
	strong    = lipgloss.NewStyle().Bold(true)
	faint     = lipgloss.NewStyle().Faint(true)
	faded     = paint{faint, faint, faint, faint, faint, faint, faint, faint}
	plain     = paint{}
	selection = lipgloss.NewStyle().Reverse(true)
)
