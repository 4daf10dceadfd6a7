package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/history"
)

// permit is a call of the solo semaphore that was granted and given back, in milliseconds.
func permit(process, id string, token, asked, granted, released int64) *call {
	const ms = int64(time.Millisecond)
	c := &call{Name: soloName, Done: (released + 1) * ms, Returned: granted * ms, Patience: (asked + 60_000) * ms}
	c.Grant = history.Grant{Process: process, ID: id, Weight: 1, Token: token, Asked: asked * ms, Granted: granted * ms, Released: released * ms}
	return c
}

// seen is evidence of these calls, by processes a and b, of which b was killed after a second.
func seen(calls ...*call) *evidence {
	e := &evidence{
		ttl: time.Second, calls: calls, ended: int64(time.Minute),
		members: []*member{{name: "a"}, {name: "b", killed: int64(time.Second)}},
		monitor: newMonitor(nil),
	}
	e.join()
	return e
}

// spared is evidence of a call for that name, under a fault that is about others.
func spared(c *call, name string) *evidence {
	c.Name = name
	e := seen(c)
	e.run.fault.spares = true
	return e
}

func TestNothingIsFoundInAnOrderlyHistory(t *testing.T) {
	assert.Empty(t, judge(seen(permit("a", "x:1", 10, 1, 2, 3), permit("b", "y:1", 20, 1, 5, 6))))
}

func TestEveryPromiseHasACheckerThatCanTurnRed(t *testing.T) {
	lost := permit("a", "x:1", 10, 1, 2, 9)
	lost.Lost = true
	wrong := permit("a", "x:1", 10, 1, 2, 3)
	wrong.Wrong = "the context ended with nothing"
	late := permit("a", "x:1", 10, 1, 9000, 9001)
	late.Patience = late.Asked + 1
	for name, c := range map[string]struct {
		red promise
		e   func() *evidence
	}{
		"over the limit on the server": {onServer, func() *evidence {
			e := seen()
			e.monitor.note(soloName, 1, 2, []string{"x:1", "y:1"}, nil, 5)
			return e
		}},
		"two hold at once": {held, func() *evidence {
			return seen(permit("a", "x:1", 10, 1, 2, 9), permit("b", "y:1", 20, 1, 5, 6))
		}},
		"no order explains it": {linear, func() *evidence {
			return seen(permit("a", "x:1", 10, 5, 6, 7), permit("b", "y:1", 20, 1, 2, 3))
		}},
		"an id holds and waits": {once, func() *evidence {
			e := seen()
			e.monitor.note(soloName, 1, 1, []string{"x:1"}, []string{"x:1"}, 5)
			return e
		}},
		"overtaken in line": {inOrder, func() *evidence {
			e := seen(permit("a", "x:1", 20, 1, 8, 9), permit("b", "y:1", 10, 5, 6, 7))
			e.monitor.inLine["x:1"] = 3 * int64(time.Millisecond)
			e.join()
			return e
		}},
		"a token twice": {tokens, func() *evidence { return seen(permit("a", "x:1", 10, 1, 2, 3), permit("b", "y:1", 10, 4, 5, 6)) }},
		"over as soon as it is there": {alive, func() *evidence {
			c := permit("a", "x:1", 10, 1, 2, 3)
			c.Over = c.Granted + int64(50*time.Millisecond) // 100 are promised
			return seen(c)
		}},
		"told what is not true": {told, func() *evidence { return seen(wrong) }},
		"told too late":         {told, func() *evidence { return seen(lost, permit("b", "y:1", 20, 1, 5, 6)) }},
		"an id at two names": {apart, func() *evidence {
			e := seen()
			e.monitor.note(soloName, 1, 1, []string{"x:1"}, nil, 5)
			e.monitor.note(poolName, poolLimit, 1, nil, []string{"x:1"}, 6)
			return e
		}},
		"a grant at another name": {apart, func() *evidence {
			e := seen(permit("a", "x:1", 10, 1, 2, 3))
			e.monitor.note(poolName, poolLimit, 1, []string{"x:1"}, nil, 5)
			return e
		}},
		"another limit": {apart, func() *evidence { return seen(&call{Name: lookName, Wrong: "pool has a limit of 1"}) }},
		"a bystander has to wait": {apart, func() *evidence {
			return spared(permit("a", "x:1", 10, 5000, 5900, 5901), asideName)
		}},
		"a bystander is refused": {apart, func() *evidence {
			refused := permit("a", "", 0, 5000, 5001, 5002)
			refused.Failure = "no"
			return spared(refused, asideName)
		}},
		"a bystander loses what it has": {apart, func() *evidence {
			gone := permit("a", "x:1", 10, 5000, 5001, 5002)
			gone.Lost = true
			return spared(gone, asideName)
		}},
		"a new name has to wait though nothing was lost": {works, func() *evidence {
			return spared(permit("a", "x:1", 10, 5000, 5900, 5901), ownPrefix+"a-1")
		}},
		"a fenced write is lost": {fenced, func() *evidence {
			e := seen()
			e.fenced = register{value: 4, writes: 5}
			return e
		}},
		"the fault was none": {fenced, func() *evidence {
			e := seen()
			e.run.fault.control = true
			return e
		}},
		"the dead still hold": {deadBack, func() *evidence {
			e := seen(permit("b", "y:1", 10, 1, 2, 3))
			e.monitor.holding["y:7"] = int64(10 * time.Second)
			return e
		}},
		"back long after its context": {returns, func() *evidence { return seen(late) }},
		"nobody gets in any more": {works, func() *evidence {
			e := seen(permit("a", "x:1", 10, 1, 2, 3))
			e.strikes = []strike{{"trouble", int64(time.Second), int64(2 * time.Second), int64(2 * time.Second)}}
			return e
		}},
		"keys that stay": {tidy, func() *evidence {
			e := seen()
			e.litter = []string{"fairsem:{pool}:meta"}
			return e
		}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotEmpty(t, checks[c.red](c.e()))
		})
	}
	require.Len(t, checks, len(promises), "every promise has a checker")
}

// What a process cannot have seen says nothing against the library.
func TestAProcessThatStoodStillIsExcused(t *testing.T) {
	late := permit("a", "x:1", 10, 1, 9000, 9001)
	late.Patience = late.Asked + 1
	e := seen(late)
	require.NotEmpty(t, lateReturns(e))
	e.members[0].pauses = []span{{0, late.Returned}}
	assert.Empty(t, lateReturns(e))

	brief := permit("a", "x:1", 10, 1, 2, 3)
	brief.Over = brief.Granted + int64(50*time.Millisecond)
	e = seen(brief)
	require.NotEmpty(t, deadOnArrival(e))
	e.members[0].pauses = []span{{brief.Granted + 1, brief.Over}}
	assert.Empty(t, deadOnArrival(e))
}

func TestWhoUsesAnotherNameIsExcusedWhereTheFaultIsAboutAll(t *testing.T) {
	late := permit("a", "x:1", 10, 5000, 5900, 5901)
	e := spared(late, asideName)
	require.NotEmpty(t, interferences(e))
	e.members[0].pauses = []span{{late.Asked, late.Granted}}
	assert.Empty(t, interferences(e), "its process stood still")
	e.members[0].pauses, e.run.fault.spares = nil, false
	assert.Empty(t, interferences(e))
	e.run.fault.spares, e.began = true, late.Asked-int64(time.Second)
	assert.Empty(t, interferences(e), "the server was new")
}

func TestPermitThatWasGoodForATenthOfItsTTLWasNotDeadOnArrival(t *testing.T) {
	c := permit("a", "x:1", 10, 1, 2, 3)
	c.Over = c.Granted + int64(100*time.Millisecond)
	assert.Empty(t, deadOnArrival(seen(c)))
}

func TestWhatTheDeadHeldEndsWithThem(t *testing.T) {
	c := permit("b", "y:1", 10, 1, 2, 0)
	c.end(int64(5 * time.Millisecond))
	assert.True(t, c.Lost)
	assert.Equal(t, int64(5*time.Millisecond), c.Released)

	c = permit("b", "y:1", 10, 1, 2, 0)
	c.end(1) // it was stopped before the grant reached it
	assert.Equal(t, c.Granted, c.Released)

	c = permit("b", "y:1", 10, 1, 2, 3)
	c.end(int64(5 * time.Millisecond))
	assert.False(t, c.Lost, "it had given it back")
}

func TestRecoveryIsTheTimeFromTheEndOfAStrikeToTheNextGrant(t *testing.T) {
	e := seen(permit("a", "x:1", 10, 1, 2, 3), permit("a", "x:2", 20, 1, 700, 701))
	assert.Zero(t, e.recovery(soloName))
	e.strikes = []strike{{"trouble", 0, int64(100 * time.Millisecond), int64(100 * time.Millisecond)}}
	assert.Equal(t, 600*time.Millisecond, e.recovery(soloName))
}

func TestWhatPorcupineCannotDecideIsNeitherKeptNorBroken(t *testing.T) {
	r := row{Counted: map[string]int{}}
	r.add(fault{}, finding{linear, "pool: porcupine did not come to an end: " + undecided})
	assert.Empty(t, r.Broken)
	assert.Equal(t, "undecided", r.verdict())
}

func TestWhatIsNotPromisedIsCountedAndFailsNothing(t *testing.T) {
	r := row{Counted: map[string]int{}, Exempt: []promise{held}}
	r.add(fault{not: []promise{held}}, finding{held, "two at once"})
	assert.Equal(t, "kept", r.verdict())
	assert.Equal(t, "S2 1×", r.exempt())
	require.NoError(t, report{Rows: []row{r}}.verdict())

	r.add(fault{not: []promise{held}}, finding{tokens, "the same twice"})
	assert.Equal(t, "BROKEN: S6 1×", r.verdict())
	require.Error(t, report{Rows: []row{r}}.verdict())
}

// A monitor sees a place before the one who waits there is told of it, and the server may not live to tell.
func TestAPlaceOnAServerThatMayForgetItCountsFromWhenItWasTold(t *testing.T) {
	for forgets, want := range map[bool]int64{false: 3, true: 5} {
		told := &call{Name: queuedName}
		told.ID, told.Asked = "x:1", 5
		e := seen(permit("a", "x:1", 20, 1, 8, 9), told)
		e.run.fault.forgets = forgets
		e.monitor.inLine["x:1"] = 3
		e.join()
		assert.Len(t, e.calls, 1, "it is no call")
		assert.Equal(t, want, e.grants[soloName][0].Position)
	}
}
