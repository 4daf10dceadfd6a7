package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
)

// nobody is a user without the right to send signals to root.
const nobody = 65534

// beginAsNobody starts a run that cannot end all of its group: it is nobody's, and a process of root joins it. The command
// exits with 3 once the file go is there.
func (s *station) beginAsNobody(args ...string) (run *exec.Cmd, out *transcript.Transcript, member *exec.Cmd, goOn func()) {
	s.t.Helper()
	if os.Geteuid() != 0 && os.Getenv("CI") != "true" {
		s.t.Skip("SKIPPED, NOTHING WAS TESTED: only root can start the processes of two users")
	}
	require.Zero(s.t, os.Geteuid(), "only root can start the processes of two users: CI runs as root")
	dir := openDir(s.t)
	run, out = s.command(append(args, "-c", `echo $$ >`+dir+`/pid; until test -e `+dir+`/go; do sleep 0.01; done; exit 3`)...), &transcript.Transcript{}
	run.Path = copyOf(s.t, run.Path, dir)
	run.Stdout, run.Stderr = out, out
	run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	require.NoError(s.t, run.Start())
	group := atoi(s.t, awaitFile(s.t, dir+"/pid"))
	member = exec.CommandContext(s.t.Context(), "sleep", "300")
	member.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	require.NoError(s.t, member.Start())
	return run, out, member, func() { require.NoError(s.t, os.WriteFile(dir+"/go", nil, 0o644)) }
}

// openDir is a directory for every user.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}

// copyOf puts the program where every user finds it. Another process writes the file: a child that a parallel test starts meanwhile
// would have the file of this process open for writing, too, and a file that is open for writing cannot be executed.
func copyOf(t *testing.T, program, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "fairsem")
	out, err := exec.CommandContext(t.Context(), "cp", program, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Chmod(file, 0o755))
	return file
}

// end has the member of the group end.
func end(t *testing.T, member *exec.Cmd) {
	t.Helper()
	require.NoError(t, member.Process.Kill())
	require.ErrorContains(t, member.Wait(), "killed")
}

// A group that no signal can reach was taken for one that is gone: the permit was released while sudo's
// command ran.
func TestAPermitIsHeldWhileAProcessOfAnotherUserRunsInTheGroup(t *testing.T) {
	s := newStation(t)
	run, out, member, goOn := s.beginAsNobody("--limit", "1", "--ttl", "9s")
	goOn()
	s.awaitRenewals(2) // 6 s: three times as long as the kernel gets to remove killed processes
	assert.Contains(t, out.String(), "cannot be ended, because it is another user's or hangs in the kernel; the permit is held until it has ended")
	assert.Regexp(t, `^[^\n]*\n$`, out.String(), "reported once")
	end(t, member)
	assert.Equal(t, 3, exitCode(run.Wait()), out)
	s.awaitState(0, 0)
}

// awaitRenewals waits until the lease of the only permit has been renewed so often.
func (s *station) awaitRenewals(n int) {
	s.t.Helper()
	for left := time.Duration(math.MaxInt64); n > 0; <-time.After(10 * time.Millisecond) {
		holders := s.tickets(s.sem(1).Holders(s.t.Context()))
		require.Len(s.t, holders, 1, "%d renewals before", n)
		if holders[0].ExpiresIn > left {
			n--
		}
		left = holders[0].ExpiresIn
	}
}

// The error said that it had been ended.
func TestALossReportsThatTheGroupCouldNotBeEnded(t *testing.T) {
	s := newStation(t)
	run, out, member, _ := s.beginAsNobody("--limit", "1", "--ttl", "3s")
	s.evict()
	assert.Equal(t, exit.Lost, exitCode(run.Wait()))
	assert.Contains(t, out.String(), "cannot be ended, because it is another user's or hangs in the kernel; the units can be granted to others while it runs")
	assert.Regexp(t, `the permit on "n" was lost \(evicted by [^ )]+\), and /bin/sh could not be ended`, out.String())
	end(t, member)
}
