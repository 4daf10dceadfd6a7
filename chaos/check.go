package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// finding is a broken promise and how it was broken.
type finding struct {
	Promise promise `json:"promise"`
	Detail  string  `json:"detail"`
}

// checks contains the checker of each promise. A checker returns a description of each violation.
var checks = map[promise]func(*evidence) []string{
	limitOnServer:  func(e *evidence) []string { return e.monitor.limitBroken() },
	limitByContext: overLimit,
	oneOrder:       notLinearizable,
	oneState:       twoStates,
	fifo:           overtakes,
	tokensIncrease: tokensOutOfOrder,
	liveOnArrival:  deadOnArrival,
	lossReported:   wrongReports,
	namesSeparate:  interference,
	fairShares:     unfairGrants,
	ownNumbers:     sharedNumbers,
	numbersFence:   numbersOutOfOrder,
	fencing:        lostWrites,
	deadReleased:   unitsOfKilled,
	heardInTime:    lateNews,
	acquireReturns: lateReturns,
	grantsResume:   noProgress,
	keysExpire:     func(e *evidence) []string { return e.leftovers },
}

// check returns all violations in the order of the promises, also those of promises that the fault exempts.
func check(e *evidence) []finding {
	var all []finding
	for _, p := range promises {
		for _, shown := range checks[p](e) {
			all = append(all, finding{p, shown})
		}
	}
	return all
}

// each returns the violations of all semaphores.
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
	return e.each(func(grants []history.Grant, _ int64) []history.Violation {
		return slices.DeleteFunc(history.Overtakes(grants), e.mayBeLost)
	})
}

// lateRead is how long after a server was killed a process on a busy machine may read the replies that it had sent before.
const lateRead = 500 * time.Millisecond

// mayBeLost reports whether the call that was overtaken may have been granted first, by a server that was killed before it could send that
// and has lost it. Then it waits again, and the other grant is known.
func (e *evidence) mayBeLost(v history.Violation) bool {
	return e.run.fault.losesState && slices.ContainsFunc(e.strikes, func(s strike) bool {
		return s.began-int64(lateRead) < v.Later.Granted && v.Later.Granted < s.began+int64(lateRead) && s.began < v.Earlier.Granted
	})
}

// twoStates returns the ids that held and waited at once, and those that held although their release had been confirmed: it freed nothing, or a
// copy of their acquire was granted within the TTL for which a tombstone stays.
func twoStates(e *evidence) []string {
	all := slices.Clone(e.monitor.bothStates)
	if e.run.fault.losesState {
		return all
	}
	for _, c := range e.calls {
		seen, again := e.monitor.holding[c.ID], e.monitor.again[c.ID]
		if c.Done > 0 && seen > c.Done && (again == 0 || again < c.Done+int64(e.ttl)) {
			all = append(all, fmt.Sprintf("%s: it holds %v after its release: %s", c.Name, time.Duration(seen-c.Done), c.Grant))
		}
	}
	return all
}

func tokensOutOfOrder(e *evidence) []string {
	return e.each(func(grants []history.Grant, _ int64) []history.Violation {
		return append(history.TokensDecrease(grants), history.TokensRepeat(grants)...)
	})
}

// unfairGrants returns the grants that were another tenant's turn or exceeded the limit of a tenant. If the fault does not concern the
// name that tenants share, it also returns units that were free while a call that could have had them waited, and grants to one of
// two tenants that held equally much when it was the turn of the other.
func unfairGrants(e *evidence) []string {
	all := e.each(func(grants []history.Grant, _ int64) []history.Violation {
		return append(history.Unfair(grants), history.OverTenantLimit(grants)...)
	})
	if !e.run.fault.sparesOthers {
		return all
	}
	shared := e.grants[sharedName]
	for _, v := range append(history.Withheld(shared, sharedLimit), history.OutOfTurn(shared)...) {
		if v.Earlier.Position > e.began+int64(settleTime) {
			all = append(all, sharedName+": "+v.String())
		}
	}
	return all
}

// sharedNumbers returns the permits that had the number of another one, on the server or by their contexts,
// and those whose numbers cannot be.
func sharedNumbers(e *evidence) []string {
	return append(slices.Clone(e.monitor.sameNumber), e.each(func(grants []history.Grant, limit int64) []history.Violation {
		return append(history.NumbersRepeat(grants), history.WrongNumbers(grants, limit)...)
	})...)
}

func numbersOutOfOrder(e *evidence) []string {
	return e.each(func(grants []history.Grant, _ int64) []history.Violation {
		return history.TokensOfNumberDecrease(grants)
	})
}

// wrongReports returns the violations that callers recorded themselves, and the losses that were reported only after the next
// grant.
func wrongReports(e *evidence) []string {
	var all []string
	for _, c := range e.calls {
		if c.Violation != "" {
			all = append(all, fmt.Sprintf("%s: %s: %s", c.Name, c.Violation, c.Grant))
		}
	}
	return append(all, e.each(func(grants []history.Grant, limit int64) []history.Violation {
		return slices.DeleteFunc(history.OverLimit(grants, limit), func(v history.Violation) bool { return !v.Earlier.Lost })
	})...)
}

// deadOnArrival returns the permits that ended sooner after Acquire than promised. It skips processes that did not run all the
// time, as far as they noticed.
func deadOnArrival(e *evidence) []string {
	var all []string
	for _, c := range e.calls {
		lived := time.Duration(c.Ended - c.Returned)
		if c.Ended == 0 || lived >= e.ttl/10-minStall || e.process(c.Process).stalledFor(c.Returned-int64(minStall), c.Ended) > 0 {
			continue
		}
		all = append(all, fmt.Sprintf("%s: it ended %v after Acquire returned it, the TTL is %v: %s", c.Name, lived, e.ttl, c.Grant))
	}
	return all
}

// interference returns the effects of one name on another one: an id, a limit or, if a fault concerns the one name only, a failure. It
// also returns the ids of more than one permit.
func interference(e *evidence) []string {
	all := slices.Clone(e.monitor.wrongName)
	granted := make(map[string]*call) // by id
	for _, c := range e.calls {
		if first := granted[c.ID]; first != nil {
			all = append(all, fmt.Sprintf("%s: %s, whose id another call has at %s: %s", c.Name, c.Grant, first.Name, first.Grant))
		} else if c.ID != "" {
			granted[c.ID] = c
		}
		if seen := e.monitor.nameOf[c.ID]; seen != "" && seen != c.Name {
			all = append(all, fmt.Sprintf("%s: seen at %s: %s", c.Name, seen, c.Grant))
		}
	}
	all = append(all, e.observed...)
	if e.run.fault.sparesOthers {
		all = append(all, e.disturbed(func(name string) bool { return name == asideName })...)
	}
	return all
}

// settleTime is how long after its start a server may delay grants: until it has run for longer than a restart may stay
// unnoticed, plus the grace period.
const settleTime = 4 * time.Second

// disturbed returns the calls that were not granted at once although units were free, and those that lost their permit, if their
// process ran all the time.
func (e *evidence) disturbed(at func(name string) bool) []string {
	var all []string
	for _, c := range e.calls {
		proc := e.process(c.Process)
		if !at(c.Name) || c.Returned == 0 || c.Asked < e.began+int64(settleTime) || proc.killedAt() > 0 || c.Failure == context.Canceled.Error() {
			continue
		}
		took := time.Duration(c.Returned - c.Asked)
		switch {
		case took > slack+proc.stalledFor(c.Asked, c.Returned):
			all = append(all, fmt.Sprintf("%s: it took %v: %s", c.Name, took, c.Grant))
		case c.Failure != "":
			all = append(all, fmt.Sprintf("%s: %s: %s", c.Name, c.Failure, c.Grant))
		case c.Lost && proc.stalledFor(c.Returned, c.Ended) == 0:
			all = append(all, fmt.Sprintf("%s: it was lost: %s", c.Name, c.Grant))
		}
	}
	return all
}

// lostWrites returns the loss of writes in the fenced store. It also checks that the unfenced store loses writes if it should, and that
// the tokens of slots without the numbers would have refused holders; otherwise the fault had no effect.
func lostWrites(e *evidence) []string {
	var all []string
	for i, c := range e.counters {
		if lost := c.fenced.lost(); lost != 0 {
			all = append(all, fmt.Sprintf("the fenced store lost %d of %d writes of %s", lost, c.fenced.writes, counterName(i)))
		}
	}
	if !e.run.fault.control {
		return all
	}
	if e.counters[0].unfenced.lost() == 0 {
		all = append(all, "the unfenced store lost no write of solo, so this run proves nothing")
	}
	if unfencedLost(e.counters[1:]) == 0 {
		all = append(all, "the unfenced store lost no write of slots, so this run proves nothing")
	}
	if e.common == 0 {
		all = append(all, "one token for all of slots would have refused no holder, so the numbers prove nothing")
	}
	return all
}

// counterName names the semaphore, or the numbered unit of one, that guards a counter of the store.
func counterName(i int) string {
	if i == 0 {
		return soloName
	}
	return fmt.Sprintf("%s, number %d", slotsName, i-1)
}

// unfencedLost returns how many writes the unfenced copies lost.
func unfencedLost(counters []counter) (lost int64) {
	for _, c := range counters {
		lost += c.unfenced.lost()
	}
	return lost
}

// slack is how much more time the liveness checks allow than is promised, because the machine is busy.
const slack = 700 * time.Millisecond

// deadTime is how long after its end the server may still have permits of a process.
func deadTime(ttl time.Duration) time.Duration { return ttl + 500*time.Millisecond + slack }

// unitsOfKilled returns the permits that the server still had for a process that was killed more than a TTL ago. It skips the
// semaphore that has room for all calls, because there the server may remove them later.
func unitsOfKilled(e *evidence) []string {
	var all []string
	of := e.clientProcesses()
	for id, seen := range e.monitor.holding {
		proc := e.process(of[clientOf(id)])
		if proc == nil || proc.killedAt() == 0 || e.monitor.nameOf[id] == asideName {
			continue
		}
		if after := time.Duration(seen - proc.killedAt()); after > deadTime(e.ttl) {
			all = append(all, fmt.Sprintf("%s of %s still holds %v after its process was killed, the TTL is %v", id, proc.name, after, e.ttl))
		}
	}
	slices.Sort(all)
	return all
}

// noticeTime is how long a grant may take to reach its caller, where no message arrives.
func noticeTime(ttl time.Duration) time.Duration { return ttl/3 + 500*time.Millisecond + slack }

// lateNews returns the calls that learned too late that the server had granted them a permit, or never, under the faults that touch nothing but
// messages. The time for which the process did not run does not count.
func lateNews(e *evidence) []string {
	if !e.run.fault.onlyMessages {
		return nil
	}
	var all []string
	for _, c := range e.calls {
		first, known := e.monitor.first[c.queued], cmp.Or(c.Granted, c.Returned)
		if first == 0 || known == 0 {
			continue
		}
		if late := time.Duration(known-first) - e.process(c.Process).stalledFor(first, known); late > noticeTime(e.ttl) {
			all = append(all, fmt.Sprintf("%s: its caller heard of the grant %v later: %s", c.Name, late, c.Grant))
		}
	}
	return all
}

// lateReturns returns the calls of Acquire that returned too long after the end of their context. The time for which the process
// did not run does not count.
func lateReturns(e *evidence) []string {
	var all []string
	for _, c := range e.calls {
		late := time.Duration(c.Returned - c.Deadline)
		if c.Returned == 0 || late <= 50*time.Millisecond+slack {
			continue
		}
		if late -= e.process(c.Process).stalledFor(c.Deadline, c.Returned); late > 50*time.Millisecond+slack {
			all = append(all, fmt.Sprintf("%s: Acquire returned %v after the end of its context: %s", c.Name, late, c.Grant))
		}
	}
	return all
}

// recovery returns the longest time from the healing of a strike to the next grant, or to the next strike, or 0 without a strike; and
// whether there was a grant after the last one. Grants after the end of the load do not count.
func (e *evidence) recovery(name string) (worst time.Duration, again bool) {
	var granted []int64
	for _, c := range e.calls {
		if c.Name == name && c.Granted > 0 && c.Granted < e.ended {
			granted = append(granted, c.Granted)
		}
	}
	slices.Sort(granted)
	again = true
	for i, s := range e.strikes {
		until := e.ended
		if i+1 < len(e.strikes) {
			until = e.strikes[i+1].began // a grant that the next strike delays does not count for this one
		}
		n, _ := slices.BinarySearch(granted, s.healed)
		if again = n < len(granted); again {
			until = min(until, granted[n])
		}
		worst = max(worst, time.Duration(until-s.healed))
	}
	return worst, again
}

// recovery returns how long the first grant after a strike may take. Two seconds are promised, after the grace period of a new
// server. The units of a killed or stopped process are free after a TTL.
func (f fault) recovery(o fairsem.Options) time.Duration {
	return 2*time.Second + max(o.Grace, time.Second) + o.TTL + slack
}

// noProgress returns the semaphores without a grant for too long after a strike. It also returns calls that were delayed although
// the fault does not concern them.
func noProgress(e *evidence) []string {
	var all []string
	if e.run.fault.sparesOthers {
		all = e.disturbed(func(name string) bool { return strings.HasPrefix(name, ownPrefix) })
	}
	allowed := e.run.fault.recovery(fairsem.Options{TTL: e.ttl, Grace: e.run.fault.options.Grace})
	for _, name := range contended {
		if took, again := e.recovery(name); took > allowed || !again {
			all = append(all, fmt.Sprintf("%s: no grant for %v after the strike had healed, at most %v is allowed", name, took, allowed))
		}
	}
	slices.Sort(all)
	return all
}

// notLinearizable returns the semaphores for which porcupine finds no order of all grants and releases that explains the history.
func notLinearizable(e *evidence) []string {
	var all []string
	for _, name := range []string{poolName, soloName, asideName, seatName, slotsName} {
		switch porcupine.CheckOperationsTimeout(permits(limitOf(name)), operations(e.calls, name), porcupineTimeout) {
		case porcupine.Illegal:
			all = append(all, name+": no order of grants and releases explains the history")
		case porcupine.Unknown:
			all = append(all, name+": porcupine did not finish: "+undecided)
		}
	}
	slices.Sort(all)
	return all
}
