package fairsem_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

// xsyncSemaphore is the package whose tests must pass on Weighted, too.
const xsyncSemaphore = "golang.org/x/sync/semaphore"

// This runs the tests of x/sync, unchanged, on Weighted and a real server. Some calls have a timeout of 10 ms, which may be too
// short on a busy machine. So the tests do not run in parallel with others, and up to three times.
func TestWeightedPassesTheTestsOfXSync(t *testing.T) {
	redistest.Program(t, "go")
	work, wanted := xsyncOnWeighted(t)
	require.NotEmpty(t, wanted)
	passed, output, err := testXSync(t, work)
	for tries := 1; err != nil && tries < 3; tries++ {
		passed, output, err = testXSync(t, work)
	}
	require.NoError(t, err, output)
	assert.ElementsMatch(t, wanted, passed, output)
}

// xsyncOnWeighted creates a workspace in which the tests of x/sync run on Weighted. It returns its file and the names of the tests.
func xsyncOnWeighted(t *testing.T) (work string, wanted []string) {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	dir := t.TempDir()
	module := filepath.Join(dir, "sync")
	original, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sync").Output()
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(module, os.DirFS(strings.TrimSpace(string(original)))))
	theirs, err := filepath.Glob(filepath.Join(module, "semaphore", "*_test.go"))
	require.NoError(t, err)
	for _, file := range theirs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`).FindAllSubmatch(text, -1) {
			wanted = append(wanted, string(found[1]))
		}
	}
	for _, file := range []string{"semaphore.go", "main_test.go"} { // the first replaces the file of x/sync
		text, err := os.ReadFile(filepath.Join("testdata", "xsync", file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(module, "semaphore", file), text, 0o600))
	}
	work = filepath.Join(dir, "go.work")
	require.NoError(t, os.WriteFile(work, fmt.Appendf(nil, "go 1.26.0\n\nuse (\n\t%q\n\t%q\n)\n", here, module), 0o600))
	return work, wanted
}

// testXSync runs the tests once, and returns the names of those that passed, what they printed, and how it ended.
func testXSync(t *testing.T, work string) (passed []string, output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-count=1", xsyncSemaphore)
	cmd.Env = append(os.Environ(), "GOWORK="+work, "FAIRSEM_XSYNC_REDIS="+redistest.SharedServer(t).Addr())
	events, err := cmd.Output()
	for line := range bytes.Lines(events) {
		var ev struct{ Action, Test, Output string }
		require.NoError(t, json.Unmarshal(line, &ev), "%s", line)
		output += ev.Output
		if ev.Action == "pass" && ev.Test != "" {
			passed = append(passed, ev.Test)
		}
	}
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		output += string(exit.Stderr)
	}
	return passed, output, err
}
