package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// finding is a promise that was broken, and what shows it.
type finding struct {
	Promise promise `json:"promise"`
	Shown   string  `json:"shown"`
}

// checks has a checker for each promise. It returns what shows that the promise was broken.
var checks = map[promise]func(*evidence) []string{
	onServer: func(e *evidence) []string { return e.monitor.over },
	held:     overLimit,
	linear:   noOrder,
	once:     func(e *evidence) []string { return e.monitor.twice },
	inOrder:  overtakes,
	tokens:   tokensOutOfOrder,
	alive:    deadOnArrival,
	told:     toldWrong,
	apart:    interferences,
	fenced:   fencedLoses,
	deadBack: deadUnits,
	returns:  lateReturns,
	works:    standstill,
	tidy:     func(e *evidence) []string { return e.litter },
}

// judge returns all that was found, promised or not, in the order of the promises.
func judge(e *evidence) []finding {
	var all []finding
	for _, p := range promises {
		for _, shown := range checks[p](e) {
			all = append(all, finding{p, shown})
		}
	}
	return all
}

// each collects the violations of all semaphores.
func (e *evidence) each(check func([]history.Grant, int64) []history.Violation) []string {
	var all []string
	for name, grants := range e.grants {
		for _, v := range check(grants, limitOf(name)) {
			all = append(all, name+": "+v.String())
		}
	}
	slices.Sort(all)
	return all
}

func overLimit(e *evidence) []string { return e.each(history.OverLimit) }

func overtakes(e *evidence) []string {
	return e.each(func(grants []history.Grant, _ int64) []history.Violation { return history.Overtakes(grants) })
}

func tokensOutOfOrder(e *evidence) []string {
	return e.each(func(grants []history.Grant, _ int64) []history.Violation {
		return append(history.TokensDecrease(grants), history.TokensRepeat(grants)...)
	})
}

// toldWrong has what the callers saw themselves, and losses that their holders could not have known of
// when the next were let in.
func toldWrong(e *evidence) []string {
	var all []string
	for _, c := range e.calls {
		if c.Wrong != "" {
			all = append(all, fmt.Sprintf("%s: %s: %s", c.Name, c.Wrong, c.Grant))
		}
	}
	return append(all, e.each(func(grants []history.Grant, limit int64) []history.Violation {
		return slices.DeleteFunc(history.OverLimit(grants, limit), func(v history.Violation) bool { return !v.Earlier.Lost })
	})...)
}

// deadOnArrival are permits that were over sooner after Acquire than they were promised to be good for, in
// a process that ran all the time, as far as it noticed.
func deadOnArrival(e *evidence) []string {
	var all []string
	for _, c := range e.calls {
		lived := time.Duration(c.Over - c.Granted)
		if c.Over == 0 || lived >= e.ttl/10-unnoticed || e.member(c.Process).stoodStill(c.Granted-int64(unnoticed), c.Over) > 0 {
			continue
		}
		all = append(all, fmt.Sprintf("%s: it was over %v after Acquire returned it, the TTL is %v: %s", c.Name, lived, e.ttl, c.Grant))
	}
	return all
}

// interferences are what a name has of another one: an id, a limit or, where a fault is about the one, trouble.
func interferences(e *evidence) []string {
	all := slices.Clone(e.monitor.mixed)
	for _, c := range e.calls {
		if seen := e.monitor.home[c.ID]; seen != "" && seen != c.Name {
			all = append(all, fmt.Sprintf("%s: seen at %s: %s", c.Name, seen, c.Grant))
		}
	}
	all = append(all, e.looks...)
	if e.run.fault.spares {
		all = append(all, e.disturbed(func(name string) bool { return name == asideName })...)
	}
	return all
}

// youth is how long a new server may take to grant at once: until it has been there for longer than a restart goes
// unseen, and for the grace after that.
const youth = 4 * time.Second

// disturbed are the calls for names of which nobody else has all units that did not get in at once, or lost
// what they had, though their process ran all the time.
func (e *evidence) disturbed(at func(name string) bool) []string {
	var all []string
	for _, c := range e.calls {
		m := e.member(c.Process)
		if !at(c.Name) || c.Returned == 0 || c.Asked < e.began+int64(youth) || m.killedAt() > 0 || c.Failure == context.Canceled.Error() {
			continue
		}
		took := time.Duration(c.Returned - c.Asked)
		switch {
		case took > slack+m.stoodStill(c.Asked, c.Returned):
			all = append(all, fmt.Sprintf("%s: it took %v: %s", c.Name, took, c.Grant))
		case c.Failure != "":
			all = append(all, fmt.Sprintf("%s: %s: %s", c.Name, c.Failure, c.Grant))
		case c.Lost && m.stoodStill(c.Granted, c.Over) == 0:
			all = append(all, fmt.Sprintf("%s: it was lost: %s", c.Name, c.Grant))
		}
	}
	return all
}

// fencedLoses also looks whether the unfenced twin loses what it should, or the fault was none.
func fencedLoses(e *evidence) []string {
	var all []string
	if lost := e.fenced.lost(); lost != 0 {
		all = append(all, fmt.Sprintf("the fenced store lost %d of %d writes", lost, e.fenced.writes))
	}
	if e.run.fault.control && e.naive.lost() == 0 {
		all = append(all, "the unfenced store lost nothing, so this run shows nothing")
	}
	return all
}

// The machine is busy with other things too; liveness gets that much more than is promised.
const slack = 700 * time.Millisecond

// deadUnits are what the server still had for a process that was killed longer ago than its TTL. Where there is room
// for everybody it may take its time.
func deadUnits(e *evidence) []string {
	var all []string
	of := e.processes()
	for id, seen := range e.monitor.holding {
		m := e.member(of[clientOf(id)])
		if m == nil || m.killedAt() == 0 || e.monitor.home[id] == asideName {
			continue
		}
		if after := time.Duration(seen - m.killedAt()); after > e.ttl+500*time.Millisecond+slack {
			all = append(all, fmt.Sprintf("%s of %s is there %v after it was killed, the TTL is %v", id, m.name, after, e.ttl))
		}
	}
	slices.Sort(all)
	return all
}

// lateReturns are calls of Acquire that came back long after the end of their context. The time for
// which the process stood still does not count.
func lateReturns(e *evidence) []string {
	var all []string
	for _, c := range e.calls {
		late := time.Duration(c.Returned - c.Patience)
		if c.Returned == 0 || late <= 50*time.Millisecond+slack {
			continue
		}
		if late -= e.member(c.Process).stoodStill(c.Patience, c.Returned); late > 50*time.Millisecond+slack {
			all = append(all, fmt.Sprintf("%s: Acquire returned %v after the end of its context: %s", c.Name, late, c.Grant))
		}
	}
	return all
}

// recovery is the longest time from the end of a strike to the next grant to somebody who asked; 0: there
// was no strike. Grants that came only after the load ended count as none.
func (e *evidence) recovery(name string) time.Duration {
	var granted []int64
	for _, c := range e.calls {
		if c.Name == name && c.Granted > 0 && c.Granted < e.ended {
			granted = append(granted, c.Granted)
		}
	}
	slices.Sort(granted)
	var worst time.Duration
	for i, s := range e.strikes {
		until := e.ended
		if i+1 < len(e.strikes) {
			until = e.strikes[i+1].began // what the next strike keeps from working is not this one's
		}
		if n, _ := slices.BinarySearch(granted, s.healed); n < len(granted) {
			until = min(until, granted[n])
		}
		worst = max(worst, time.Duration(until-s.healed))
	}
	return worst
}

// recovery is how long it may take after a strike until somebody gets in. Two seconds are promised, after
// the grace of a new server; what a process that died or stood still held takes a TTL.
func (f fault) recovery(o fairsem.Options) time.Duration {
	return 2*time.Second + max(o.Grace, time.Second) + o.TTL + slack
}

// standstill is when nobody got in for too long after a strike, or one who should have noticed nothing.
func standstill(e *evidence) []string {
	var all []string
	if e.run.fault.spares {
		all = e.disturbed(func(name string) bool { return strings.HasPrefix(name, ownPrefix) })
	}
	allowed := e.run.fault.recovery(fairsem.Options{TTL: e.ttl, Grace: e.run.fault.options.Grace})
	for _, name := range busy {
		if took := e.recovery(name); took > allowed {
			all = append(all, fmt.Sprintf("%s: no grant for %v after the trouble was over, %v are allowed", name, took, allowed))
		}
	}
	slices.Sort(all)
	return all
}

// noOrder asks porcupine for one order of everything that explains what everybody saw.
func noOrder(e *evidence) []string {
	var all []string
	for _, name := range []string{poolName, soloName, asideName, seatName} {
		switch porcupine.CheckOperationsTimeout(permits(limitOf(name)), operations(e.calls, name), porcupinePatience) {
		case porcupine.Illegal:
			all = append(all, name+": no order of grants and releases explains the history")
		case porcupine.Unknown:
			all = append(all, name+": porcupine did not come to an end: "+undecided)
		}
	}
	slices.Sort(all)
	return all
}
