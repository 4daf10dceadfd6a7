package watch

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
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
	m := model{
		title: text.Clean(o.Title + ending(screen.Keyboard())), every: o.Every, frame: first,
		interrupt: func() { cancel(exit.CtrlC) },
	}
	program := screen.Program(m, o.Out)
	var polling sync.WaitGroup
	polling.Go(func() { poll(ctx, program, o.Every, query) }) // ends with ctx; waited for below
	_, err = program.Run()
	err = cmp.Or(context.Cause(ctx), err)
	cancel(nil)
	polling.Wait()
	return err
}

// ending says in the title how people end it. Without a keyboard the terminal itself makes a signal of ctrl-c.
func ending(keyboard bool) string {
	if keyboard {
		return " · q quits"
	}
	return " · ctrl-c quits"
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

// moment is the time, once a second.
type moment time.Time

func nextMoment() tea.Cmd {
	return tea.Tick(time.Second, func(now time.Time) tea.Msg { return moment(now) })
}

// overdue is after how long a frame is marked as old, or after three intervals, if that is longer.
const overdue = 2 * time.Second

// model is the last frame and how large the terminal is.
type model struct {
	title         string
	every         time.Duration
	frame         Frame
	answered      time.Time // the first moment with the frame; zero: none has come yet
	now           time.Time
	trouble       trouble
	width, height int
	interrupt     func()
}

func (m model) Init() tea.Cmd { return nextMoment() }

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case Frame:
		m.frame, m.trouble, m.answered = msg, trouble{}, time.Time{}
	case moment:
		m.now = time.Time(msg)
		if m.answered.IsZero() {
			m.answered = m.now
		}
		return m, nextMoment()
	case trouble:
		m.trouble = msg
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		return m, screen.Redraw()
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

// around is the lines beside those of the frame: the title, the note, and an empty one beside each.
const around = 4

// roomForSpace is the height from which on there is room for more than the frame and one line above it.
const roomForSpace = around + 2

func (m model) View() tea.View {
	if m.width == 0 { // it is not known yet
		return tea.NewView("")
	}
	title, note := screen.Faint.Render(m.title), m.note()
	var lines []string
	if m.height < roomForSpace {
		lines = append([]string{cmp.Or(note, title)}, m.rows(m.height-1)...)
	} else {
		lines = append([]string{title, ""}, m.rows(m.height-around)...)
		if note != "" {
			lines = append(lines, "", note)
		}
	}
	for i, line := range lines {
		lines[i] = text.Cut(line, m.width, "…")
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	return v
}

// rows are the lines of the frame, at most so many. The last one says if there are more, where there is room for that.
func (m model) rows(room int) []string {
	lines := strings.Split(strings.TrimRight(m.frame.Text(m.width, max(1, room)), "\n"), "\n")
	switch {
	case len(lines) <= room:
		return lines
	case m.height < roomForSpace:
		return lines[:max(0, room)]
	}
	return append(lines[:room-1], screen.Faint.Render("…"))
}

// note is the note for people, the error of the last query first; "": none.
func (m model) note() string {
	age := m.now.Sub(m.answered)
	stale := !m.answered.IsZero() && age > max(overdue, 3*m.every)
	switch {
	case m.trouble.error != nil && stale:
		return screen.Bad.Render(text.Stale(age) + ": " + text.Clean(m.trouble.Error()))
	case m.trouble.error != nil:
		return screen.Bad.Render(text.Clean(m.trouble.Error()))
	case stale:
		return screen.Bad.Render(text.Stale(age) + ": no answer")
	}
	return m.frame.words()
}
