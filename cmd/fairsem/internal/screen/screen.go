// Package screen is for output that may be a terminal: its width, its colours, and programs that draw on it.
package screen

import (
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"
)

// Profile is the colours of out. NO_COLOR counts whatever its value, see no-color.org. The variables that would have a pipe count as a
// terminal are ignored: output for programs is the same everywhere.
func Profile(out io.Writer) colorprofile.Profile {
	p := colorprofile.Detect(out, slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "CLICOLOR_FORCE=") || strings.HasPrefix(variable, "TTY_FORCE=")
	}))
	if os.Getenv("NO_COLOR") != "" {
		return min(p, colorprofile.ASCII)
	}
	return p
}

// Writer returns a writer to out that leaves out the colours that out cannot show.
func Writer(out io.Writer) io.Writer {
	return &colorprofile.Writer{Forward: out, Profile: Profile(out)}
}

// CanDraw reports whether out is a terminal on which a program can draw.
func CanDraw(out io.Writer) bool {
	_, terminal := Width(out)
	return terminal && Profile(out) != colorprofile.NoTTY
}

// DefaultWidth is the width of a terminal that does not report its own.
const DefaultWidth = 80

// Width is how many columns the terminal has that out is; 0 if it is none.
func Width(out io.Writer) (width int, terminal bool) {
	file, ok := out.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, false
	}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
		return width, true
	}
	return DefaultWidth, true
}

// redrawAfter is how long a terminal may take to have the size that it reports.
const redrawAfter = 250 * time.Millisecond

// Redraw is for programs whose terminal has just got another size. They draw everything then, and once more a moment later: in tmux a
// picture stayed garbled, for bubbletea writes only the differences from the screen that it assumes.
func Redraw() tea.Cmd {
	return tea.Tick(redrawAfter, func(time.Time) tea.Msg { return tea.ClearScreen() })
}

// Keyboard reports whether the standard input is a terminal.
func Keyboard() bool { return term.IsTerminal(int(os.Stdin.Fd())) }

// Program returns a program that draws on out, and takes keys if there is a keyboard. Signals are left to the caller.
func Program(m tea.Model, out io.Writer, options ...tea.ProgramOption) *tea.Program {
	options = append(options, tea.WithOutput(out), tea.WithColorProfile(Profile(out)), tea.WithoutSignalHandler())
	if !Keyboard() {
		options = append(options, tea.WithInput(nil))
	}
	return tea.NewProgram(m, options...)
}
