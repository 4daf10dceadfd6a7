package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// inMilliseconds returns records from times in milliseconds (asked, granted, released) and a token.
func inMilliseconds(all ...record) []record {
	for i := range all {
		for k := range 3 {
			all[i][k] *= int64(time.Millisecond)
		}
	}
	return all
}

func TestCallThatAskedMuchLaterAndWasGrantedFirstOvertook(t *testing.T) {
	assert.Equal(t, 1, overtakes(inMilliseconds(record{1, 90, 91}, record{30, 50, 51})))
	assert.Equal(t, 2, overtakes(inMilliseconds(record{30, 50, 51}, record{40, 60, 61}, record{1, 90, 91})), "in any order")
}

func TestCallsAtAboutTheSameTimeDoNotOvertake(t *testing.T) {
	assert.Zero(t, overtakes(inMilliseconds(record{1, 90, 91}, record{15, 50, 51})))
	assert.Zero(t, overtakes(inMilliseconds(record{1, 50, 51}, record{30, 90, 91})))
	assert.Zero(t, overtakes(nil))
}

func TestOvertakeByFarIsAGrantMuchEarlier(t *testing.T) {
	assert.Zero(t, overtakesByFar(inMilliseconds(record{1, 70, 71}, record{30, 50, 51})))
	assert.Equal(t, 1, overtakesByFar(inMilliseconds(record{1, 71, 72}, record{30, 50, 51})))
	assert.Equal(t, 1, overtakesByFar(inMilliseconds(record{1, 0, 500}, record{30, 50, 51})))
}

func TestCancelledCallWasOvertaken(t *testing.T) {
	assert.Equal(t, 1, overtakes(inMilliseconds(record{1, 0, 500}, record{30, 50, 51})))
	assert.Zero(t, overtakes(inMilliseconds(record{1, 10, 11}, record{30, 0, 500})), "it overtakes no call itself")
}

func TestTokensShowTheOrderOfTheGrants(t *testing.T) {
	// The first call was granted first, but its process noticed late.
	late := inMilliseconds(record{1, 90, 91, 1}, record{30, 50, 51, 2})
	assert.Equal(t, 1, overtakes(late))
	assert.Zero(t, overtakesByToken(late))
	assert.Equal(t, 1, overtakesByToken(inMilliseconds(record{1, 90, 91, 2}, record{30, 95, 96, 1})))
}

func TestWaitIsTheTimeToTheGrantOrCancellation(t *testing.T) {
	assert.EqualValues(t, 9, record{1, 10, 20}.waited())
	assert.EqualValues(t, 19, record{1, 0, 20}.waited())
}

func TestHandOffIsToAnotherProcessThatWaits(t *testing.T) {
	outcomes := []outcome{
		{Records: []record{{0, 10, 100}, {130, 140, 200}}},
		{Records: []record{{50, 103, 120}, {210, 220, 230}}},
	}
	// Only 100 to 103 counts: the other two calls asked while no call held the unit.
	assert.Equal(t, []int64{3}, handOffTimes(outcomes))
}

func TestGrantToTheSameProcessIsNoHandOff(t *testing.T) {
	assert.Empty(t, handOffTimes([]outcome{{Records: []record{{0, 10, 100}, {90, 101, 120}}}}))
}

func TestBrokenPromiseIsAnError(t *testing.T) {
	fine := []outcome{{Records: []record{{1, 2, 3, 1}, {4, 5, 6, 2}}}}
	assert.NoError(t, checkPromises(grants(fine), 1))
	for what, broken := range map[string][]outcome{
		"more than the limit":  {{Records: []record{{1, 2, 9, 1}}}, {Records: []record{{1, 3, 9, 2}}}},
		"tokens decrease":      {{Records: []record{{1, 2, 3, 2}, {4, 5, 6, 1}}}},
		"the same token twice": {{Records: []record{{1, 2, 3, 1}, {2, 5, 6, 1}}}},
	} {
		assert.Error(t, checkPromises(grants(broken), 1), what)
	}
}

func TestWaitFiguresCountGrantsInTheWindowAndAllWaits(t *testing.T) {
	second := int64(time.Second)
	r := run{
		job:    job{Contender: redislocks, Limit: 1, Hold: 500 * time.Millisecond},
		window: window{Start: 0, End: second},
		outcomes: []outcome{{Records: []record{
			{1, second / 4, second * 3 / 4}, {2, second * 2, second * 2}, {3, 0, second * 3},
		}}},
	}
	f := workFigures(r)
	assert.Equal(t, 1.0, f["rate"], "the grant after the window does not count")
	assert.Equal(t, 1.0, f["failed"])
	assert.Equal(t, 1.0, f["most"])
	assert.Equal(t, 0.5, f["utilisation"])
	assert.Equal(t, 0.5, f["busy"])
	assert.InDelta(t, 3, f["longest"], 0.001, "a cancelled call waited, too")
	assert.NotContains(t, f, "by token")
}
