package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/fairsem/fairsem/internal/clock"
)

const (
	positionFirst = 300 * time.Millisecond // a shorter wait needs no display
	positionEvery = time.Second
	positionMost  = 2000 // waiters that are read to find the own position
	clearTimeout  = time.Second
)

// showPosition draws the position in the queue on the terminal until the returned function is called, which clears it.
func (w *waiter) showPosition(ctx context.Context) (stop func()) {
	r := w.request
	if r.JSON || r.Quiet || r.NoWait || !term.IsTerminal(int(os.Stderr.Fd())) || os.Getenv("TERM") == "dumb" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	cleared := make(chan struct{})
	go func() { // ends with ctx, once the terminal is read; stop waits, but not for ever
		defer close(cleared)
		w.drawPosition(ctx, os.Stderr)
	}()
	return func() {
		cancel()
		select {
		case <-cleared:
		case <-time.After(clearTimeout): // nobody reads the terminal, as after Ctrl-S: the permit must not wait for that
		}
	}
}

func (w *waiter) drawPosition(ctx context.Context, out io.Writer) {
	began, drawn := time.Now(), 0
	for wait := positionFirst; ; wait = positionEvery {
		clock.Sleep(ctx, wait)
		if ctx.Err() != nil {
			break
		}
		if inBackground() {
			continue
		}
		line, err := w.progress(ctx)
		if err != nil {
			continue // the call that waits reports what is wrong
		}
		line = fmt.Sprintf("%s, %d s", line, int(time.Since(began).Seconds()))
		_, _ = fmt.Fprintf(out, "\r%-*s", drawn, line) // only for people to read
		drawn = len(line)
	}
	if drawn > 0 {
		_, _ = fmt.Fprintf(out, "\r%*s\r", drawn, "") // as above
	}
}

// progress describes the position of the command in the queue.
func (w *waiter) progress(ctx context.Context) (string, error) {
	position, err := w.position(ctx)
	if err != nil {
		return "", err
	}
	s, err := w.inspector.Status(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s of %d, %d/%d in use", position, s.Waiting, s.Used, s.Limit), nil
}

func (w *waiter) position(ctx context.Context) (string, error) {
	own, n := w.ticketID.Load(), 0
	if own == nil {
		return "position ?", nil // it is not in the queue yet
	}
	for t, err := range w.inspector.Waiters(ctx) {
		if err != nil {
			return "", err
		}
		if n++; t.ID == *own {
			return fmt.Sprintf("position %d", n), nil
		}
		if n == positionMost {
			return fmt.Sprintf("position over %d", positionMost), nil
		}
	}
	return "position ?", nil // between two positions
}
