package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// refused gives the exit code to refusals. It adds to an error which server does not answer, or of which other kind the
// name is.
func (c *caller) refused(err error, otherKind string) error {
	switch {
	case errors.Is(err, fairsem.ErrUnavailable):
		return withServer(err, c.target)
	case redis.HasErrorPrefix(err, "FAIRSEMKIND"):
		return fmt.Errorf("%q is the name of a %s: choose another name", c.name, otherKind)
	case errors.Is(err, fairsem.ErrEvicted):
		if id := c.waitID.Load(); id != nil {
			err = fmt.Errorf("%w%s", err, c.evictedBy(*id))
		}
		return &failure{c.conflict, err}
	case errors.Is(err, fairsem.ErrNotAcquired), errors.Is(err, fairsem.ErrQueueFull), errors.Is(err, fairsem.ErrExceedsLimit):
		return &failure{c.conflict, err}
	}
	return err
}

// signatureLimit bounds the query for the operator who evicted a command that has nothing left to do.
const (
	signatureLimit = 500 * time.Millisecond
	signatureEvery = 20 * time.Millisecond
)

// evictedBy is " by" and the label of the process that evicted that id, or "" if it is not known.
func (c *caller) evictedBy(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), signatureLimit)
	defer cancel()
	for {
		label, err := c.queue.EvictedBy(ctx, id)
		switch {
		case label != "":
			return " by " + text.Clean(label)
		case err != nil:
			return ""
		}
		pause(ctx, signatureEvery) // it is stored right after the eviction
	}
}

const (
	positionFirst = 300 * time.Millisecond // a shorter wait needs no display
	positionEvery = time.Second
	positionMost  = 2000 // waiters that are read to find the own position
)

// showPosition draws the position in the queue on the terminal until the returned function is called, which
// clears it.
func (c *caller) showPosition(ctx context.Context) (stop func()) {
	if c.ownLabel == "" || c.noWait {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends with ctx; stop waits
		defer close(ended)
		c.drawPosition(ctx, os.Stderr)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (c *caller) drawPosition(ctx context.Context, out io.Writer) {
	began, drawn := time.Now(), 0
	for wait := positionFirst; ; wait = positionEvery {
		pause(ctx, wait)
		if ctx.Err() != nil {
			break
		}
		if inBackground() {
			continue
		}
		standing, err := c.progress(ctx)
		if err != nil {
			continue // the call that waits says what there is to say
		}
		standing = fmt.Sprintf("%s, %d s", standing, int(time.Since(began).Seconds()))
		_, _ = fmt.Fprintf(out, "\r%s%s", standing, strings.Repeat(" ", max(0, drawn-len(standing)))) // only for people to read
		drawn = len(standing)
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

// progress describes the position of the command in the queue.
func (c *caller) progress(ctx context.Context) (string, error) {
	position, err := c.position(ctx)
	if err != nil {
		return "", err
	}
	s, err := c.queue.Status(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s of %d, %d/%d in use", position, s.Waiting, s.Used, s.Limit), nil
}

func (c *caller) position(ctx context.Context) (string, error) {
	n := 0
	for t, err := range c.queue.Waiters(ctx) {
		if err != nil {
			return "", err
		}
		if n++; t.Label == c.ownLabel {
			return fmt.Sprintf("position %d", n), nil
		}
		if n == positionMost {
			return fmt.Sprintf("position over %d", positionMost), nil
		}
	}
	return "position ?", nil // between two positions, or the label is gone
}
