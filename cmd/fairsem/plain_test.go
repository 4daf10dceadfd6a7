package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainDir is where [TestMain] has the plain program, which is a fairsem without the race detector. It starts in a third of the
// time, and is for the commands that a test runs one after another, to compare their texts and exit codes. What runs for long, or
// does several things at once, is the program on the PATH of the tests, which has the race detector.
var plainDir string

// buildPlain builds the plain program when the first test needs it.
var buildPlain = sync.OnceValue(func() error {
	// In CI the checkout may belong to another user, which git refuses.
	build := exec.Command("go", "build", "-race=false", "-buildvcs=false", "-ldflags=-s -w", "-o", plainDir, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return nil
})

// plainPath returns a PATH on which the plain program comes first.
func plainPath(t testing.TB) string {
	t.Helper()
	require.NoError(t, buildPlain())
	return plainDir + string(filepath.ListSeparator) + os.Getenv("PATH")
}

// plainCommand returns a command of the plain program.
func plainCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path := plainPath(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(plainDir, "fairsem"), args...)
	cmd.Args[0] = "fairsem"
	cmd.Env = append(os.Environ(), "PATH="+path)
	return cmd
}
