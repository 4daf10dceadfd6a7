package top

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/textinput"
	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// prompt receives the keys while there is a question.
type prompt struct {
	kind   kind
	input  textinput.Model // the typed text, while filtering and asked for a limit
	wrong  string          // with the typed text
	action action          // that the question is about
}

type kind int

const (
	none kind = iota
	filtering
	asksLimit
	confirms
)

// typing returns a line to type in. Its cursor does not blink: nothing here moves without a reason.
func typing(value, prompt string, most int) textinput.Model {
	in := textinput.New()
	styles := in.Styles()
	styles.Cursor.Blink = false
	styles.Focused = textinput.StyleState{Prompt: strong}
	in.SetStyles(styles)
	in.Prompt = prompt
	in.CharLimit = most
	in.SetValue(value)
	in.KeyMap.Paste.SetEnabled(false) // it runs programs; text that a terminal pastes comes as a message
	in.Focus()
	return in
}

const (
	filterMost = 100
	limitMost  = 16 // digits
)

func confirmPrompt(a action) prompt { return prompt{kind: confirms, action: a} }

// lines draws the prompt in so many columns and at most so many lines. question is of its action, at present.
func (p prompt) lines(width, height int, question string) []string {
	last := " " + strong.Render("y") + faint.Render(" yes  ") + strong.Render("any other key") + faint.Render(" no")
	if p.kind != confirms {
		p.input.SetWidth(max(1, width-text.Columns(p.input.Prompt)-1)) // the cursor needs one, too
		p.input.SetCursor(p.input.Position())                          // has it scroll
		last = p.input.View()
	}
	if p.kind == filtering {
		return []string{last}
	}
	lines := wrap(question, width, strong)
	if p.wrong != "" {
		lines = append(lines, wrap(p.wrong, width, colourful.bad)...)
	}
	return append(lines[:max(0, min(len(lines), height-1))], last) // the last line explains how to answer
}

// wrap breaks s into lines of at most width columns, with a column free in front.
func wrap(s string, width int, style lipgloss.Style) []string {
	lines := strings.Split(text.Wrap(s, max(1, width-2)), "\n")
	for i, line := range lines {
		lines[i] = " " + style.Render(line)
	}
	return lines
}

// limitQuestion asks for a new limit, with the present state.
func limitQuestion(now fairsem.Status) string {
	return fmt.Sprintf("Resize %s: the limit is %d now, with %d in use and %d waiting; %s was declared.",
		shortName(now.Name), now.Limit, now.Used, now.Waiting, declared(now))
}
