package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// play is a short run of the fault of that name.
func play(t *testing.T, name string) *evidence {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, f := range faults() {
		if f.name == name && f.kind == single {
			e, err := run{fault: f, seed: 1, length: 3 * time.Second, binary: self}.play(t.Context())
			require.NoError(t, err)
			return e
		}
	}
	t.Fatalf("there is no fault %q", name)
	return nil
}

func TestARunOnASoundServerSeesGrantsAndPlacesInLine(t *testing.T) {
	e := play(t, "nothing")
	assert.Greater(t, len(e.calls), 50)
	assert.NotEmpty(t, e.monitor.inLine)
	assert.Positive(t, e.fenced.writes)
	placed := 0
	for _, g := range e.grants[poolName] {
		if g.Position > 0 && g.Granted > 0 {
			placed++
		}
	}
	assert.Positive(t, placed, "no grant of somebody who was seen in line: overtakes cannot be seen either")
	assert.NotEmpty(t, e.grants[asideName], "nobody who could be disturbed")
	assert.Empty(t, e.grants[seatName], "nobody was called")
	assert.Empty(t, judge(e))
}

func TestKilledWorkersAreReplacedAndWhatTheyHeldIsAccountedFor(t *testing.T) {
	e := play(t, "kill -9 of workers")
	assert.Greater(t, len(e.members), processes)
	for _, c := range e.calls {
		if e.member(c.Process).killedAt() > 0 && c.Granted > 0 {
			assert.NotZero(t, c.Released, "a dead process holds on")
		}
	}
	assert.Empty(t, judge(e))
}

func TestAPairCannotBeToldApartByItsAgeAndItsAddressesFollowThePrimary(t *testing.T) {
	r, err := startRig(pair, t.TempDir())
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.stop()) }()
	assert.True(t, sameAge(r.nodes))
	require.NoError(t, r.nodes[0].Kill())
	require.NoError(t, promote(r.nodes[1]))
	a := &arena{rig: r}
	a.route(r.nodes[1].Addr())
	// The first command may meet the connection that was cut.
	assert.NoError(t, await(func() error { return r.monitor.Ping(t.Context()).Err() }))
}

func TestClockOfAServerCanBeStepped(t *testing.T) {
	r, err := startRig(skewed, t.TempDir())
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.stop()) }()
	before, err := r.monitor.Time(t.Context()).Result()
	require.NoError(t, err)
	_, err = r.clock.step(-60)
	require.NoError(t, err)
	after, err := r.monitor.Time(t.Context()).Result()
	require.NoError(t, err)
	assert.InDelta(t, -60, after.Sub(before).Seconds(), 5)
}

func TestKeysThatStayTooLongAreLitter(t *testing.T) {
	r, err := startRig(single, t.TempDir())
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.stop()) }()
	for key, left := range map[string]time.Duration{"fairsem:ever": 0, "fairsem:long": time.Minute, "fairsem:soon": time.Second, "other": 0} {
		require.NoError(t, r.monitor.Set(t.Context(), key, "", left).Err())
	}
	litter, err := r.litter(time.Second)
	require.NoError(t, err)
	slices.Sort(litter)
	require.Len(t, litter, 2)
	assert.Contains(t, litter[0], "fairsem:ever")
	assert.Contains(t, litter[1], "fairsem:long")
}

func TestReportIsATableAndItsNumbers(t *testing.T) {
	folder := t.TempDir()
	r := report{Machine: newMachine(t.Context()), Rows: []row{{Fault: "nothing", Kind: single, Grants: 7}}}
	require.NoError(t, r.save(folder))
	table, err := os.ReadFile(filepath.Join(folder, "table.md"))
	require.NoError(t, err)
	assert.Contains(t, string(table), "| nothing | single |")
	assert.FileExists(t, filepath.Join(folder, "results.json"))
}
