package main

import (
	"slices"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
)

// promise is a promise of the library that a checker can find broken.
type promise string

const (
	limitOnServer  promise = "S1"  // the units in use on the server do not exceed the limit
	limitByContext promise = "S2"  // nor, by the contexts of the permits, in all processes together
	oneOrder       promise = "S3"  // one order of all grants and releases explains the observations of all processes
	oneState       promise = "S4"  // an id holds once or waits once
	fifo           promise = "S5"  // a call whose position was confirmed before another call began is granted first
	tokensIncrease promise = "S6"  // tokens increase, and no two are equal
	liveOnArrival  promise = "S7"  // a permit is live for at least a tenth of its TTL after Acquire returns it
	lossReported   promise = "S8"  // the loss of a permit is reported as documented, before the next grant
	namesSeparate  promise = "S9"  // names never interfere, and no two permits have the same id
	fencing        promise = "FE"  // a store that refuses old tokens loses no write
	fairShares     promise = "S12" // tenants share a limit fairly
	ownNumbers     promise = "S13" // no two holders have the same number at the same time
	numbersFence   promise = "S14" // the tokens of each number increase
	deadReleased   promise = "V1"  // the units of a killed process are free a TTL and half a second later
	heardInTime    promise = "V2"  // a grant reaches its caller within a third of a TTL and half a second, even if no message arrives
	acquireReturns promise = "V4"  // Acquire returns soon after the end of its context
	grantsResume   promise = "V5"  // after a strike, calls are granted again
	keysExpire     promise = "V7"  // keys that are no longer used expire soon
)

// promises contains all promises in the order of the documentation.
var promises = []promise{limitOnServer, limitByContext, oneOrder, oneState, fifo, tokensIncrease, liveOnArrival, lossReported, namesSeparate, fairShares, ownNumbers, numbersFence, fencing, deadReleased, heardInTime, acquireReturns, grantsResume, keysExpire}

// fault is one kind of failure.
type fault struct {
	name         string
	kind         string // of servers
	options      fairsem.Options
	noMessages   bool                // no wake message ever arrives
	onlyMessages bool                // it touches no process, no server and no connection
	exempt       []promise           // not promised under this fault; README.md says why
	control      bool                // the unfenced store must lose writes of solo and of slots, otherwise the run proves nothing
	losesState   bool                // the server may lose writes that it has not confirmed yet
	minLength    time.Duration       // of a run, for strikes that take long
	maxPause     time.Duration       // the longest additional pause between two strikes
	onCall       int                 // the number of processes that acquire the seat when a strike requests it
	sparesOthers bool                // the fault must not affect names other than the one it strikes
	longOptions  fairsem.CallOptions // of callers that hold for long
	longWeights  bool                // callers that hold for long have weights
	smoke        bool                // part of the selection of -smoke
	strike       func(*environment) (string, error)
}

// promises reports whether the library promises p under this fault.
func (f fault) promises(p promise) bool { return !slices.Contains(f.exempt, p) }

// slug returns the name of the fault and its servers as a file name.
func (f fault) slug() string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '+' {
			return r
		}
		return '-'
	}, strings.ToLower(f.name+"-"+f.kind))
}

// faults returns all faults in the order of the table.
func faults() []fault {
	return slices.Concat(workerFaults(), serverFaults(), networkFaults(), commandFaults(), dataFaults(), wakeFaults(), clockFaults(),
		clusterFaults(), sentinelFaults(), identityFaults())
}
