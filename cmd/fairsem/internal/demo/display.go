package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/term"

	"github.com/fairsem/fairsem"
)

// display shows frames until it is closed.
type display interface {
	show(frame)
	close()
}

// newDisplay returns one that draws in place if out is a terminal, else one that writes a line for
// every change.
func newDisplay(out io.Writer, interrupt func()) display {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || profile(out) == colorprofile.NoTTY {
		return &plain{out: out}
	}
	return newLive(file, interrupt)
}

// profile is what out can show. NO_COLOR counts whatever its value, see no-color.org.
func profile(out io.Writer) colorprofile.Profile {
	p := colorprofile.Detect(out, os.Environ())
	if os.Getenv("NO_COLOR") != "" {
		return min(p, colorprofile.ASCII)
	}
	return p
}

// live draws in place.
type live struct {
	program *tea.Program
	ended   chan struct{}
}

func newLive(out *os.File, interrupt func()) *live {
	options := []tea.ProgramOption{tea.WithOutput(out), tea.WithColorProfile(profile(out)), tea.WithoutSignalHandler()}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		options = append(options, tea.WithInput(nil))
	}
	l := &live{tea.NewProgram(picture{interrupt: interrupt}, options...), make(chan struct{})}
	go func() { // ends when close asks it to, and close waits
		defer close(l.ended)
		_, _ = l.program.Run() // without a picture the demo goes on, and its summary tells all
	}()
	return l
}

func (l *live) show(f frame) { l.program.Send(f) }

// close leaves the last frame where it is, and the terminal as it was.
func (l *live) close() {
	l.program.Quit()
	<-l.ended
}

// picture is the model that bubbletea wants: the last frame.
type picture struct {
	text      string
	interrupt func()
}

func (p picture) Init() tea.Cmd { return nil }

func (p picture) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case frame:
		p.text = render(msg)
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" {
			p.interrupt()
		}
	}
	return p, nil
}

func (p picture) View() tea.View { return tea.NewView(p.text) }

// plain writes a line when who holds or who waits has changed.
type plain struct {
	out    io.Writer
	last   string
	told   int
	titled bool
}

func (p *plain) show(f frame) {
	if !p.titled {
		p.titled = true
		p.line("fairsem demo: %s\n%s", f.title, f.place)
	}
	for ; p.told < len(f.events); p.told++ {
		p.line("%5.1f s  %s", f.events[p.told].after.Seconds(), f.events[p.told].text)
	}
	now := fmt.Sprintf("%d of %d used by %s; in line %s", f.used(), f.status.Limit, names(f.holders, f.dead), names(f.waiters, f.dead))
	if now != p.last {
		p.last = now
		p.line("%5.1f s  %s", f.elapsed.Seconds(), now)
	}
}

func (p *plain) close() {}

func (p *plain) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format+"\n", args...) // a reader that is gone ends the process
}

// names is short enough for all workers to fit in a line: their numbers, and what is special.
func names(tickets []fairsem.Ticket, dead string) string {
	if len(tickets) == 0 {
		return "nobody"
	}
	all := make([]string, len(tickets))
	for i, t := range tickets {
		all[i] = strings.TrimPrefix(t.Label, "worker ")
		if t.Weight > 1 {
			all[i] += fmt.Sprintf(" (%d units)", t.Weight)
		}
		if t.ID == dead {
			all[i] += " (dead)"
		}
	}
	return strings.Join(all, ", ")
}
