package demo

import (
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
)

// newDisplay returns a function that shows a frame, and one that ends the display. It draws what on a screen of its own, if out is a terminal.
// Otherwise it is a log, and with JSON it shows nothing.
func newDisplay[F any](out io.Writer, o Options, title string, what drawing[F], log func(logWriter) func(F)) (show func(F), end func()) {
	switch {
	case o.JSON:
		return log(logWriter{io.Discard}), func() {}
	case !screen.CanDraw(out):
		return log(logWriter{out}), func() {}
	}
	program, ended := screen.Program(picture[F]{title: title, drawing: what, signs: signs(), interrupt: o.Interrupt}, out), make(chan struct{})
	go func() { // ends when end asks it to, and end waits
		defer close(ended)
		_, _ = program.Run() // without a picture the demo continues, and its summary has everything
	}()
	return func(f F) { program.Send(f) }, func() { program.Quit(); <-ended } // which leaves the terminal as it was
}

// logWriter writes a log.
type logWriter struct{ out io.Writer }

func (l logWriter) line(format string, args ...any) {
	_, _ = fmt.Fprintf(l.out, format+"\n", args...) // a reader that is gone ends the process
}

// drawEvery is fast enough for a bar to run down, and slow enough to be no load.
const drawEvery = 50 * time.Millisecond

// drawing renders the frames received so far, for a terminal of some size at some moment.
type drawing[F any] interface {
	update(f F, now time.Time)
	render(now time.Time, width, height int, g glyphs) string
}

// picture is the model that bubbletea wants.
type picture[F any] struct {
	title         string
	drawing       drawing[F]
	width, height int // of the terminal; 0: not known yet
	now           time.Time
	signs         glyphs
	interrupt     func()
}

type tick time.Time

func nextTick() tea.Cmd { return tea.Tick(drawEvery, func(t time.Time) tea.Msg { return tick(t) }) }

func (p picture[F]) Init() tea.Cmd { return nextTick() }

func (p picture[F]) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	p.now = time.Now()
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
		return p, screen.Redraw()
	case tick:
		return p, nextTick()
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" {
			p.interrupt()
		}
	case F:
		p.drawing.update(msg, p.now)
	}
	return p, nil
}

func (p picture[F]) View() tea.View {
	v := tea.NewView(p.drawing.render(p.now, p.width, p.height, p.signs))
	v.AltScreen = true
	v.WindowTitle = p.title
	return v
}
