package demo

import (
	"io"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// display shows frames until it is closed.
type display interface {
	show(frame)
	close()
}

// display returns one that draws in place if out is a terminal, else one that writes a line for every
// change. With JSON it is one that shows nothing.
func (d *demo) display(out io.Writer) display {
	if d.options.JSON {
		return &plain{out: io.Discard}
	}
	if !text.CanDraw(out) {
		return &plain{out: out}
	}
	return startLive(out, picture{scene: &scene{}, signs: signs(), interrupt: d.options.Interrupt})
}

// live draws on a screen of its own.
type live struct {
	program *tea.Program
	ended   chan struct{}
}

func startLive(out io.Writer, model tea.Model) *live {
	options := []tea.ProgramOption{tea.WithOutput(out), tea.WithColorProfile(text.Profile(out)), tea.WithoutSignalHandler()}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		options = append(options, tea.WithInput(nil))
	}
	l := &live{tea.NewProgram(model, options...), make(chan struct{})}
	go func() { // ends when close asks it to, and close waits
		defer close(l.ended)
		_, _ = l.program.Run() // without a picture the demo continues, and its summary has everything
	}()
	return l
}

func (l *live) show(f frame) { l.program.Send(f) }

// close leaves the terminal as it was.
func (l *live) close() {
	l.program.Quit()
	<-l.ended
}

// drawEvery is fast enough for a bar to run down, and slow enough to be no load.
const drawEvery = 50 * time.Millisecond

// picture is the model that bubbletea wants.
type picture struct {
	scene         *scene
	width, height int // of the terminal; 0: not known yet
	now           time.Time
	signs         glyphs
	interrupt     func()
}

type tick time.Time

func nextTick() tea.Cmd { return tea.Tick(drawEvery, func(t time.Time) tea.Msg { return tick(t) }) }

func (p picture) Init() tea.Cmd { return nextTick() }

func (p picture) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	p.now = time.Now()
	switch msg := msg.(type) {
	case frame:
		p.scene.update(msg, p.now)
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
	case tick:
		return p, nextTick()
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" {
			p.interrupt()
		}
	}
	return p, nil
}

func (p picture) View() tea.View {
	v := tea.NewView(p.scene.render(p.now, p.width, p.height, p.signs))
	v.AltScreen = true
	v.WindowTitle = "fairsem demo"
	return v
}
