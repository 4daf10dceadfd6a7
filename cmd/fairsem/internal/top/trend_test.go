package top

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
)

// seen are the answers about one name, a second apart: all grants so far, and all expiries.
func seen(granted, expired []int64) (rows []row) {
	var tr trend
	at := time.Unix(1000, 0)
	for i := range granted {
		rows = append(rows, tr.add(at.Add(time.Duration(i)*time.Second), []fairsem.Status{{Name: "n", Granted: granted[i], Expired: expired[i]}})[0])
	}
	return rows
}

func TestRateIsTheMeanOfTheLastSecondsAndUnknownAtFirst(t *testing.T) {
	t.Parallel()
	rows := seen([]int64{100, 110, 110, 140, 140, 140, 140, 140, 140}, make([]int64, 9))
	assert.False(t, rows[0].rated)
	var rates []float64
	for _, r := range rows[1:] {
		assert.True(t, r.rated)
		rates = append(rates, r.Rate)
	}
	assert.InDeltaSlice(t, []float64{10, 5, 40. / 3, 10, 8, 6, 6, 0}, rates, 1e-9, "nothing was granted in the last five seconds")
}

func TestRateAfterALongPauseIsThatOfThePause(t *testing.T) {
	t.Parallel()
	var tr trend
	at := time.Unix(1000, 0)
	tr.add(at, []fairsem.Status{{Name: "n"}})
	tr.add(at.Add(time.Second), []fairsem.Status{{Name: "n", Granted: 100}})
	r := tr.add(at.Add(21*time.Second), []fairsem.Status{{Name: "n", Granted: 120}})[0]
	assert.InDelta(t, 1, r.Rate, 1e-9)
}

func TestLossIsRecentForAWhile(t *testing.T) {
	t.Parallel()
	expired := []int64{7, 7, 8, 8, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 2, 3}
	var gains []int64
	for _, r := range seen(make([]int64, len(expired)), expired) {
		gains = append(gains, r.gain)
	}
	assert.Equal(t, []int64{0, 0, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0, 0, 1}, gains,
		"not what expired before, nor the expiries of a server that counts from the start")
}

func TestACopyOfATrendDoesNotChange(t *testing.T) {
	t.Parallel()
	var tr trend
	at := time.Unix(1000, 0)
	tr.add(at, []fairsem.Status{{Name: "a"}, {Name: "b"}})
	before := tr
	tr.add(at.Add(time.Second), []fairsem.Status{{Name: "a", Granted: 5}})
	rows := before.add(at.Add(2*time.Second), []fairsem.Status{{Name: "a", Granted: 6}, {Name: "b", Granted: 8}})
	assert.InDelta(t, 3, rows[0].Rate, 1e-9)
	assert.InDelta(t, 4, rows[1].Rate, 1e-9)
}
