// Package change makes the changes of operators: it announces a change to a name, asks, makes it and reports the result.
package change

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/failure"
)

var (
	// ErrUnknown is of a name that Redis does not know. Nothing was done.
	ErrUnknown = errors.New("no such name")
	// ErrDeclined is of a question that was not answered with yes, or too late. Nothing was done.
	ErrDeclined = errors.New("nothing was changed")
	// ErrUncertain is of a change whose outcome is not known. Redis may have made it, or make it yet, for up to 10 s.
	ErrUncertain = errors.New("the change may have been made all the same")
)

// Outcome returns the error of a change, which wraps ErrUncertain unless it is Redis's reply, or that of a check before any I/O.
func Outcome(err error) error {
	if err == nil || failure.Refused(err) || errors.Is(err, fairsem.ErrInvalid) || errors.Is(err, fairsem.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err)
}

// Target is where changes to one name are made.
type Target struct {
	Client   *fairsem.Client
	Name     string
	Messages io.Writer                           // where a change is announced
	Width    int                                 // of the lines of Messages; 0: any
	Ask      func(context.Context) (bool, error) // whether to make the change; nil: yes
	JSON     bool                                // the result
	Out      io.Writer                           // has the result
}

// result is the output of --json about a limit. An eviction adds to it.
type result struct {
	Changed bool             `json:"changed"`
	Before  render.Semaphore `json:"before"`
	After   render.Semaphore `json:"after"`
}

func (t Target) there() *fairsem.Inspector { return t.Client.Inspect(t.Name) }

// known returns the status of the name, or ErrUnknown.
func (t Target) known(ctx context.Context) (fairsem.Status, error) {
	s, err := t.there().Status(ctx)
	if err == nil && !s.Exists {
		err = ErrUnknown
	}
	return s, err
}

// confirm announces a change, and asks.
func (t Target) confirm(ctx context.Context, what string) error {
	if t.Width > 0 {
		what = text.Wrap(what, t.Width)
	}
	_, _ = io.WriteString(t.Messages, what+"\n") // an error cannot be reported anywhere
	if t.Ask == nil {
		return nil
	}
	yes, err := t.Ask(ctx)
	if err == nil && !yes {
		err = ErrDeclined
	}
	return err
}

// report writes the result.
func (t Target) report(object any, words string) error {
	line := []byte(words + "\n")
	if t.JSON {
		line = text.JSON(object)
	}
	_, err := t.Out.Write(line)
	return err
}

// state is a status in a few words.
func state(s fairsem.Status) string {
	limit := fmt.Sprintf("limit %d", s.Limit)
	switch {
	case inspect.Paused(s):
		limit = "paused"
	case s.Limit == 0:
		limit = "no limit declared"
	case s.Window > 0:
		limit = "rate " + render.Rate(s.Limit, s.Window)
	}
	if s.Pinned && s.Limit > 0 {
		limit += " (set by hand)"
	}
	words := fmt.Sprintf("%s, %s in use, %d waiting", limit, render.Used(s), s.Waiting)
	if s.Waiting > 0 {
		words += ", the oldest for " + text.Ago(s.OldestWait)
	}
	return words
}
