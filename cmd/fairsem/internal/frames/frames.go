// Package frames shows a picture once or repeatedly: one below the other, or in place on a terminal.
package frames

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Frame is the result of one query.
type Frame struct {
	// Text returns lines, each with its end, for so many columns and lines; 0 is any number. Lines that are
	// too many it may leave to the screen to cut.
	Text func(width, height int) string
	Note string // what else people should know; "": nothing
	Err  error  // why the result is incomplete
}

// words are for people beside the text.
func (f Frame) words() string {
	if f.Err != nil {
		return text.Clean(f.Err.Error())
	}
	return f.Note
}

// Query queries Redis for a frame.
type Query func(context.Context) (Frame, error)

// defaultWidth is the width of a terminal that does not report its own.
const defaultWidth = 80

// Width is how many columns the terminal has that out is; 0 if it is none.
func Width(out io.Writer) (width int, terminal bool) {
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, false
	}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
		return width, true
	}
	return defaultWidth, true
}

// Output is where frames go one below the other.
type Output struct {
	Out, Notes io.Writer // data, and notes
	Width      int       // of the lines; 0: any
}

// Once shows one frame. It also returns the error of an incomplete result.
func (p Output) Once(ctx context.Context, query Query) error {
	f, err := query(ctx)
	if err != nil {
		return err
	}
	p.tell(f.Note)
	if err := p.write(f); err != nil {
		return err
	}
	return f.Err
}

// Repeat shows a frame at every interval until ctx ends, whose cause it returns, or it cannot write. Notes are written
// when they change. After a first frame, the first error of a query is written, and polling continues: a log should
// contain the time after an outage, too.
func (p Output) Repeat(ctx context.Context, every time.Duration, query Query) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	told, seen, troubled := "", false, false
	for {
		f, err := query(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !seen:
			return err
		case err != nil && !troubled:
			p.tell(text.Clean(err.Error()) + "; polling continues")
			told, troubled = "", true
		case err == nil:
			seen, troubled = true, false
			if words := f.words(); words != told {
				p.tell(words)
				told = words
			}
			if err := p.write(f); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (p Output) write(f Frame) error {
	_, err := io.WriteString(p.Out, f.Text(p.Width, 0))
	return err
}

func (p Output) tell(words string) {
	if words != "" {
		_, _ = io.WriteString(p.Notes, words+"\n") // an error cannot be reported anywhere
	}
}
