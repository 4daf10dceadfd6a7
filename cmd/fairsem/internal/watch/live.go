package watch

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"golang.org/x/term"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// inPlace shows each frame in place of the previous one, until ctx ends, whose cause it returns, or the user quits. After a
// first frame an error is shown below the last frame, and polling continues.
func inPlace(ctx context.Context, o Options, query Query) error {
	first, err := query(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := model{title: text.Clean(o.Title), frame: first, interrupt: func() { cancel(exit.Signal{Signal: syscall.SIGINT}) }}
	options := []tea.ProgramOption{tea.WithOutput(o.Out), tea.WithColorProfile(text.Profile(o.Out)), tea.WithoutSignalHandler()}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		options = append(options, tea.WithInput(nil)) // no keys
	}
	program := tea.NewProgram(m, options...)
	var polling sync.WaitGroup
	polling.Go(func() { poll(ctx, program, o.Every, query) }) // ends with ctx; waited for below
	_, err = program.Run()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	polling.Wait()
	return err
}

// poll sends frames until ctx ends, and then quits.
func poll(ctx context.Context, program *tea.Program, every time.Duration, query Query) {
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
		return m, text.Redraw()
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
		lines[i] = text.Cut(line, m.width, "…")
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}
