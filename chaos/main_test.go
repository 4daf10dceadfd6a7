package main

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Like the chaos binary, the test binary is also the worker.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == workerArg {
		os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
	}
	// Otherwise a process with the race detector takes a second to end.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

func TestFlagsSelectTheRuns(t *testing.T) {
	s, err := parse([]string{"-for", "7s", "-seeds", "3", "-seed", "42", "-run", "OOM|kill"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 7*time.Second, s.Length)
	assert.Equal(t, uint64(42), s.Seed)
	assert.True(t, s.only.MatchString("kill -9 of workers, single"))
	runs := s.runs(s.faults()[:1], "worker")
	require.Len(t, runs, 3)
	assert.Equal(t, uint64(44), runs[2].seed, "each run of a fault has its own seed")
}

func TestResultsOfSomeFaultsDoNotReplaceThoseOfAll(t *testing.T) {
	for folder, args := range map[string][]string{"results": nil, "": {"-run", "OOM"}, "there": {"-run", "OOM", "-out", "there"}} {
		s, err := parse(args, io.Discard)
		require.NoError(t, err)
		assert.Equal(t, folder, s.out)
	}
}

func TestInvalidFlagsAreReportedAndHelpSucceeds(t *testing.T) {
	for _, args := range [][]string{{"-seeds", "0"}, {"-for", "1ms"}, {"-run", "("}, {"what"}, {"-what"}, {"-parallel", "0"}} {
		var output bytes.Buffer
		assert.Equal(t, 2, execute(args, io.Discard, &output), args)
		assert.NotEmpty(t, output.String(), args)
	}
	assert.Zero(t, execute([]string{"-h"}, io.Discard, io.Discard))
	assert.Equal(t, 1, execute([]string{"-run", "no such fault"}, io.Discard, io.Discard))
}

func TestListShowsEveryFault(t *testing.T) {
	var out bytes.Buffer
	require.Zero(t, execute([]string{"-list"}, &out, io.Discard))
	for _, f := range faults() {
		assert.Contains(t, out.String(), f.name+", "+f.kind+"\n")
	}
}

func TestEveryFaultHasItsOwnFileName(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range faults() {
		assert.False(t, seen[f.slug()], f.slug())
		seen[f.slug()] = true
		assert.NotNil(t, f.strike, f.name)
	}
}
