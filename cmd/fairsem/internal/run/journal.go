package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/dial"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// journal writes the messages of a job to standard error: standard output is the command's. Only close waits until they
// are written: the command must end in time even if its terminal does not read.
type journal struct {
	request *Request
	lines   chan []byte
	written chan struct{} // closed when all lines are
}

// journalled runs f with a journal that ends with it.
func (r *Request) journalled(f func(*journal) error) error {
	j := newJournal(os.Stderr, r)
	defer j.close()
	return j.conclude(f(j))
}

// journalLines is how many can be unread. A job has a dozen.
const journalLines = 64

func newJournal(out io.Writer, r *Request) *journal {
	j := &journal{request: r, lines: make(chan []byte, journalLines), written: make(chan struct{})}
	go func() { // ends after close; close waits
		defer close(j.written)
		for line := range j.lines {
			_, _ = out.Write(line) // an error cannot be reported anywhere
		}
	}()
	return j
}

// write drops a line if too many are unwritten.
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
	case <-time.After(dial.CloseTimeout):
	}
}

// note is the record of an event, for programs to read.
type note struct {
	Time         time.Time `json:"time"`
	Event        string    `json:"event"` // granted, started, lost, ended, released, warning, stopped or failed
	Name         string    `json:"name"`
	NameBase64   []byte    `json:"name_base64,omitempty"` // only if the name is no UTF-8, which JSON cannot write
	ID           string    `json:"id,omitempty"`
	IDBase64     []byte    `json:"id_base64,omitempty"`
	Tenant       string    `json:"tenant,omitempty"`
	TenantBase64 []byte    `json:"tenant_base64,omitempty"`
	Token        int64     `json:"token,omitempty"`
	Weight       int64     `json:"weight,omitempty"`
	Numbers      []int64   `json:"numbers,omitempty"`
	WaitedMS     int64     `json:"waited_ms,omitempty"`
	PID          int       `json:"pid,omitempty"`
	Exit         *int      `json:"exit,omitempty"`
	Reason       string    `json:"reason,omitempty"`         // of a loss, and of a wait that was ended: evicted or expired
	RetryMS      int64     `json:"retry_after_ms,omitempty"` // of a rate: until the units would be granted
	Message      string    `json:"message,omitempty"`
}

// Why a permit was lost.
const (
	reasonEvicted = "evicted" // revoked by an operator
	reasonExpired = "expired" // not renewed in time, by Redis or by this process
)

// note writes JSON if that is requested, else nothing.
func (j *journal) note(n note) {
	if !j.request.JSON {
		return
	}
	n.Time, n.Name = time.Now(), j.request.Name
	n.NameBase64, n.IDBase64, n.TenantBase64 = text.NotUTF8(n.Name), text.NotUTF8(n.ID), text.NotUTF8(n.Tenant)
	j.write(text.JSON(n))
}

// warn is for people, unless they want it quiet, and for programs if they want JSON.
func (j *journal) warn(format string, args ...any) {
	if j.request.Quiet {
		return
	}
	message := fmt.Sprintf(format, args...)
	if j.request.JSON {
		j.note(note{Event: "warning", Message: message})
		return
	}
	j.write(fmt.Appendf(nil, "fairsem: warning: %s\n", text.Clean(message)))
}

// lost reports a loss that has no effect on the command, because that has ended.
func (j *journal) lost(reason, when string) {
	j.note(note{Event: "lost", Reason: reason})
	j.warn("the permit on %q was lost (%s) %s", j.request.Name, reason, when)
}

// conclude reports as JSON, if that is requested, why the command was not started or was ended after a loss, and returns
// only the exit code.
func (j *journal) conclude(err error) error {
	var coded *exit.Error
	if err == nil || errors.As(err, &coded) && coded.Err == nil {
		return err
	}
	if !j.request.JSON {
		return j.muted(err, coded)
	}
	if stop, is := errors.AsType[exit.Signal](err); is {
		code := stop.Code()
		j.note(note{Event: "stopped", Exit: &code, Message: stop.Error()})
		return stop
	}
	code := exit.Failure
	if coded != nil {
		code = coded.Code
	}
	n := note{Event: "failed", Exit: &code}
	if errors.Is(err, fairsem.ErrEvicted) {
		n.Reason = reasonEvicted
	}
	if later, is := errors.AsType[*fairsem.WaitError](err); is {
		n.RetryMS = later.RetryAfter.Milliseconds()
	}
	n.Message = strings.TrimPrefix(err.Error(), "fairsem: ")
	j.note(n)
	return &exit.Error{Code: code}
}

// muted returns only the exit code of an error that is not reported: a code of 0, because cron would send a mail, and
// with quiet an expected outcome.
func (j *journal) muted(err error, coded *exit.Error) error {
	var conflict conflictError // its code may be that of another error, too
	if coded != nil && (coded.Code == 0 || j.request.Quiet && (errors.As(err, &conflict) || coded.Code == exit.Lost)) {
		return &exit.Error{Code: coded.Code}
	}
	return err
}
