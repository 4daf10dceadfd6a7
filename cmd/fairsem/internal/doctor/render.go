package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Page writes findings for people: words for a pipe, signs and colours for a terminal. Out has to drop the colours
// that it cannot show.
type Page struct {
	Out    io.Writer
	Pretty bool
}

// signs are the states on a terminal.
var signs = map[State]string{
	OK:   screen.Good.Render("✓"),
	Warn: screen.Warn.Bold(true).Render("!"),
	Fail: screen.Bad.Render("✗"),
	Skip: screen.Faint.Render("-"),
}

const checkWidth = 11 // of the longest name of a check

// Show writes a finding. Its text may come from any client of the server. An error of the output is that of Sum, too.
func (p Page) Show(f Finding) {
	name, message := text.Fit(f.Check, checkWidth), text.Clean(f.Message)
	advice := text.Clean(f.Advice)
	if !p.Pretty {
		_ = p.line("%-4s  %s  %s", f.State, name, message)
		if advice != "" {
			_ = p.line("      %s  do: %s", strings.Repeat(" ", checkWidth), advice)
		}
		return
	}
	if f.State == Skip {
		name, message = screen.Faint.Render(name), screen.Faint.Render(message)
	}
	_ = p.line("%s %s  %s", signs[f.State], name, message)
	if advice != "" {
		_ = p.line("  %s  %s", strings.Repeat(" ", checkWidth), screen.Faint.Render("→ "+advice))
	}
}

// Sum writes how many there were of each. The error is that of the output.
func (p Page) Sum(r Report) error {
	return p.line("\n%d ok, %s, %s, %d skipped", r.Count[OK], render.Count(r.Count[Warn], "warning"), render.Count(r.Count[Fail], "failure"), r.Count[Skip])
}

func (p Page) line(format string, args ...any) error {
	_, err := fmt.Fprintf(p.Out, format+"\n", args...)
	return err
}
