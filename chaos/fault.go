package main

import (
	"slices"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
)

// promise is one of the library's, as far as a checker here can see it broken.
type promise string

const (
	onServer promise = "S1" // at most the limit is held on the server
	held     promise = "S2" // and, by the contexts of the permits, in all processes together
	linear   promise = "S3" // there is one order of all grants and releases that explains what everybody saw
	once     promise = "S4" // an id holds once, or waits once
	inOrder  promise = "S5" // whose place was confirmed before another asked is served first
	tokens   promise = "S6" // tokens increase, and no two are the same
	alive    promise = "S7" // a permit is good for a tenth of its TTL when Acquire returns it
	told     promise = "S8" // the loss of a permit is told as documented, before the next is let in
	apart    promise = "S9" // names never interfere
	fenced   promise = "FE" // a store that refuses old tokens loses no write
	deadBack promise = "V1" // what a killed process held is free a TTL and half a second later
	returns  promise = "V4" // Acquire returns soon after the end of its context
	works    promise = "V5" // when the trouble is over, grants go on
	tidy     promise = "V7" // what nobody uses any more expires soon
)

// promises has all of them, in the order of the documentation.
var promises = []promise{onServer, held, linear, once, inOrder, tokens, alive, told, apart, fenced, deadBack, returns, works, tidy}

// fault is one kind of trouble.
type fault struct {
	name    string
	kind    string // of the servers
	options fairsem.Options
	deaf    bool                // no wake message arrives all the time
	not     []promise           // that do not hold under it, and why is said in the README
	control bool                // the unfenced store has to lose a write, or the run proves nothing
	forgets bool                // the server may forget what it has not confirmed yet
	least   time.Duration       // that a run has to last, for strikes that take their time
	rest    time.Duration       // the longest additional pause between strikes
	onCall  int                 // so many processes ask for the seat when the fault says so
	spares  bool                // whoever uses another name than the pool and solo should notice nothing
	keeping fairsem.CallOptions // of those who hold for long
	heavy   bool                // those who hold for long have weights
	smoke   bool                // part of the selection for make test
	strike  func(*arena) (string, error)
}

// holds reports whether the library promises that under this fault.
func (f fault) holds(p promise) bool { return !slices.Contains(f.not, p) }

// slug is the name for a file.
func (f fault) slug() string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '+' {
			return r
		}
		return '-'
	}, strings.ToLower(f.name+"-"+f.kind))
}

// faults has all of them, in the order of the table.
func faults() []fault {
	return slices.Concat(workerFaults(), serverFaults(), networkFaults(), commandFaults(), dataFaults(), wakeFaults(), clockFaults(),
		clusterFaults(), sentinelFaults(), identityFaults())
}
