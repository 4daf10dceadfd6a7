package main

import "time"

// The bench and its worker processes exchange lines of JSON over the worker's standard input and output. node/worker.mjs uses
// the same protocol.
//
//	bench   job       what to do
//	worker  hello     connected and warmed up
//	bench   window    when to do it
//	worker  outcome   the result
//
// After that the worker waits for the end of its input before it closes its connections, so that closing them is not measured.

// job is the task of a worker process. Times are nanoseconds.
type job struct {
	Contender  string `json:"contender"`
	Addr       string `json:"addr"`
	Key        string `json:"key"`        // names begin with it
	Process    int    `json:"process"`    // which of the workers this is
	Goroutines int    `json:"goroutines"` // that call independently
	Names      int    `json:"names"`      // that the goroutines share; 0: each has its own
	Limit      int64  `json:"limit"`      // of each name; locks ignore it

	Per time.Duration `json:"per"` // the window of a rate limit; 0: not a rate limit

	Hold    time.Duration `json:"hold"`    // between the grant and the release
	Pause   time.Duration `json:"pause"`   // between the release and the next call
	Calls   int           `json:"calls"`   // of each goroutine; 0: as many as the window allows
	Journal bool          `json:"journal"` // record every call instead of the duration of pairs
	TTL     time.Duration `json:"ttl"`     // of fairsem; 0: the default
}

// hello reports that a worker is ready.
type hello struct {
	Versions map[string]string `json:"versions,omitempty"` // of software that is not part of the bench binary
}

// window is the time in which to make calls, in nanoseconds of [history.Now]. No call begins after End, but calls that wait at that
// time are finished, so that long waits count. After waitTimeout they are cancelled.
type window struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

func (w window) seconds() float64 { return float64(w.End-w.Start) / 1e9 }

const waitTimeout = 5 * time.Second

// outcome is the result of a worker.
type outcome struct {
	Calls    int      `json:"calls"`    // that were granted and released, also after the window
	Pairs    []int64  `json:"pairs"`    // the duration of each acquire and release together, in ns, if it ended within the window
	Records  []record `json:"records"`  // if job.Journal is set
	Failures int      `json:"failures"` // calls that failed or were cancelled
	Failure  string   `json:"failure"`  // the first failure
}

// record is one call: when it began, when it was granted, when its release began, by the common clock, and the fencing token. If
// granted is 0, the call was cancelled at the time of released. If token is 0, the contender has no tokens.
type record [4]int64

func (v record) asked() int64    { return v[0] }
func (v record) granted() int64  { return v[1] }
func (v record) released() int64 { return v[2] }
func (v record) token() int64    { return v[3] }

// waited returns how long the call waited until it was granted or cancelled.
func (v record) waited() int64 {
	if v.granted() == 0 {
		return v.released() - v.asked()
	}
	return v.granted() - v.asked()
}
