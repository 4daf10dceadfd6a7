package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// journal is the talk of a run, which all goes to standard error: standard output is the command's. Nobody waits for who
// reads it, but for close: the command must end in time though its terminal stands still.
type journal struct {
	json     bool
	quiet    bool
	conflict int
	name     string

	lines   chan []byte
	written chan struct{} // closed when all lines are
}

// journalLines is how many can be unread. A run has a dozen.
const journalLines = 64

func newJournal(out io.Writer, w *waiting) *journal {
	j := &journal{json: w.json, quiet: w.quiet, conflict: w.conflict, name: w.name, lines: make(chan []byte, journalLines), written: make(chan struct{})}
	go func() { // ends after close; close waits
		defer close(j.written)
		for line := range j.lines {
			_, _ = out.Write(line) // there is nobody else to tell
		}
	}()
	return j
}

// write leaves a line out if there are too many that nobody reads.
func (j *journal) write(line []byte) {
	select {
	case j.lines <- line:
	default:
	}
}

// close waits until all is written, for as long as that is worth waiting for.
func (j *journal) close() {
	close(j.lines)
	select {
	case <-j.written:
	case <-time.After(closeLimit):
	}
}

// note is what happened, for programs to read.
type note struct {
	Time     time.Time `json:"time"`
	Event    string    `json:"event"` // granted, started, lost, ended, released, warning, stopped or failed
	Name     string    `json:"name"`
	ID       string    `json:"id,omitempty"`
	Token    int64     `json:"token,omitempty"`
	Weight   int64     `json:"weight,omitempty"`
	WaitedMS int64     `json:"waited_ms,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Exit     *int      `json:"exit,omitempty"`
	Reason   string    `json:"reason,omitempty"`         // of a loss, and of a wait that was ended: evicted or expired
	RetryMS  int64     `json:"retry_after_ms,omitempty"` // of a rate: until the units would be granted
	Message  string    `json:"message,omitempty"`
}

// Why a permit was lost.
const (
	reasonEvicted = "evicted" // by somebody
	reasonExpired = "expired" // for want of an answer of Redis, or of this process
)

// note is silent unless JSON is wanted.
func (j *journal) note(n note) {
	if !j.json {
		return
	}
	n.Time, n.Name = time.Now(), j.name
	j.write(text.JSON(n))
}

// warn is for people, unless they want it quiet, and for programs if they want JSON.
func (j *journal) warn(format string, args ...any) {
	if j.quiet {
		return
	}
	message := fmt.Sprintf(format, args...)
	if j.json {
		j.note(note{Event: "warning", Message: message})
		return
	}
	j.write(fmt.Appendf(nil, "fairsem: warning: %s\n", text.Clean(message)))
}

// conclude tells as JSON, if that is wanted, what kept the command from running or from its end, and
// leaves only the exit code to tell.
func (j *journal) conclude(err error) error {
	var f *failure
	if err == nil || errors.As(err, &f) && f.err == nil {
		return err
	}
	if !j.json {
		return j.muted(err, f)
	}
	event, code := "failed", exitFailure
	var stop signalled
	switch {
	case errors.As(err, &stop):
		event, code = "stopped", stop.code()
	case f != nil:
		code = f.code
	}
	n := note{Event: event, Exit: &code}
	if errors.Is(err, fairsem.ErrEvicted) {
		n.Reason = reasonEvicted
	}
	var later *fairsem.WaitError
	if errors.As(err, &later) {
		n.RetryMS = later.RetryAfter.Milliseconds()
	}
	n.Message = strings.TrimPrefix(err.Error(), "fairsem: ")
	j.note(n)
	return &failure{code, nil}
}

// hushed leaves only the exit code of an error f that is to tell no more: of what is a success, since cron would send a mail,
// and of what went as it may where that is to be quiet.
func (j *journal) muted(err error, f *failure) error {
	if f != nil && (f.code == 0 || j.quiet && (f.code == j.conflict || f.code == exitLost)) {
		return &failure{f.code, nil}
	}
	return err
}
