package screen

import "charm.land/lipgloss/v2"

// Styles of the sixteen colours that every terminal has, in the shades that its user likes. Each text with a colour has a sign or a word,
// too.
var (
	Plain = lipgloss.NewStyle()
	Bold  = Plain.Bold(true)
	Faint = Plain.Faint(true)
	Good  = Plain.Foreground(lipgloss.Green)
	Warn  = Plain.Foreground(lipgloss.Yellow)
	Note  = Plain.Foreground(lipgloss.Cyan)
	Bad   = Plain.Foreground(lipgloss.Red).Bold(true)
)
