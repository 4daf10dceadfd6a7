package main

import "time"

// What the bench and its worker processes say to each other: lines of JSON over the worker's standard
// input and output. node/worker.mjs speaks it too.
//
//	bench   job       what to do
//	worker  hello     connected and warmed up
//	bench   window    when
//	worker  outcome   what came of it
//
// Then the worker waits for the end of its input before it closes its connections: what that costs
// Redis is no part of the measurement.

// job is what a worker process is told. Times are nanoseconds.
type job struct {
	Contender  string `json:"contender"`
	Addr       string `json:"addr"`
	Key        string `json:"key"`        // names begin with it
	Process    int    `json:"process"`    // which of the workers this is
	Goroutines int    `json:"goroutines"` // that call independently
	Names      int    `json:"names"`      // that they share; 0: a name each
	Limit      int64  `json:"limit"`      // of each name; locks have no choice

	Per time.Duration `json:"per"` // of a limit in time: so many in any window of this length; 0: it is none

	Hold    time.Duration `json:"hold"`    // between the grant and the release
	Pause   time.Duration `json:"pause"`   // between the release and the next call
	Calls   int           `json:"calls"`   // of each goroutine; 0: as many as the window allows
	Journal bool          `json:"journal"` // write down every visit instead of how long pairs take
	TTL     time.Duration `json:"ttl"`     // of fairsem; 0: its default
}

// hello says that a worker is ready.
type hello struct {
	Versions map[string]string `json:"versions,omitempty"` // of what is not in the bench binary
}

// window is when to work, in nanoseconds of [history.Now]. Nobody asks after End, but whoever waits
// then is waited for: the long waits are not cut off. Who does not get in within patience gives up.
type window struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
}

func (w window) seconds() float64 { return float64(w.End-w.Start) / 1e9 }

const patience = 5 * time.Second

// outcome is what a worker saw.
type outcome struct {
	Calls    int     `json:"calls"`    // that were granted and given back, also after the window
	Pairs    []int64 `json:"pairs"`    // ns that each acquire and release took together, of those that ended within the window
	Visits   []visit `json:"visits"`   // if the job wants a journal
	Failures int     `json:"failures"` // calls that failed, or gave up
	Failure  string  `json:"failure"`  // the first
}

// visit is one call: when it asked, was granted and began to give back, by the common clock, and the
// fencing token. Granted 0: it gave up at the time of Released. Token 0: the contender has none.
type visit [4]int64

func (v visit) asked() int64    { return v[0] }
func (v visit) granted() int64  { return v[1] }
func (v visit) released() int64 { return v[2] }
func (v visit) token() int64    { return v[3] }

// wait is how long the call took to be granted, or was left without.
func (v visit) wait() int64 {
	if v.granted() == 0 {
		return v.released() - v.asked()
	}
	return v.granted() - v.asked()
}
