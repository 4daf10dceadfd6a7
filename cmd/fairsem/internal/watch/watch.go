// Package watch repeats a query and shows each result: one below the other, or in place on a terminal.
package watch

import (
	"context"
	"io"
	"time"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Frame is the result of one query.
type Frame struct {
	// Text returns lines, each with its end, for so many columns and lines; 0 is any number. Lines that are
	// too many it may leave to the screen to cut.
	Text func(width, height int) string
	Note string // another note for people; "": none
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

// Options say how results are shown.
type Options struct {
	Out, Notes io.Writer     // results, and notes about them
	Every      time.Duration // between two queries; 0: there is only one
	Below      bool          // show each result below the previous one on a terminal, too
	Title      string        // of results that replace each other
}

// Show shows the results of query, as often as o says. It returns the error of the query, or of the output, or the cause of
// ctx; nil if the user quits.
func Show(ctx context.Context, o Options, query Query) error {
	width, _ := screen.Width(o.Out)
	out := output{screen.Writer(o.Out), o.Notes, width}
	switch {
	case o.Every == 0:
		return out.once(ctx, query)
	case o.Below || !screen.CanDraw(o.Out):
		return out.repeat(ctx, o.Every, query)
	}
	return inPlace(ctx, o, query)
}

// output is where frames go, one below the other.
type output struct {
	out, notes io.Writer
	width      int // of the lines; 0: any
}

// once shows one frame. It also returns the error of an incomplete result.
func (o output) once(ctx context.Context, query Query) error {
	f, err := query(ctx)
	if err != nil {
		return err
	}
	o.note(f.Note)
	if err := o.write(f); err != nil {
		return err
	}
	return f.Err
}

// repeat shows a frame at every interval until ctx ends, whose cause it returns, or it cannot write. Notes are written
// when they change. After a first frame, the first error of a query is written, and polling continues: a log should
// contain the time after an outage, too.
func (o output) repeat(ctx context.Context, every time.Duration, query Query) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	noted, seen, failed := "", false, false
	for {
		f, err := query(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !seen:
			return err
		case err != nil && !failed:
			o.note(text.Clean(err.Error()) + "; polling continues")
			noted, failed = "", true
		case err == nil:
			seen, failed = true, false
			if words := f.words(); words != noted {
				o.note(words)
				noted = words
			}
			if err := o.write(f); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (o output) write(f Frame) error {
	_, err := io.WriteString(o.out, f.Text(o.width, 0))
	return err
}

func (o output) note(words string) {
	if words != "" {
		_, _ = io.WriteString(o.notes, words+"\n") // an error cannot be reported anywhere
	}
}
