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

// executeFault executes a short run of a fault.
func executeFault(t *testing.T, name string) *evidence {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, f := range faults() {
		if f.name == name && f.kind == single {
			e, err := run{fault: f, seed: 1, length: 3 * time.Second, binary: self}.execute(t.Context())
			require.NoError(t, err)
			return e
		}
	}
	t.Fatalf("there is no fault %q", name)
	return nil
}

func TestRunWithoutFaultRecordsGrantsAndPositions(t *testing.T) {
	e := executeFault(t, "nothing")
	assert.Greater(t, len(e.calls), 50)
	assert.NotEmpty(t, e.monitor.queued)
	for i, c := range e.counters {
		assert.Positive(t, c.fenced.writes, counterName(i))
	}
	assert.Positive(t, e.common, "one token for all of slots refuses live holders")
	queued := 0
	for _, g := range e.grants[poolName] {
		if g.Position > 0 && g.Granted > 0 {
			queued++
		}
	}
	assert.Positive(t, queued, "without a grant of a call that was seen in the queue, overtakes cannot be found")
	assert.NotEmpty(t, e.grants[asideName], "no call that the fault does not concern")
	assert.Empty(t, e.grants[seatName], "no process on call was started")
	assert.Empty(t, check(e))
}

func TestKilledWorkersAreRequeuedAndTheirPermitsEnd(t *testing.T) {
	e := executeFault(t, "kill -9 of workers")
	assert.Greater(t, len(e.processes), workers)
	for _, c := range e.calls {
		if e.process(c.Process).killedAt() > 0 && c.Granted > 0 {
			assert.NotZero(t, c.Released, "a killed process still holds")
		}
	}
	assert.Empty(t, check(e))
}

func TestPairHasTheSameLastSaveAndItsAddressesFollowThePrimary(t *testing.T) {
	r, err := startDeployment(pair, t.TempDir())
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.stop()) }()
	assert.True(t, sameLastSave(r.nodes))
	require.NoError(t, r.nodes[0].Kill())
	require.NoError(t, promote(r.nodes[1]))
	env := &environment{deployment: r}
	env.redirect(r.nodes[1].Addr())
	// The first command may use a connection that was cut.
	assert.NoError(t, await(func() error { return r.monitor.Ping(t.Context()).Err() }))
}

// A crash of the library was taken for the strike.
func TestProcessThatHadEndedWhenItWasKilledIsReported(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "crashes")
	require.NoError(t, os.WriteFile(binary, []byte("#!/bin/sh\nread -r config\nexit 3\n"), 0o700))
	s := &processSet{binary: binary, folder: t.TempDir(), address: func(int, string) address { return address{} }}
	require.NoError(t, s.startWorker())
	proc := s.all()[0]
	<-proc.exited
	proc.kill()
	assert.ErrorContains(t, s.stop(), "exit status 3")
}

func TestClockOfAServerCanBeStepped(t *testing.T) {
	r, err := startDeployment(skewed, t.TempDir())
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

func TestLeftoversAreTheKeysThatStayTooLong(t *testing.T) {
	r, err := startDeployment(single, t.TempDir())
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.stop()) }()
	for key, left := range map[string]time.Duration{"fairsem:ever": 0, "fairsem:long": time.Minute, "fairsem:soon": time.Second, "other": 0} {
		require.NoError(t, r.monitor.Set(t.Context(), key, "", left).Err())
	}
	leftovers, err := r.leftovers(time.Second)
	require.NoError(t, err)
	slices.Sort(leftovers)
	require.Len(t, leftovers, 2)
	assert.Contains(t, leftovers[0], "fairsem:ever")
	assert.Contains(t, leftovers[1], "fairsem:long")
}

func TestReportWritesATableAndResults(t *testing.T) {
	folder := t.TempDir()
	r := report{Machine: newMachine(t.Context()), Rows: []row{{Fault: "nothing", Kind: single, Grants: 7}}}
	require.NoError(t, r.save(folder))
	table, err := os.ReadFile(filepath.Join(folder, "table.md"))
	require.NoError(t, err)
	assert.Contains(t, string(table), "| nothing | single |")
	assert.FileExists(t, filepath.Join(folder, "results.json"))
}

func TestLongestRunBeginsFirst(t *testing.T) {
	lasts := func(length, least time.Duration) run { return run{fault: fault{minLength: least}, length: length} }
	runs := []run{lasts(8*time.Second, 0), lasts(8*time.Second, 12*time.Second), lasts(8*time.Second, 0), lasts(20*time.Second, 0)}
	assert.Equal(t, []int{3, 1, 0, 2}, longestFirst(runs))
}
