package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/history"
)

// soloCall returns a call of the solo semaphore that was granted and released. Times are in milliseconds.
func soloCall(process, id string, token, asked, granted, released int64) *call {
	const ms = int64(time.Millisecond)
	c := &call{Name: soloName, Returned: granted * ms, Deadline: (asked + 60_000) * ms}
	c.Grant = history.Grant{Process: process, ID: id, Weight: 1, Token: token, Asked: asked * ms, Granted: granted * ms, Released: released * ms, Done: (released + 1) * ms}
	return c
}

// evidenceOf returns evidence of calls by the processes a and b. b was killed after a second.
func evidenceOf(calls ...*call) *evidence {
	e := &evidence{
		ttl: time.Second, calls: calls, ended: int64(time.Minute),
		processes: []*process{{name: "a"}, {name: "b", killed: int64(time.Second)}},
		monitor:   newMonitor(nil),
	}
	e.monitor.reads = 1
	e.join()
	return e
}

// strickenEvidence returns evidence of a strike after which only these names are granted something.
func strickenEvidence(names ...string) *evidence {
	var calls []*call
	for _, name := range names {
		c := soloCall("a", name+":1", 10, 2001, 2002, 2003)
		c.Name = name
		calls = append(calls, c)
	}
	e := evidenceOf(calls...)
	e.strikes = []strike{{"trouble", int64(time.Second), int64(2 * time.Second), int64(2 * time.Second)}}
	return e
}

// sharedEvidence returns evidence, from a number of milliseconds on, of a tenant that holds two units and is granted a third
// while another one waits.
func sharedEvidence(after int64) *evidence {
	e := evidenceOf(
		soloCall("a", "x:1", 10, after+1, after+2, after+90), soloCall("a", "x:2", 11, after+1, after+2, after+90),
		soloCall("a", "x:3", 12, after+10, after+11, after+90), soloCall("a", "y:1", 13, after+3, after+20, after+30))
	for i, c := range e.calls {
		c.Name, c.Tenant, c.Share = sharedName, []string{"x", "x", "x", "y"}[i], 1
	}
	e.monitor.queued["y:1"] = (after + 5) * int64(time.Millisecond)
	e.join()
	return e
}

// slotsEvidence returns evidence of calls that had number 0.
func slotsEvidence(calls ...*call) *evidence {
	for _, c := range calls {
		c.Name, c.Numbered, c.Numbers = slotsName, true, []int64{0}
	}
	return evidenceOf(calls...)
}

// heardEvidence returns evidence of a call that the server had granted after 2 ms, and whose caller heard of it then; 0: never.
func heardEvidence(granted int64) *evidence {
	c := soloCall("a", "x:1", 10, 1, granted, granted+1)
	if granted == 0 {
		c.ID, c.Token, c.Number, c.Returned = "", 0, 7, int64(4*time.Second)
	}
	e := evidenceOf(c, &call{Name: queuedName, Of: 7, Grant: history.Grant{Process: "a", ID: "x:1", Asked: 1}})
	e.run.fault.onlyMessages = true
	e.monitor.first["x:1"] = int64(2 * time.Millisecond)
	return e
}

// controlEvidence returns evidence of a store that lost writes where it is not fenced, as it should.
func controlEvidence() *evidence {
	e := evidenceOf()
	e.run.fault.control, e.common = true, 1
	e.counters[0].unfenced, e.counters[2].unfenced = register{value: 4, writes: 5}, register{value: 4, writes: 5}
	return e
}

// sparedEvidence returns evidence of a call of a name that the fault must not affect.
func sparedEvidence(c *call, name string) *evidence {
	c.Name = name
	e := evidenceOf(c)
	e.run.fault.sparesOthers = true
	return e
}

func TestChecksFindNothingInACorrectHistory(t *testing.T) {
	assert.Empty(t, check(evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3), soloCall("b", "y:1", 20, 1, 5, 6))))
	assert.Empty(t, noProgress(strickenEvidence(contended...)))
	assert.Empty(t, lateNews(heardEvidence(1000)))
	late := evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3))
	late.monitor.again["x:1"], late.monitor.holding["x:1"] = int64(2*time.Second), int64(3*time.Second)
	assert.Empty(t, twoStates(late), "its tombstone has expired")
}

func TestStoreThatLosesWritesWhereItIsNotFencedIsAsItShouldBe(t *testing.T) {
	assert.Empty(t, check(controlEvidence()))
	assert.Empty(t, check(slotsEvidence(soloCall("a", "x:1#", 10, 1, 2, 3), soloCall("b", "y:1#", 20, 1, 5, 6))))
}

func TestEveryPromiseHasACheckerThatFindsItBroken(t *testing.T) {
	lost := soloCall("a", "x:1", 10, 1, 2, 9)
	lost.Lost = true
	wrong := soloCall("a", "x:1", 10, 1, 2, 3)
	wrong.Violation = "the context ended with nothing"
	late := soloCall("a", "x:1", 10, 1, 9000, 9001)
	late.Deadline = late.Asked + 1
	for name, c := range map[string]struct {
		red promise
		e   func() *evidence
	}{
		"more units than the limit on the server": {limitOnServer, func() *evidence {
			e := evidenceOf()
			e.monitor.record(soloName, 1, 2, []string{"x:1", "y:1"}, nil, 5)
			return e
		}},
		"a server that was never read": {limitOnServer, func() *evidence {
			e := evidenceOf()
			e.monitor.reads = 0
			return e
		}},
		"two holders at the same time": {limitByContext, func() *evidence {
			return evidenceOf(soloCall("a", "x:1", 10, 1, 2, 9), soloCall("b", "y:1", 20, 1, 5, 6))
		}},
		"no order explains the history": {oneOrder, func() *evidence {
			return evidenceOf(soloCall("a", "x:1", 10, 5, 6, 7), soloCall("b", "y:1", 20, 1, 2, 3))
		}},
		"an id holds and waits": {oneState, func() *evidence {
			e := evidenceOf()
			e.monitor.record(soloName, 1, 1, []string{"x:1"}, []string{"x:1"}, 5)
			return e
		}},
		"a permit that its release did not end": {oneState, func() *evidence {
			e := evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3))
			e.monitor.holding["x:1"] = int64(5 * time.Millisecond)
			return e
		}},
		"a copy of an acquire that is granted after the release": {oneState, func() *evidence {
			e := evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3))
			e.monitor.record(soloName, 1, 1, []string{"x:1"}, nil, int64(2*time.Millisecond))
			e.monitor.record(soloName, 1, 0, nil, nil, int64(5*time.Millisecond))
			e.monitor.record(soloName, 1, 1, []string{"x:1"}, nil, int64(900*time.Millisecond))
			return e
		}},
		"a waiter is overtaken": {fifo, func() *evidence {
			e := evidenceOf(soloCall("a", "x:1", 20, 1, 8, 9), soloCall("b", "y:1", 10, 5, 6, 7))
			e.monitor.queued["x:1"] = 3 * int64(time.Millisecond)
			e.join()
			return e
		}},
		"the same token twice": {tokensIncrease, func() *evidence {
			return evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3), soloCall("b", "y:1", 10, 4, 5, 6))
		}},
		"a permit that ends too soon": {liveOnArrival, func() *evidence {
			c := soloCall("a", "x:1", 10, 1, 2, 3)
			c.Ended = c.Granted + int64(50*time.Millisecond) // 100 are promised
			return evidenceOf(c)
		}},
		"a wrong cause":            {lossReported, func() *evidence { return evidenceOf(wrong) }},
		"a loss reported too late": {lossReported, func() *evidence { return evidenceOf(lost, soloCall("b", "y:1", 20, 1, 5, 6)) }},
		"an id at two names": {namesSeparate, func() *evidence {
			e := evidenceOf()
			e.monitor.record(soloName, 1, 1, []string{"x:1"}, nil, 5)
			e.monitor.record(poolName, poolLimit, 1, nil, []string{"x:1"}, 6)
			return e
		}},
		"an id of a grant at another name": {namesSeparate, func() *evidence {
			e := evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3))
			e.monitor.record(poolName, poolLimit, 1, []string{"x:1"}, nil, 5)
			return e
		}},
		"an id of two permits": {namesSeparate, func() *evidence {
			return evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3), soloCall("b", "x:1", 20, 1, 5, 6))
		}},
		"an id of two permits of one process": {namesSeparate, func() *evidence {
			return evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3), soloCall("a", "x:1", 20, 4, 5, 6))
		}},
		"a wrong limit": {namesSeparate, func() *evidence { return evidenceOf(&call{Name: observedName, Violation: "pool has a limit of 1"}) }},
		"a call that the fault does not concern waits": {namesSeparate, func() *evidence {
			return sparedEvidence(soloCall("a", "x:1", 10, 5000, 5900, 5901), asideName)
		}},
		"a call that the fault does not concern fails": {namesSeparate, func() *evidence {
			refused := soloCall("a", "", 0, 5000, 5001, 5002)
			refused.Failure = "no"
			return sparedEvidence(refused, asideName)
		}},
		"a permit that the fault does not concern is lost": {namesSeparate, func() *evidence {
			gone := soloCall("a", "x:1", 10, 5000, 5001, 5002)
			gone.Lost = true
			return sparedEvidence(gone, asideName)
		}},
		"a call of a new name waits although the server lost nothing": {grantsResume, func() *evidence {
			return sparedEvidence(soloCall("a", "x:1", 10, 5000, 5900, 5901), ownPrefix+"a-1")
		}},
		"a grant to a tenant that holds more than one that waits": {fairShares, func() *evidence {
			return sharedEvidence(0)
		}},
		"a grant to one of two tenants that hold equally much, out of its turn": {fairShares, func() *evidence {
			e := sharedEvidence(5000)
			e.calls[1].Tenant, e.calls[2].Tenant, e.calls[3].Tenant = "y", "y", "x" // one each, and x had its unit first
			rest := soloCall("a", "z:1", 9, 5001, 5002, 5090)
			rest.Name, rest.Tenant, rest.Weight = sharedName, "z", sharedLimit-2
			e.calls = append(e.calls, rest)
			e.run.fault.sparesOthers = true
			e.join()
			return e
		}},
		"a waiter is overtaken by another of its tenant": {fifo, func() *evidence {
			e := evidenceOf(soloCall("a", "x:1:t", 20, 1, 8, 9), soloCall("b", "y:1:t", 10, 5, 6, 7))
			for _, c := range e.calls {
				c.Name, c.Tenant, c.Share = sharedName, "t", 1
			}
			e.monitor.queued["x:1:t"] = 3 * int64(time.Millisecond)
			e.join()
			return e
		}},
		"two holders with the same number": {ownNumbers, func() *evidence {
			return slotsEvidence(soloCall("a", "x:1#", 10, 1, 2, 9), soloCall("b", "y:1#", 20, 1, 5, 6))
		}},
		"two units with the same number on the server": {ownNumbers, func() *evidence {
			e := evidenceOf()
			e.monitor.recordSame(slotsName, []string{"1:x:1# and 1:y:1#"})
			return e
		}},
		"a permit without the numbers that it asked for": {ownNumbers, func() *evidence {
			e := slotsEvidence(soloCall("a", "x:1#", 10, 1, 2, 3))
			e.calls[0].Numbers = nil
			e.join()
			return e
		}},
		"a smaller token for the next holder of a number": {numbersFence, func() *evidence {
			return slotsEvidence(soloCall("a", "x:1#", 20, 1, 2, 3), soloCall("b", "y:1#", 10, 1, 5, 6))
		}},
		"a tenant above its limit": {fairShares, func() *evidence {
			e := sharedEvidence(0)
			e.monitor.queued = nil // nobody waits
			for _, c := range e.calls {
				c.TenantLimit = 1
			}
			e.join()
			return e
		}},
		"units that are free while one waits": {fairShares, func() *evidence {
			e := sharedEvidence(5000)
			e.calls = e.calls[1:] // x holds one unit only, so the grant is fair
			e.calls[0].Tenant = "z"
			e.run.fault.sparesOthers = true
			e.join()
			return e
		}},
		"the fenced store loses a write": {fencing, func() *evidence {
			e := evidenceOf()
			e.counters[0].fenced = register{value: 4, writes: 5}
			return e
		}},
		"the fenced store loses a write of a number": {fencing, func() *evidence {
			e := evidenceOf()
			e.counters[4].fenced = register{value: 4, writes: 5}
			return e
		}},
		"the unfenced store loses no write of solo": {fencing, func() *evidence {
			e := controlEvidence()
			e.counters[0].unfenced = register{}
			return e
		}},
		"the unfenced store loses no write of slots": {fencing, func() *evidence {
			e := controlEvidence()
			e.counters[2].unfenced = register{}
			return e
		}},
		"tokens without numbers refuse no holder": {fencing, func() *evidence {
			e := controlEvidence()
			e.common = 0
			return e
		}},
		"a killed process still holds": {deadReleased, func() *evidence {
			e := evidenceOf(soloCall("b", "y:1", 10, 1, 2, 3))
			e.monitor.holding["y:7"] = int64(10 * time.Second)
			return e
		}},
		"a grant of which its caller hears late":  {heardInTime, func() *evidence { return heardEvidence(3000) }},
		"a grant of which its caller never hears": {heardInTime, func() *evidence { return heardEvidence(0) }},
		"Acquire returns long after its context":  {acquireReturns, func() *evidence { return evidenceOf(late) }},
		"no grants after a strike":                {grantsResume, func() *evidence { return strickenEvidence() }},
		"no grants after a strike to tenants, while those without go on": {grantsResume, func() *evidence {
			return strickenEvidence(poolName, soloName, slotsName)
		}},
		"keys that do not expire": {keysExpire, func() *evidence {
			e := evidenceOf()
			e.leftovers = []string{"fairsem:{pool}:meta"}
			return e
		}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotEmpty(t, checks[c.red](c.e()))
		})
	}
	require.Len(t, checks, len(promises), "every promise has a checker")
}

func TestUnitsThatAreFreeDuringAGracePeriodAreNotWithheld(t *testing.T) {
	for after, withheld := range map[int64]bool{0: false, 5000: true} {
		e := sharedEvidence(after)
		e.calls[0].Tenant, e.calls[1].Tenant = "u", "v" // nobody holds more than one unit
		e.run.fault.sparesOthers = true
		e.join()
		assert.Equal(t, withheld, len(unfairGrants(e)) > 0, after)
	}
}

// The units of a killed process are free when deadReleased says, and those that the monitor no longer sees when it has not seen them.
func TestPermitCountsForItsTenantUntilItIsKnownToBeOver(t *testing.T) {
	unknown := func(process string) *call {
		c := soloCall(process, "x:1", 10, 1, 2, 3)
		c.Done = 0
		return c
	}
	e := evidenceOf(unknown("a"))
	assert.Zero(t, e.grants[soloName][0].Done)
	e.monitor.record(soloName, 1, 1, []string{"x:1"}, nil, 5)
	e.monitor.record(soloName, 1, 0, nil, nil, 6)
	e.join()
	assert.Equal(t, e.monitor.gone["x:1"], e.grants[soloName][0].Done)
	assert.Positive(t, e.grants[soloName][0].Done)
	e.monitor.record(soloName, 1, 1, []string{"x:1"}, nil, 7) // it was restored
	e.join()
	assert.Zero(t, e.grants[soloName][0].Done)

	e = evidenceOf(unknown("b"))
	assert.Equal(t, int64(time.Second+deadTime(time.Second)), e.grants[soloName][0].Done)
}

// A failover may lose a release. The tenant of the permit then has no more than it could have with it.
func TestPermitThatTheServerHasAgainCountsUntilItIsGone(t *testing.T) {
	for loses, later := range map[bool]bool{false: false, true: true} {
		e := evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3))
		e.run.fault.losesState = loses
		released := e.grants[soloName][0].Done
		require.Positive(t, released)
		e.monitor.record(soloName, 1, 1, []string{"x:1"}, nil, 5)
		e.join()
		assert.Equal(t, later, e.grants[soloName][0].Done == 0, "it is there")
		e.monitor.record(soloName, 1, 0, nil, nil, 6)
		e.join()
		assert.Equal(t, later, e.grants[soloName][0].Done > released, "it is gone")
	}
}

// The grant to the first of two waiters may be lost with the server, while that to the other one was sent.
func TestWaiterWhoseGrantWasLostWithItsServerWasNotOvertaken(t *testing.T) {
	for began, red := range map[int64]bool{609: false, 900: true, 2: true} { // ms: right after the grant, after both grants, and long before
		e := evidenceOf(soloCall("a", "x:1", 20, 601, 800, 801), soloCall("b", "y:1", 10, 605, 607, 608))
		e.run.fault.losesState = true
		e.queued["x:1"] = 603 * int64(time.Millisecond)
		e.strikes = []strike{{"a crash", began * int64(time.Millisecond), 0, 0}}
		e.join()
		assert.Equal(t, red, len(overtakes(e)) > 0, began)
	}
}

// A call that is granted nothing never learns its id. The report that it is in the queue has it.
func TestCallThatIsGrantedNothingWaitedForAsLongAsItWasSeen(t *testing.T) {
	refused := &call{Name: soloName, Number: 7}
	refused.Process, refused.Asked, refused.Cancelled = "a", 1, true
	queued := &call{Name: queuedName, Number: 8, Of: 7}
	queued.Process, queued.ID, queued.Asked = "a", "x:1", 2
	e := evidenceOf(refused, queued)
	e.monitor.record(soloName, 1, 0, nil, []string{"x:1"}, 5)
	e.monitor.record(soloName, 1, 0, nil, []string{"x:1"}, 6)
	e.calls = append(e.calls, queued)
	e.join()
	require.Len(t, e.grants[soloName], 1)
	assert.Equal(t, e.monitor.queued["x:1"], e.grants[soloName][0].Position)
	assert.Equal(t, int64(6), e.grants[soloName][0].Left)
}

// Events while a process does not run are not faults of the library.
func TestTimeForWhichAProcessDoesNotRunDoesNotCount(t *testing.T) {
	late := soloCall("a", "x:1", 10, 1, 9000, 9001)
	late.Deadline = late.Asked + 1
	e := evidenceOf(late)
	require.NotEmpty(t, lateReturns(e))
	e.processes[0].pauses = []span{{0, late.Returned}}
	assert.Empty(t, lateReturns(e))

	brief := soloCall("a", "x:1", 10, 1, 2, 3)
	brief.Ended = brief.Granted + int64(50*time.Millisecond)
	e = evidenceOf(brief)
	require.NotEmpty(t, deadOnArrival(e))
	e.processes[0].pauses = []span{{brief.Granted + 1, brief.Ended}}
	assert.Empty(t, deadOnArrival(e))
}

// Both who stops a process and the process itself record that it did not run.
func TestTimeForWhichAProcessDoesNotRunCountsOnce(t *testing.T) {
	stops := merge([]span{{50, 60}, {10, 30}, {9, 31}, {31, 32}, {52, 54}})
	assert.Equal(t, []span{{9, 32}, {50, 60}}, stops)
	assert.Equal(t, time.Duration(26), (&process{pauses: stops}).stalledFor(0, 53))
}

// A call that failed may have entries on the server for a TTL. A strike keeps what a call has sent for as long as it lasts.
func TestCallThatFailedHoldsNothingATTLLater(t *testing.T) {
	failed := &call{Name: sharedName, Failure: "deadline exceeded", Returned: 100}
	failed.Process, failed.Asked = "a", 50
	e := evidenceOf(failed)
	assert.Equal(t, 100+int64(deadTime(e.ttl)), e.grants[sharedName][0].Done)

	e = evidenceOf()
	e.strikes = []strike{{"trouble", 80, 300, 300}, {"trouble", 400, 500, 500}}
	assert.Equal(t, 300+int64(deadTime(e.ttl)), e.done(failed, "x:1"))
	e.monitor.waiting["x:1"] = 350 // a copy that was on its way
	assert.Equal(t, 350+int64(deadTime(e.ttl)), e.done(failed, "x:1"))
}

// overUnnoticed is the context of a permit whose time is over, and of which nobody has been notified.
type overUnnoticed struct{ context.Context }

func (overUnnoticed) Done() <-chan struct{} { return nil }

func TestPermitThatEndedWhileItsCallerDidNotRunWasHeldUntilThatIsNoticed(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	c := soloCall("a", "x:1", 10, 1, 2, 0)
	holdWaiting(t.Context(), overUnnoticed{over}, c, 0)
	assert.True(t, c.Awaited)
	assert.Equal(t, c.Ended, c.Released)
	assert.NotZero(t, c.Ended)

	c = soloCall("a", "x:1", 10, 1, 2, 0)
	holdWaiting(t.Context(), t.Context(), c, 0)
	assert.False(t, c.Awaited)
	assert.Zero(t, c.Ended)
	assert.NotZero(t, c.Released)
}

func TestDelayOnAnotherNameIsAViolationOnlyIfTheFaultDoesNotConcernIt(t *testing.T) {
	late := soloCall("a", "x:1", 10, 5000, 5900, 5901)
	e := sparedEvidence(late, asideName)
	require.NotEmpty(t, interference(e))
	e.processes[0].pauses = []span{{late.Asked, late.Granted}}
	assert.Empty(t, interference(e), "its process did not run")
	e.processes[0].pauses, e.run.fault.sparesOthers = nil, false
	assert.Empty(t, interference(e))
	e.run.fault.sparesOthers, e.began = true, late.Asked-int64(time.Second)
	assert.Empty(t, interference(e), "the server was new")
}

func TestPermitThatWasLiveForATenthOfItsTTLWasNotDeadOnArrival(t *testing.T) {
	c := soloCall("a", "x:1", 10, 1, 2, 3)
	c.Ended = c.Granted + int64(100*time.Millisecond)
	assert.Empty(t, deadOnArrival(evidenceOf(c)))
}

func TestPermitOfAKilledProcessEndsWhenItWasKilled(t *testing.T) {
	c := soloCall("b", "y:1", 10, 1, 2, 0)
	c.endAt(int64(5 * time.Millisecond))
	assert.True(t, c.Lost)
	assert.Equal(t, int64(5*time.Millisecond), c.Released)

	c = soloCall("b", "y:1", 10, 1, 2, 0)
	c.endAt(1) // the process was stopped before the grant arrived
	assert.Equal(t, c.Granted, c.Released)

	c = soloCall("b", "y:1", 10, 1, 2, 3)
	c.endAt(int64(5 * time.Millisecond))
	assert.False(t, c.Lost, "it was released before")
}

func TestRecoveryIsTheTimeFromTheEndOfAStrikeToTheNextGrant(t *testing.T) {
	e := evidenceOf(soloCall("a", "x:1", 10, 1, 2, 3), soloCall("a", "x:2", 20, 1, 700, 701))
	took, again := e.recovery(soloName)
	assert.Zero(t, took)
	assert.True(t, again)
	e.strikes = []strike{{"trouble", 0, int64(100 * time.Millisecond), int64(100 * time.Millisecond)}}
	took, again = e.recovery(soloName)
	assert.Equal(t, 600*time.Millisecond, took)
	assert.True(t, again)
	e.strikes = append(e.strikes, strike{"trouble", int64(800 * time.Millisecond), int64(900 * time.Millisecond), int64(time.Second)})
	e.ended = int64(time.Second)
	took, again = e.recovery(soloName)
	assert.Equal(t, 600*time.Millisecond, took)
	assert.False(t, again, "however soon the load ended")
	assert.NotEmpty(t, noProgress(e))
}

func TestUndecidedHistoryIsNeitherKeptNorBroken(t *testing.T) {
	r := row{Counted: map[string]int{}}
	r.add(fault{}, finding{oneOrder, "pool: porcupine did not finish: " + undecided})
	assert.Empty(t, r.Broken)
	assert.Equal(t, "undecided", r.verdict())
}

func TestViolationOfAnExemptPromiseIsCountedAndIsNoFailure(t *testing.T) {
	r := row{Counted: map[string]int{}, Exempt: []promise{limitByContext}}
	r.add(fault{exempt: []promise{limitByContext}}, finding{limitByContext, "two at the same time"})
	assert.Equal(t, "kept", r.verdict())
	assert.Equal(t, "S2 1×", r.exempt())
	require.NoError(t, report{Rows: []row{r}}.verdict())

	r.add(fault{exempt: []promise{limitByContext}}, finding{tokensIncrease, "the same twice"})
	assert.Equal(t, "BROKEN: S6 1×", r.verdict())
	require.Error(t, report{Rows: []row{r}}.verdict())
}

// The monitor can see a position before the waiter is notified of it. If the server may lose its state, the notification may never
// come.
func TestPositionOnAServerThatMayLoseItCountsFromTheNotification(t *testing.T) {
	for forgets, want := range map[bool]int64{false: 3, true: 5} {
		notified := &call{Name: queuedName}
		notified.ID, notified.Asked = "x:1", 5
		e := evidenceOf(soloCall("a", "x:1", 20, 1, 8, 9), notified)
		e.run.fault.losesState = forgets
		e.monitor.queued["x:1"] = 3
		e.join()
		assert.Len(t, e.calls, 1, "a queued record is not a call")
		assert.Equal(t, want, e.grants[soloName][0].Position)
	}
}
