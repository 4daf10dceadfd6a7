package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// journal is the talk of a run, which all goes to standard error: standard output is the command's.
type journal struct {
	out  io.Writer
	json bool
	name string
}

func newJournal(out io.Writer, o runOptions) *journal { return &journal{out, o.json, o.name} }

// note is what happened, for programs to read.
type note struct {
	Time     time.Time `json:"time"`
	Event    string    `json:"event"` // granted, started, lost, ended, released, warning or failed
	Name     string    `json:"name"`
	ID       string    `json:"id,omitempty"`
	Token    int64     `json:"token,omitempty"`
	Weight   int64     `json:"weight,omitempty"`
	WaitedMS int64     `json:"waited_ms,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Exit     *int      `json:"exit,omitempty"`
	Message  string    `json:"message,omitempty"`
}

// note is silent unless JSON is wanted.
func (j *journal) note(n note) {
	if !j.json {
		return
	}
	n.Time, n.Name = time.Now(), j.name
	_, _ = j.out.Write(text.JSON(n)) // there is nobody else to tell
}

// warn is for people, and for programs if they want JSON.
func (j *journal) warn(format string, args ...any) {
	words := fmt.Sprintf(format, args...)
	if j.json {
		j.note(note{Event: "warning", Message: words})
		return
	}
	_, _ = fmt.Fprintf(j.out, "fairsem: warning: %s\n", words) // as above
}

// conclude tells a failure as JSON if that is wanted, and leaves only its exit code to tell.
func (j *journal) conclude(err error) error {
	var f *failure
	var stop signalled
	if !j.json || err == nil || errors.As(err, &f) && f.err == nil || errors.As(err, &stop) {
		return err
	}
	code := exitFailure
	if f != nil {
		code = f.code
	}
	j.note(note{Event: "failed", Exit: &code, Message: strings.TrimPrefix(err.Error(), "fairsem: ")})
	return &failure{code, nil}
}
