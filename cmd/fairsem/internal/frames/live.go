package frames

import (
	"context"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Live is a terminal on which each frame replaces the previous one.
type Live struct {
	Out     io.Writer
	In      io.Reader // nil: no keys
	Profile colorprofile.Profile
	Title   string
}

// Repeat shows a frame at every interval until ctx ends, whose cause it returns, or the user quits. Ctrl-C calls
// interrupt, which must end ctx. After a first frame an error is shown below the last frame, and polling continues.
func (l Live) Repeat(ctx context.Context, every time.Duration, query Query, interrupt func()) error {
	first, err := query(ctx)
	if err != nil {
		return err
	}
	program := tea.NewProgram(model{title: l.Title, frame: first, interrupt: interrupt},
		tea.WithOutput(l.Out), tea.WithInput(l.In), tea.WithColorProfile(l.Profile), tea.WithoutSignalHandler())
	ctx, cancel := context.WithCancel(ctx)
	looking := make(chan struct{})
	go func() { // ends with ctx; waited for below
		defer close(looking)
		l.feed(ctx, program, every, query)
	}()
	_, err = program.Run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel()
	<-looking
	return err
}

// feed sends frames until ctx ends, and then quits.
func (l Live) feed(ctx context.Context, program *tea.Program, every time.Duration, query Query) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			if f, err := query(ctx); err != nil {
				program.Send(trouble{err})
			} else {
				program.Send(f)
			}
		case <-ctx.Done():
		}
	}
	program.Quit()
}

// trouble is the error of the last query.
type trouble struct{ error }

// model is the last frame and how large the terminal is.
type model struct {
	title         string
	frame         Frame
	trouble       trouble
	width, height int
	interrupt     func()
}

func (m model) Init() tea.Cmd { return nil }

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case Frame:
		m.frame, m.trouble = msg, trouble{}
	case trouble:
		m.trouble = msg
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		switch msg.String() {
		case "ctrl+c":
			m.interrupt()
		case "ctrl+z":
			return m, tea.Suspend
		case "q", "esc":
			return m, tea.Quit
		}
	}
	return m, nil
}

var (
	faint = lipgloss.NewStyle().Faint(true)
	bad   = lipgloss.NewStyle().Foreground(lipgloss.Red)
)

// around is the lines beside those of the frame: the title, an empty one, and the note.
const around = 4

func (m model) View() tea.View {
	if m.width == 0 { // it is not known yet
		return tea.NewView("")
	}
	room := max(1, m.height-around)
	lines := strings.Split(strings.TrimRight(m.frame.Text(m.width, room), "\n"), "\n")
	if len(lines) > room {
		lines = append(lines[:room-1], faint.Render("…"))
	}
	lines = append([]string{faint.Render(m.title), ""}, lines...)
	if m.trouble.error != nil {
		lines = append(lines, "", bad.Render(text.Clean(m.trouble.Error())))
	} else if words := m.frame.words(); words != "" {
		lines = append(lines, "", words)
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}
