package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/fairsem/fairsem/internal/history"
)

// call is one Acquire and its outcome. All times are those of [history.Now].
//
// From Granted to Released the permit was seen to be live: the worker read the clock first, and the context had no error after
// that. So if a process was stopped and its permit had ended when it continued, Released is before the stop. A permit that was dead
// on arrival has a token and no Granted: nobody knows when it was live.
type call struct {
	history.Grant
	Number    int64  `json:"number"`              // of the call in its process
	Of        int64  `json:"of,omitempty"`        // the number of the call that a record is about
	Name      string `json:"name"`                // of the semaphore
	Try       bool   `json:"try,omitempty"`       // TryAcquire
	Deadline  int64  `json:"deadline,omitempty"`  // when its context ends
	Returned  int64  `json:"returned,omitempty"`  // when Acquire returned; 0: it never did
	Failure   string `json:"failure,omitempty"`   // of Acquire
	Violation string `json:"violation,omitempty"` // the result that contradicted the documentation
	Ended     int64  `json:"ended,omitempty"`     // when the permit was seen to have ended before its release
	Awaited   bool   `json:"awaited,omitempty"`   // it was lost while its caller waited to be notified, and Released is when the caller noticed

	queued string // its id, also if it was never granted, once the records are joined
}

// arrive records whether the permit, which has this context, was live when the clock was read after Acquire: the process may have been
// stopped in between.
func (c *call) arrive(permit context.Context) {
	if permit.Err() == nil {
		c.Granted = c.Returned
	}
}

// stallName is the name of a record that is not a call: the process did not run from Asked to Returned, because a fault stopped it or
// because the machine was busy.
const stallName = "stall"

// queuedName is the name of a record that is not a call: at Asked the library reported that the call with the number Of is in the
// queue, with this ID.
const queuedName = "queued"

// journal is the file of one process. The process writes a line before and after each step, without a buffer, so the lines survive
// when it is killed.
type journal struct {
	mu  sync.Mutex
	out io.Writer
}

func (j *journal) write(c *call) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err = j.out.Write(append(line, '\n'))
	return err
}

// readJournal returns the last line of each call, in the order in which the calls began. It skips a last line without a newline,
// because the process was killed while it wrote that line.
func readJournal(path string) ([]*call, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it is only read
	var all []*call
	at := make(map[int64]int)
	for in := bufio.NewReader(file); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		c := &call{}
		if err == nil {
			err = json.Unmarshal(line, c)
		}
		if err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
		if i, known := at[c.Number]; known {
			all[i] = c
			continue
		}
		at[c.Number] = len(all)
		all = append(all, c)
	}
}
