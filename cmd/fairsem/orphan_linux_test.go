package main

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/demo"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/orphan"
)

func TestNoWorkerOutlivesADemoThatWasKilled(t *testing.T) {
	t.Parallel()
	d := start(t, "--for", "1h")
	d.await("3 of 3 used")
	workers := children(t, d.cmd.Process.Pid)
	require.Len(t, workers, demo.Workers)
	require.NoError(t, d.cmd.Process.Kill())
	d.wait()
	requireGone(t, workers)
}

func TestNoWorkerOutlivesADemoThatWasInterrupted(t *testing.T) {
	t.Parallel()
	d := start(t, "--for", "1h")
	d.await("3 of 3 used")
	workers := children(t, d.cmd.Process.Pid)
	require.Len(t, workers, demo.Workers)
	require.NoError(t, d.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 130, d.wait())
	for _, pid := range workers {
		require.False(t, exists(pid), "the demo ended before worker %d", pid)
	}
}

func requireGone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !exists(pid) }, time.Minute, 10*time.Millisecond, "pid %d", pid)
	}
}

// exists says whether a process runs. One that ended and was not waited for does not.
func exists(pid int) bool {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := p.Stat()
	return err == nil && orphan.Runs(stat)
}

// children are the processes that a process has started.
func children(t *testing.T, parent int) (pids []int) {
	t.Helper()
	all, err := procfs.AllProcs()
	require.NoError(t, err)
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PPID == parent { // an error: ended meanwhile
			pids = append(pids, p.PID)
		}
	}
	return pids
}
