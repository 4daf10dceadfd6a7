package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

func TestNothingOutlivesARunThatWasKilled(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, _ := s.begin("--limit", "1", "--ttl", "1s", "-c", `trap "" TERM HUP INT; (while :; do sleep 0.01; done) & echo $! >`+dir+`/pid; wait`)
	inner := atoi(t, awaitFile(t, dir+"/pid"))
	t.Cleanup(func() { _ = syscall.Kill(inner, syscall.SIGKILL) })
	outer := children(t, cmd.Process.Pid)
	require.Len(t, outer, 2, "the command and its guard")
	require.True(t, exists(inner))
	require.NoError(t, cmd.Process.Kill())
	_, _ = cmd.Process.Wait() // cmd.Wait would wait for all that can write to the output
	requireGone(t, append(outer, inner))
	began := time.Now()
	s.awaitState(0, 0)
	require.Less(t, time.Since(began), 5*time.Second)
}

// A zombie is in the group until its parent reaps it, and the parent may have left the group. After a loss, no process
// was to be killed any more, and the run went on for as long as the parent.
func TestAnUnreapedZombieDoesNotKeepARunAlive(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, out := s.begin("--limit", "1", "-c", `trap "" TERM; sh -c 'true & exec setsid sh -c "echo up >`+dir+`/up; exec sleep 300 >/dev/null 2>&1"' & echo $! >`+dir+`/parent; while :; do sleep 0.01; done`)
	parent := atoi(t, awaitFile(t, dir+"/parent"))
	t.Cleanup(func() { _ = syscall.Kill(parent, syscall.SIGKILL) })
	awaitFile(t, dir+"/up")
	for holder, err := range s.sem(1).Holders(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, s.sem(1).Evict(t.Context(), holder.ID))
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the run, which ends with the test
	select {
	case err := <-ended:
		require.Equal(t, exit.Lost, exitCode(err), out)
		require.Contains(t, out.String(), "cannot be removed")
	case <-time.After(30 * time.Second):
		require.Fail(t, "the run does not end", out)
	}
}
