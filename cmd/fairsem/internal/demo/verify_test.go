package demo

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/internal/history"
)

const second = int64(time.Second)

// flawless is a small run in which every promise held: limit 3, TTL 2 s. "dead" is killed at 3 s.
func flawless() evidence {
	dead := history.Grant{Process: "d", ID: "dead", Weight: 2, Token: 12, Asked: 1, Granted: 2 * second, Released: 3 * second, Lost: true}
	e := evidence{
		grants: []history.Grant{
			{Process: "a", ID: "first", Weight: 2, Token: 11, Asked: 1, Granted: second, Released: 2 * second},
			dead,
			{Process: "b", ID: "next", Weight: 1, Token: 13, Asked: 2, Granted: 5 * second, Released: 6 * second},
			{Process: "a", ID: "last", Weight: 1, Token: 14, Asked: 2 * second, Granted: 5*second + 1, Released: 6 * second},
		},
		orderings: make(orderings),
		mostSeen:  2,
		death:     death{permit: dead, killed: 3 * second, gone: 5 * second, regained: 5 * second},
	}
	e.orderings.add([]fairsem.Ticket{{ID: "dead"}, {ID: "next"}, {ID: "last"}})
	return e
}

func TestNothingIsWrongWithAFlawlessRun(t *testing.T) {
	for _, v := range judge(flawless()) {
		assert.True(t, v.Held, "%s: %s", v.Promise, v.Found)
		assert.Empty(t, v.Violations)
	}
	assert.NoError(t, broken(judge(flawless())))
}

func TestEveryBrokenPromiseIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(*evidence)
		promise string
		found   string
	}{
		"too many at once": {func(e *evidence) { e.grants[0].Released = 2*second + 1 },
			"never more than 3 units in use at once", "most: 4, over 4 grants"},
		"one heavier than the limit": {func(e *evidence) { e.grants[0].Weight = 4 },
			"never more than 3 units in use at once", "most: 4, over 4 grants"},
		"a grant that cannot be": {func(e *evidence) { e.grants[0].Released = second - 1 },
			"never more than 3 units in use at once", "most: 2, over 4 grants"},
		"Redis said that there were too many": {func(e *evidence) { e.mostSeen = 4 },
			"never more than 3 units in use at once", "most: 4, over 4 grants"},
		"overtaken in the queue": {func(e *evidence) { e.orderings.add([]fairsem.Ticket{{ID: "last"}, {ID: "next"}}) },
			"first come, first served", "1 overtakes, 4 pairs queued"},
		"no waiter was seen": {func(e *evidence) { e.orderings = nil },
			"first come, first served", "0 overtakes, 0 pairs queued"},
		"the same token twice": {func(e *evidence) { e.grants[0].Token = 12 },
			"every token larger than those before", "1 out of order, 4 tokens"},
		"a smaller token later": {func(e *evidence) { e.orderings = orderings{{"dead", "next"}: {}}; e.grants[3].Token = 10 },
			"every token larger than those before", "1 out of order, 4 tokens"},
		"the dead keep their permit": {func(e *evidence) { e.death.gone = 0 },
			"the units of a dead process are released", "not within 2.50 s"},
		"the units of the dead are not granted": {func(e *evidence) { e.death.regained = 0 },
			"the units of a dead process are released", "not within 2.50 s"},
		"others get it too late": {func(e *evidence) { e.death.regained = 5*second + 6*second/10 },
			"the units of a dead process are released", "after 2.60 s, at most 2.50 s"},
		"Redis lists it for too long": {func(e *evidence) { e.death.listed = 5*second + 6*second/10 },
			"the units of a dead process are released", "after 2.60 s, at most 2.50 s"},
		"no worker was killed": {func(e *evidence) { e.death = death{} },
			"the units of a dead process are released", "no worker could be killed while it held units"},
		"units left": {func(e *evidence) { e.end.Used = 1 },
			"nothing is left at the end", "1 units in use, 0 waiting"},
		"a waiter is left": {func(e *evidence) { e.end.Waiting = 1 },
			"nothing is left at the end", "0 units in use, 1 waiting"},
	} {
		t.Run(name, func(t *testing.T) {
			e := flawless()
			c.spoil(&e)
			verdicts := judge(e)
			at := slices.IndexFunc(verdicts, func(v verdict) bool { return !v.Held })
			require.GreaterOrEqual(t, at, 0)
			assert.Equal(t, c.promise, verdicts[at].Promise)
			assert.Equal(t, c.found, verdicts[at].Found)
			err := broken(verdicts)
			assert.ErrorContains(t, err, "promise broken: \""+c.promise+"\" ("+c.found+")")
			var coded *exit.Error
			require.ErrorAs(t, err, &coded)
			assert.Equal(t, exit.No, coded.Code)
			for _, v := range slices.Delete(verdicts, at, at+1) {
				assert.True(t, v.Held, "%s too: %s", v.Promise, v.Found)
			}
		})
	}
}

// A demo beside a build said that a promise was broken.
func TestABusyMachineMayReleaseTheUnitsOfTheDeadLater(t *testing.T) {
	e := flawless()
	e.death.regained, e.death.late = 5*second+6*second/10, second/10
	assert.NoError(t, broken(judge(e)))
	e.death.regained++
	assert.ErrorContains(t, broken(judge(e)), "after 2.60 s, at most 2.60 s")
}

func TestOnlyTimersThatAreLaterThanOnAnIdleMachineCount(t *testing.T) {
	var l lateness
	for _, late := range []time.Duration{0, punctual, 20 * time.Millisecond, -time.Millisecond, 30 * time.Millisecond} {
		l.woke(second, second+late.Nanoseconds())
	}
	assert.Equal(t, (50 * time.Millisecond).Nanoseconds(), l.total.Load())
}

func TestWithoutGrantsNothingIsShown(t *testing.T) {
	e := flawless()
	e.grants, e.mostSeen = nil, 0
	for _, v := range judge(e)[:3] {
		assert.False(t, v.Held, v.Promise)
	}
}

func TestUnitsAreRegainedByTheFirstGrantThatNeedsThem(t *testing.T) {
	dead := history.Grant{ID: "dead", Weight: 2, Granted: 10, Released: 20}
	beside := history.Grant{ID: "beside", Weight: 1, Granted: 12, Released: 40}
	for name, c := range map[string]struct {
		later []history.Grant
		want  int64
	}{
		"no grant after the death":  {nil, 0},
		"one came that fits beside": {[]history.Grant{{ID: "x", Weight: 1, Granted: 45}}, 0},
		"one came that does not":    {[]history.Grant{{ID: "x", Weight: 1, Granted: 30}}, 30},
		"the first of two counts":   {[]history.Grant{{ID: "y", Weight: 2, Granted: 50}, {ID: "x", Weight: 1, Granted: 30, Released: 35}}, 30},
		"before the death is not":   {[]history.Grant{{ID: "x", Weight: 1, Granted: 19, Released: 20}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, regained(append(c.later, dead, beside), dead, 3, 20))
		})
	}
}
