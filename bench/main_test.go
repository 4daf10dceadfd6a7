package main

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

// Like the bench binary, the test binary is also the worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == workerArg {
		os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
	}
	// Otherwise a process with the race detector takes a second to end.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(redistest.Main(m))
}

func TestFlagsSelectWhatIsMeasured(t *testing.T) {
	s, err := parse([]string{"-rounds", "7", "-duration", "3s", "-run", "limit|herd", "-out", "there"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 7, s.Rounds)
	assert.Equal(t, 3*time.Second, s.Duration)
	assert.Equal(t, "there", s.out)
	assert.True(t, s.only.MatchString("limit 4"))
	assert.False(t, s.only.MatchString("alone"))
}

// It replaced the results of all workloads.
func TestResultsOfAPartAreElsewhere(t *testing.T) {
	for folder, args := range map[string][]string{"results": nil, partly: {"-run", "alone"}, "there": {"-run", "alone", "-out", "there"}} {
		s, err := parse(args, io.Discard)
		require.NoError(t, err)
		assert.Equal(t, folder, s.out)
	}
}

func TestSmokeIsOneShortRoundWhateverTheOtherFlags(t *testing.T) {
	s, err := parse([]string{"-smoke", "-rounds", "7"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 1, s.Rounds)
	assert.Less(t, s.Duration, time.Second)
	assert.Less(t, s.scale().memoryWaiters, settings{}.scale().memoryWaiters)
}

func TestInvalidFlagsAreReportedAndHelpSucceeds(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-duration", "-1s"}, {"-run", "("}, {"what"}, {"-what"}} {
		var output bytes.Buffer
		assert.Equal(t, 2, execute(args, io.Discard, &output), args)
		assert.NotEmpty(t, output.String(), args)
	}
	assert.Zero(t, execute([]string{"-h"}, io.Discard, io.Discard))
}

func TestEveryWorkloadHasItsOwnName(t *testing.T) {
	seen := make(map[string]bool)
	for _, name := range workloadNames() {
		assert.False(t, seen[name], name)
		seen[name] = true
	}
	for _, p := range panels() {
		assert.True(t, seen[p.section], "the plot shows %q, which no workload measures", p.section)
	}
}
