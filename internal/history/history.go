// Package history records who held what and when, over any number of processes, and checks the record against the
// promises of the library.
//
// Every process writes a line when it is granted something and another right before it releases it. The checkers read all
// of them, and report only what cannot have happened under a library that keeps its promises, so each violation is a bug,
// in the library or in the recording. They say nothing about what was not recorded.
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

// Grant is one call of Acquire and what became of it. Times are nanoseconds of [Now], so that all
// processes of one machine can be compared, except where microseconds are mentioned.
type Grant struct {
	Process string `json:"process"`
	ID      string `json:"id"` // of the permit
	Weight  int64  `json:"weight"`
	Token   int64  `json:"token,omitempty"` // 0: never granted

	// Place is the position in the queue, in microseconds of the server's clock and without any head start; 0: unknown,
	// or granted without waiting. AskedWall is the caller's wall clock in microseconds when it called Acquire; 0:
	// unknown. Leave it 0 when the server has another clock.
	Place     int64 `json:"place,omitempty"`
	AskedWall int64 `json:"asked_wall,omitempty"`

	Asked    int64 `json:"asked"`              // before Acquire was called
	Granted  int64 `json:"granted,omitempty"`  // after Acquire returned the permit; 0: it did not
	Released int64 `json:"released,omitempty"` // before Release was called, or when it was lost; 0: still held

	Lost      bool `json:"lost,omitempty"`      // the permit ended without Release
	Cancelled bool `json:"cancelled,omitempty"` // the caller gave up waiting
}

// holds says whether there was an instant at which this grant counted against the limit.
func (g Grant) holds() bool {
	return g.Granted > 0 && (g.Released == 0 || g.Released > g.Granted)
}

// Writer writes grants as lines of JSON. It is safe for concurrent use.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
}

// NewWriter returns a Writer that hands every line to out in one Write, unbuffered: what was written
// survives the death of the process.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write adds a line. A grant may be written any number of times, the last line of an ID stands.
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

// Lines yields the grants as they were written, as they come. It ends with the first error, which
// comes with an empty Grant. A last line without its newline belongs to a process that died writing
// it and is left out.
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

// Read returns all grants, the last line of each ID, in the order in which the IDs came first. Lines
// without an ID, of calls that were never granted, all stay.
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

// Died ends, at the given time of [Now], what a process still held when it was killed. It changes
// grants in place.
func Died(grants []Grant, process string, at int64) {
	for i := range grants {
		g := &grants[i]
		if g.Process == process && g.Granted > 0 && g.Released == 0 {
			g.Released, g.Lost = at, true
		}
	}
}
