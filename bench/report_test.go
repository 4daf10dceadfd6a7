package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	facts "github.com/fairsem/fairsem/internal/machine"
)

// sampleSection returns the results of two contenders in two rounds.
func sampleSection() *section {
	s := &section{Name: "256", Title: "many goroutines", Columns: []string{"rate", "p50"}}
	s.add(redislocks, figures{"rate": 100, "p50": 0.002})
	s.add(fair, figures{"rate": 500, "p50": 0.001})
	s.add(fair, figures{"rate": 900, "p50": 0.001})
	s.add(redislocks, figures{"rate": 150, "p50": 0.002})
	s.inOrder(entries(fair, redislocks))
	return s
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	assert.Equal(t, []float64{5, 6}, sampleSection().ratio("rate", fair, redislocks))
	assert.Empty(t, sampleSection().ratio("rate", fair, asynqs), "one of them was not measured")
}

func TestBestPeerHasTheHighestMedian(t *testing.T) {
	assert.Equal(t, redislocks, sampleSection().best("rate", locks...))
	assert.Empty(t, sampleSection().best("rate", semaphores...))
}

func TestTargetComparesTheMedian(t *testing.T) {
	xs := []float64{1, 5, 6}
	assert.True(t, atLeast(5, "", xs, ratio).Reached)
	assert.False(t, atLeast(5.1, "", xs, ratio).Reached)
	assert.True(t, atMost(5, "", xs, ratio).Reached)
	assert.False(t, atMost(4.9, "", xs, ratio).Reached)
	assert.Equal(t, "5.00 x (1.00 x to 6.00 x)", atMost(5, "", xs, ratio).Measured)
}

func TestNoneIsReachedOnlyIfItHappenedInNoRound(t *testing.T) {
	assert.True(t, none("", series{Rounds: []figures{{"x": 0}, {"x": 0}}}, "x").Reached)
	assert.False(t, none("", series{Rounds: []figures{{"x": 0}, {"x": 1}, {"x": 0}}}, "x").Reached)
}

// A round without the figure proves nothing.
func TestNoneSaysInHowManyRoundsItWasNotMeasured(t *testing.T) {
	unknown := none("", series{Rounds: []figures{{"x": 0}, {"unseen": 2}, {"x": 0}}}, "x")
	assert.Equal(t, "0, not measured in 1 of 3 rounds", unknown.Measured)
	assert.Equal(t, "–", unknown.verdict())
	missed := none("", series{Rounds: []figures{{"x": 1}, {"unseen": 2}, {}}}, "x")
	assert.Equal(t, "1, not measured in 2 of 3 rounds", missed.Measured)
	assert.Equal(t, "no", missed.verdict())
}

func TestTargetWithoutFiguresIsNeitherReachedNorMissed(t *testing.T) {
	for _, target := range []target{atMost(1, "", nil, ratio), atLeast(1, "", nil, ratio), none("", series{}, "x"), none("", series{Rounds: []figures{{}}}, "x")} {
		assert.Equal(t, "–", target.verdict())
	}
}

func TestTablesShowContendersInTheirOrderAndTargets(t *testing.T) {
	s := sampleSection()
	s.Targets = []target{atLeast(5, "at least 5 x redislock", s.ratio("rate", fair, redislocks), ratio)}
	table := report{Machine: machine{Facts: facts.Facts{CPU: "a CPU"}}, Sections: []*section{s}}.table()
	for _, line := range []string{
		"| many goroutines | at least 5 x redislock | 5.50 x (5.00 x to 6.00 x) | yes |",
		"| contender | per second (least to most) | p50 |",
		"| fairsem | 700 (500 to 900) | 1.00 ms |",
		"| redislock | 125 (100 to 150) | 2.00 ms |",
		"a CPU",
	} {
		assert.Contains(t, table, line)
	}
	assert.Less(t, strings.Index(table, "| fairsem"), strings.Index(table, "| redislock"))
}

func TestSavedReportCanBeRead(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	require.NoError(t, report{Sections: []*section{sampleSection()}}.save(folder))
	raw, err := os.ReadFile(filepath.Join(folder, "results.json"))
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(raw, &r))
	assert.Equal(t, sampleSection().Series, r.Sections[0].Series)
	assert.FileExists(t, filepath.Join(folder, "table.md"))
	assert.FileExists(t, filepath.Join(folder, "overview.svg"))
}
