package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// acquire waits in line until r has its permit, a signal comes, or the time to wait is over.
func (r *runner) acquire(ctx context.Context) error {
	stop := r.showPlace(ctx)
	defer stop()
	err := r.untilSignal(ctx, func(ctx context.Context) (err error) {
		if r.wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, r.wait)
			defer cancel()
		}
		r.permit, err = r.ask(ctx)
		return err
	})
	if err != nil && r.permit != nil { // the signal was later than the grant
		r.release(ctx)
	}
	return r.refused(err)
}

func (r *runner) ask(ctx context.Context) (*fairsem.Permit, error) {
	if !r.noWait {
		return r.sem.Acquire(ctx, r.weight)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTTL) // who does not wait in line does not wait for the server, however long the TTL
	defer cancel()
	permit, err := r.sem.TryAcquire(ctx, r.weight)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: no answer for %v", fairsem.ErrUnavailable, lookTTL)
	}
	return permit, err
}

// refused gives the exit code to errors that say that it was somebody else's turn.
func (r *runner) refused(err error) error {
	switch {
	case errors.Is(err, fairsem.ErrUnavailable): // it may wrap a time-out
		return placed(err, r.there)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("not acquired: %q was not free within %v", r.name, r.wait)
	case errors.Is(err, fairsem.ErrEvicted):
		err = fmt.Errorf("%w%s", err, r.evictedBy(r.waiting()))
	case errors.Is(err, fairsem.ErrNotAcquired), errors.Is(err, fairsem.ErrQueueFull), errors.Is(err, fairsem.ErrExceedsLimit):
	default:
		return err
	}
	return &failure{r.conflict, err}
}

// waiting is the id under which the run waits; "" if no event has told it yet.
func (r *runner) waiting() string {
	if id := r.waits.Load(); id != nil {
		return *id
	}
	return ""
}

// signatureLimit bounds the question who evicted a run that has nothing left to do.
const signatureLimit = time.Second

// evictedBy is " by" and who evicted that id; "" if that is not known.
func (r *runner) evictedBy(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), signatureLimit)
	defer cancel()
	label, err := r.sem.EvictedBy(ctx, id)
	if err != nil || label == "" {
		return ""
	}
	return " by " + text.Clean(label)
}

const (
	placeFirst = 300 * time.Millisecond // nobody needs to read what is over at once
	placeEvery = time.Second
	placeMost  = 2000 // waiters that are looked at to find the own place
)

// showPlace draws the place in line on the terminal until the returned function is called, which
// clears it.
func (r *runner) showPlace(ctx context.Context) (stop func()) {
	if r.mark == "" || r.noWait {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends with ctx; stop waits
		defer close(ended)
		r.drawPlace(ctx, os.Stderr)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (r *runner) drawPlace(ctx context.Context, out io.Writer) {
	began, drawn := time.Now(), 0
	for wait := placeFirst; ; wait = placeEvery {
		pause(ctx, wait)
		if ctx.Err() != nil {
			break
		}
		if inBackground() {
			continue
		}
		place, err := r.place(ctx)
		if err != nil {
			continue // the call that waits says what there is to say
		}
		place = fmt.Sprintf("%s, %d s", place, int(time.Since(began).Seconds()))
		_, _ = fmt.Fprintf(out, "\r%s%s", place, strings.Repeat(" ", max(0, drawn-len(place)))) // only for people to read
		drawn = len(place)
	}
	if drawn > 0 {
		_, _ = fmt.Fprintf(out, "\r%s\r", strings.Repeat(" ", drawn)) // as above
	}
}

// pause waits for d or for ctx, whichever is first.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// place says where r stands in line.
func (r *runner) place(ctx context.Context) (string, error) {
	position, err := r.position(ctx)
	if err != nil {
		return "", err
	}
	s, err := r.sem.Status(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s of %d, %d/%d in use", position, s.Waiting, s.Used, s.Limit), nil
}

func (r *runner) position(ctx context.Context) (string, error) {
	n := 0
	for t, err := range r.sem.Waiters(ctx) {
		if err != nil {
			return "", err
		}
		if n++; t.Label == r.mark {
			return fmt.Sprintf("position %d", n), nil
		}
		if n == placeMost {
			return fmt.Sprintf("position over %d", placeMost), nil
		}
	}
	return "position ?", nil // between two places, or the label is gone
}
