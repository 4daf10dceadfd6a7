package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// ms are visits in milliseconds: asked, granted, released, and a token.
func ms(all ...visit) []visit {
	for i := range all {
		for k := range 3 {
			all[i][k] *= int64(time.Millisecond)
		}
	}
	return all
}

func TestWhoAskedMuchLaterAndGotInFirstOvertook(t *testing.T) {
	assert.Equal(t, 1, overtakes(ms(visit{1, 90, 91}, visit{30, 50, 51})))
	assert.Equal(t, 2, overtakes(ms(visit{30, 50, 51}, visit{40, 60, 61}, visit{1, 90, 91})), "in any order")
}

func TestWhoAskedAtAboutTheSameTimeDidNotOvertake(t *testing.T) {
	assert.Zero(t, overtakes(ms(visit{1, 90, 91}, visit{15, 50, 51})))
	assert.Zero(t, overtakes(ms(visit{1, 50, 51}, visit{30, 90, 91})))
	assert.Zero(t, overtakes(nil))
}

func TestToOvertakeByFarIsToGetInMuchEarlier(t *testing.T) {
	assert.Zero(t, overtakesByFar(ms(visit{1, 70, 71}, visit{30, 50, 51})))
	assert.Equal(t, 1, overtakesByFar(ms(visit{1, 71, 72}, visit{30, 50, 51})))
	assert.Equal(t, 1, overtakesByFar(ms(visit{1, 0, 500}, visit{30, 50, 51})))
}

func TestWhoGaveUpWaitingWasOvertaken(t *testing.T) {
	assert.Equal(t, 1, overtakes(ms(visit{1, 0, 500}, visit{30, 50, 51})))
	assert.Zero(t, overtakes(ms(visit{1, 10, 11}, visit{30, 0, 500})), "and overtook nobody")
}

func TestTokensTellTheOrderThatTheClockHides(t *testing.T) {
	// The first was let in first, and its process noticed late.
	late := ms(visit{1, 90, 91, 1}, visit{30, 50, 51, 2})
	assert.Equal(t, 1, overtakes(late))
	assert.Zero(t, overtakesByToken(late))
	assert.Equal(t, 1, overtakesByToken(ms(visit{1, 90, 91, 2}, visit{30, 95, 96, 1})))
}

func TestWaitIsTheTimeToTheGrantOrUntilGivenUp(t *testing.T) {
	assert.EqualValues(t, 9, visit{1, 10, 20}.wait())
	assert.EqualValues(t, 19, visit{1, 0, 20}.wait())
}

func TestAHandOffIsFromOneProcessToOneThatWaits(t *testing.T) {
	outcomes := []outcome{
		{Visits: []visit{{0, 10, 100}, {130, 140, 200}}},
		{Visits: []visit{{50, 103, 120}, {210, 220, 230}}},
	}
	// 100 to 103; the next asked when nobody held, and so did the last.
	assert.Equal(t, []int64{3}, handOffs(outcomes))
}

func TestWhoTakesItAgainHandsNothingOff(t *testing.T) {
	assert.Empty(t, handOffs([]outcome{{Visits: []visit{{0, 10, 100}, {90, 101, 120}}}}))
}

func TestABrokenPromiseIsAnError(t *testing.T) {
	fine := []outcome{{Visits: []visit{{1, 2, 3, 1}, {4, 5, 6, 2}}}}
	assert.NoError(t, promises(grants(fine), 1))
	for what, broken := range map[string][]outcome{
		"more than the limit": {{Visits: []visit{{1, 2, 9, 1}}}, {Visits: []visit{{1, 3, 9, 2}}}},
		"tokens fall":         {{Visits: []visit{{1, 2, 3, 2}, {4, 5, 6, 1}}}},
		"a token twice":       {{Visits: []visit{{1, 2, 3, 1}, {2, 5, 6, 1}}}},
	} {
		assert.Error(t, promises(grants(broken), 1), what)
	}
}

func TestFiguresOfWaitingCountTheWindowAndAllWaits(t *testing.T) {
	second := int64(time.Second)
	r := run{
		job:    job{Contender: redislocks, Limit: 1, Hold: 500 * time.Millisecond},
		window: window{Start: 0, End: second},
		outcomes: []outcome{{Visits: []visit{
			{1, second / 4, second * 3 / 4}, {2, second * 2, second * 2}, {3, 0, second * 3},
		}}},
	}
	f := workFigures(r)
	assert.Equal(t, 1.0, f["rate"], "the grant after the window does not count")
	assert.Equal(t, 1.0, f["failed"])
	assert.Equal(t, 1.0, f["most"])
	assert.Equal(t, 0.5, f["utilisation"])
	assert.Equal(t, 0.5, f["busy"])
	assert.InDelta(t, 3, f["longest"], 0.001, "who gave up waited too")
	assert.NotContains(t, f, "by token")
}
