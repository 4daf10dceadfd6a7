// Package history records the permits that any number of processes held, and when. It checks the record against the promises
// of the library.
//
// Every process writes a line when it is granted a permit, and another one right before it releases it. The checkers read the
// lines of all processes. They report only events that are impossible if the library keeps its promises. So each violation is a bug,
// in the library or in the recording. The checkers cannot see unrecorded events.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
)

// Grant is one call of Acquire and its outcome. Times are nanoseconds of [Now] unless a comment says microseconds, so the times
// of all processes on one machine can be compared.
type Grant struct {
	Process string `json:"process"`
	ID      string `json:"id"` // of the permit
	Weight  int64  `json:"weight"`
	Token   int64  `json:"token,omitempty"` // 0: never granted

	// Position is the position in the queue, in microseconds of the server's clock and without any head start. It is 0 if
	// it is unknown, or if the call was granted without waiting. AskedWall is the caller's wall clock in microseconds when
	// it called Acquire. It is 0 if unknown; leave it 0 if the server has another clock.
	Position  int64 `json:"position,omitempty"`
	AskedWall int64 `json:"asked_wall,omitempty"`

	// Tenant, Share and TenantLimit are those of the call. Share 0 counts as 1, and TenantLimit 0 as no limit.
	Tenant      string `json:"tenant,omitempty"`
	Share       int64  `json:"share,omitempty"`
	TenantLimit int64  `json:"tenant_limit,omitempty"`

	// Numbered says that the call asked for numbers, and Numbers are those of the permit.
	Numbered bool    `json:"numbered,omitempty"`
	Numbers  []int64 `json:"numbers,omitempty"`

	Asked    int64 `json:"asked"`              // before Acquire was called
	Granted  int64 `json:"granted,omitempty"`  // after Acquire returned the permit; 0: it returned none, or one that had ended
	Released int64 `json:"released,omitempty"` // before Release was called, or when it was lost; 0: still held
	Done     int64 `json:"done,omitempty"`     // after which it certainly holds nothing on the server, such as after Release; 0: unknown
	Left     int64 `json:"left,omitempty"`     // until when the call certainly waited in the queue; 0: unknown

	Lost      bool `json:"lost,omitempty"`      // the permit ended without Release
	Cancelled bool `json:"cancelled,omitempty"` // the caller stopped waiting
}

// holds reports whether there was an instant at which this grant counted against the limit.
func (g Grant) holds() bool {
	return g.Granted > 0 && (g.Released == 0 || g.Released > g.Granted)
}

// Writer writes grants as lines of JSON. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
}

// NewWriter returns a Writer that passes every line to out in one Write. It buffers nothing, so the lines survive a crash of
// the process.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write adds a line. A grant may be written any number of times: the last line of an ID counts.
func (w *Writer) Write(g Grant) error {
	line, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(line, '\n'))
	return err
}

// Lines yields the grants in the order of the lines. It stops at the first error, which it yields with an empty Grant. A last
// line without a newline was written by a process that died meanwhile. Lines skips it.
func Lines(in io.Reader) iter.Seq2[Grant, error] {
	return func(yield func(Grant, error) bool) {
		buffered := bufio.NewReader(in)
		for n := 1; ; n++ {
			line, err := buffered.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				return
			}
			var g Grant
			if err == nil {
				err = json.Unmarshal(line, &g)
			}
			if err != nil {
				yield(Grant{}, fmt.Errorf("history: line %d: %w", n, err))
				return
			}
			if !yield(g, nil) {
				return
			}
		}
	}
}

// Read returns the last line of each ID, in the order in which the IDs first appear. Calls that were never granted have no ID:
// all their lines are returned.
func Read(in io.Reader) ([]Grant, error) {
	var all []Grant
	at := make(map[string]int)
	for g, err := range Lines(in) {
		if err != nil {
			return nil, err
		}
		i, known := at[g.ID]
		if known && g.ID != "" {
			all[i] = g
			continue
		}
		at[g.ID] = len(all)
		all = append(all, g)
	}
	return all, nil
}

// Died ends the permits that a process still held when it was killed, at the given time of [Now]. One that was granted later, before
// the process ended, was held for no time. It changes grants in place.
func Died(grants []Grant, process string, at int64) {
	for i := range grants {
		g := &grants[i]
		if g.Process == process && g.Granted > 0 && g.Released == 0 {
			g.Released, g.Lost = max(at, g.Granted), true
		}
	}
}
