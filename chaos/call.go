package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/fairsem/fairsem/internal/history"
)

// call is one Acquire and what became of it. All times are those of [history.Now].
//
// Granted to Released is the time for which the permit was seen to be live: the clock was read first,
// and the context said nil after that. So a process that was stopped and found its permit over when it
// went on has a Released from before the stop, whatever happened meanwhile.
type call struct {
	history.Grant
	Number   int64  `json:"number"`             // of the call in its process
	Name     string `json:"name"`               // of the semaphore
	Try      bool   `json:"try,omitempty"`      // TryAcquire
	Patience int64  `json:"patience,omitempty"` // when its context ends
	Returned int64  `json:"returned,omitempty"` // when Acquire did; 0: it never did
	Failure  string `json:"failure,omitempty"`  // of Acquire
	Done     int64  `json:"done,omitempty"`     // when Release had succeeded; 0: it did not, or nobody knows
	Wrong    string `json:"wrong,omitempty"`    // what the caller itself saw to be against the documentation
	Over     int64  `json:"over,omitempty"`     // when the permit was seen to be over, before its release
	Awaited  bool   `json:"awaited,omitempty"`  // it was lost, and Released is when Done told so, unasked
}

// stallName is the name of a call that is none: its process did not get to run from Asked to Returned,
// though nobody stopped it. A busy machine does that.
const stallName = "stall"

// queuedName is the name of a call that is none: the library told at Asked that the call with this ID stands in line.
const queuedName = "queued"

// journal is the file of one process. A line is written before and after each step, unbuffered, so what
// a process saw survives its death.
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

// readJournal returns the last line of each call, in the order in which the calls began. A last line
// without its newline belongs to a process that died writing it.
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
