package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A kill -9 leaves nobody to end the group: the command itself dies by the kernel's hand, and what it
// started lives on.
func TestNoCommandOutlivesARunThatWasKilled(t *testing.T) {
	s := newStation(t)
	dir := t.TempDir()
	cmd, _ := s.begin("--limit", "1", "--ttl", "1s", "-c", `trap "" TERM HUP INT; echo $$ >`+dir+`/pid; while :; do sleep 0.01; done`)
	pid := atoi(t, awaitFile(t, dir+"/pid"))
	require.True(t, exists(pid))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	requireGone(t, []int{pid})
	began := time.Now()
	s.awaitLine(0, 0)
	require.Less(t, time.Since(began), 5*time.Second)
}
