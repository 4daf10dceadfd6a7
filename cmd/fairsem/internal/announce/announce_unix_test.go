//go:build unix

package announce

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inbox returns the file to write to, and a function that reads the next line.
func inbox(t *testing.T) (to *os.File, next func() string) {
	t.Helper()
	r, to, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.SetReadDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() {
		assert.NoError(t, to.Close())
		assert.NoError(t, r.Close())
	})
	lines := bufio.NewReader(r)
	return to, func() string {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		return line
	}
}

func exitCode(t *testing.T, pid int) int {
	t.Helper()
	var state syscall.WaitStatus
	_, err := syscall.Wait4(pid, &state, 0, nil)
	require.NoError(t, err)
	return state.ExitStatus()
}

func TestACommandIsAnnounced(t *testing.T) {
	to, next := inbox(t)
	pid, err := Start(to, "/bin/sh", []string{"sh", "-c", `exit "$1"`, "sh", "7"}, nil, nil)
	require.NoError(t, err)
	assert.Equal(t, 7, exitCode(t, pid))
	assert.Equal(t, strconv.Itoa(pid)+"\n", next())
}

// The errors are those of the command, also when it is executed for another process.
func TestACommandThatCannotBeExecutedHasTheErrorOfADirectStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	for path, want := range map[string]syscall.Errno{
		filepath.Join(dir, "missing"):             syscall.ENOENT,
		file("mode", "#!/bin/sh\n", 0o644):        syscall.EACCES,
		dir:                                       syscall.EACCES,
		file("noformat", "true\n", 0o755):         syscall.ENOEXEC,
		file("nointerpreter", "#!/no/x\n", 0o755): syscall.ENOENT,
		file("notadir", "", 0o755) + "/x":         syscall.ENOTDIR,
	} {
		to, _ := inbox(t)
		args := []string{path}
		_, err := Start(to, path, args, os.Environ(), nil)
		assert.Equal(t, want, err, path)
		_, err = Fork(path, args, os.Environ(), nil)
		assert.Equal(t, want, err, path)
	}
	to, _ := inbox(t)
	_, err := Start(to, "/bin/sh", long(1<<23), nil, nil)
	assert.Equal(t, syscall.E2BIG, err)
}

// A command line that is just short enough leaves no room for the arguments of this program.
func TestACommandIsStartedAndAnnouncedIfThisProgramCannotBeExecuted(t *testing.T) {
	fits, tooLong := 0, 1<<23
	for fits+1 < tooLong {
		n := (fits + tooLong) / 2
		pid, err := Fork("/bin/sh", long(n), nil, nil)
		if errors.Is(err, syscall.E2BIG) {
			tooLong = n
			continue
		}
		require.NoError(t, err)
		require.Zero(t, exitCode(t, pid))
		fits = n
	}
	to, next := inbox(t)
	_, err := startAnnounced(to, "/bin/sh", long(fits), nil, nil)
	require.ErrorIs(t, err, errSilent)
	pid, err := Start(to, "/bin/sh", long(fits), nil, nil)
	require.NoError(t, err)
	assert.Zero(t, exitCode(t, pid))
	assert.Equal(t, strconv.Itoa(pid)+"\n", next())
}

// long returns the arguments of a shell that ends at once, with so many bytes more. None is longer than systems allow.
func long(bytes int) []string {
	const most = 1 << 16
	args := []string{"sh", "-c", ":"}
	for ; bytes > most; bytes -= most {
		args = append(args, strings.Repeat("x", most))
	}
	return append(args, strings.Repeat("x", bytes))
}
