package doctor

import (
	"fmt"
	"time"

	"github.com/fairsem/fairsem/internal/failure"
)

// State is how a check came out.
type State string

// Results of a check.
const (
	OK   State = "ok"
	Warn State = "warn" // works, but needs attention
	Fail State = "fail" // does not work, or not as promised
	Skip State = "skip" // could not be checked
)

// Finding is the result of a check.
type Finding struct {
	Check   string         `json:"name"`
	State   State          `json:"state"`
	Message string         `json:"message"`
	Advice  string         `json:"advice,omitempty"` // what to do
	Details map[string]any `json:"details,omitempty"`

	final bool // later checks make no sense
}

// Report is all that was found.
type Report struct {
	Server string          `json:"server"`
	Checks []Finding       `json:"checks"`
	Count  map[State]int64 `json:"count"`
}

// Add takes another finding.
func (r *Report) Add(f Finding) {
	if r.Count == nil {
		r.Count = map[State]int64{OK: 0, Warn: 0, Fail: 0, Skip: 0}
	}
	r.Checks = append(r.Checks, f)
	r.Count[f.State]++
}

func ok(format string, args ...any) Finding {
	return Finding{State: OK, Message: fmt.Sprintf(format, args...)}
}

func warn(message, advice string) Finding {
	return Finding{State: Warn, Message: message, Advice: advice}
}

func fail(message, advice string) Finding {
	return Finding{State: Fail, Message: message, Advice: advice}
}

func skip(format string, args ...any) Finding {
	return Finding{State: Skip, Message: fmt.Sprintf(format, args...)}
}

// last makes f the end of the examination.
func last(f Finding) Finding {
	f.final = true
	return f
}

// of makes f that of another check than the one that found it.
func (f Finding) of(check string) Finding {
	f.Check = check
	return f
}

// with adds a detail for programs.
func (f Finding) with(name string, value any) Finding {
	if f.Details == nil {
		f.Details = make(map[string]any)
	}
	f.Details[name] = value
	return f
}

// notChecked is for an error of a server where a result was expected. A server that does not answer at all ends the
// examination.
func notChecked(err error, right string) Finding {
	switch {
	case failure.Denied(err):
		return skip("not checked: this user lacks %s", right)
	case failure.IsReply(err):
		return skip("not checked: %v", failure.Discreet(err))
	}
	return last(fail(fmt.Sprintf("no answer any more: %v", failure.Discreet(err)), "check that the server runs, and the network between"))
}

// atLeast is a time like short that is no shorter than d.
func atLeast(d time.Duration) time.Duration {
	if rounded := short(d); rounded >= d {
		return rounded
	}
	return short(d + d/20)
}

// short is a time with the digits that matter.
func short(d time.Duration) time.Duration {
	switch {
	case d.Abs() >= 10*time.Second:
		return d.Round(time.Second)
	case d.Abs() >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d.Abs() >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
