package fairsem_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
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
	tests, wanted := xsyncOnWeighted(t)
	require.NotEmpty(t, wanted)
	passed, output, err := testXSync(t, tests)
	for tries := 1; err != nil && tries < 3; tries++ {
		passed, output, err = testXSync(t, tests)
	}
	require.NoError(t, err, output)
	assert.ElementsMatch(t, wanted, passed, output)
}

// xsyncOnWeighted builds the tests of x/sync on Weighted. It returns their program, and the names of the tests that there
// are. Their module exists in an overlay only: its paths are the same in each run, so the compiled packages are cached.
func xsyncOnWeighted(t *testing.T) (tests string, wanted []string) {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	original, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sync").Output()
	require.NoError(t, err)
	from, module := strings.TrimSpace(string(original)), filepath.Join(here, "testdata", "xsync", "sync")
	replace := make(map[string]string)
	require.NoError(t, fs.WalkDir(os.DirFS(from), ".", func(path string, file fs.DirEntry, err error) error {
		if err == nil && !file.IsDir() {
			replace[filepath.Join(module, path)] = filepath.Join(from, path)
		}
		return err
	}))
	theirs, err := filepath.Glob(filepath.Join(from, "semaphore", "*_test.go"))
	require.NoError(t, err)
	for _, file := range theirs {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func ((?:Test|Example)\w*)\(`).FindAllSubmatch(text, -1) {
			wanted = append(wanted, string(found[1]))
		}
	}
	for _, file := range []string{"semaphore.go", "main_test.go"} { // the first replaces theirs
		replace[filepath.Join(module, "semaphore", file)] = filepath.Join(here, "testdata", "xsync", file)
	}
	dir := t.TempDir()
	work, overlay := filepath.Join(dir, "go.work"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(work, fmt.Appendf(nil, "go 1.26.0\n\nuse (\n\t%q\n\t%q\n)\n", here, module), 0o600))
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, text, 0o600))
	tests = filepath.Join(dir, "semaphore.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", tests, xsyncSemaphore)
	build.Env = append(os.Environ(), "GOWORK="+work)
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return tests, wanted
}

// testXSync runs the tests once, and returns the names of the tests that passed, their output, and how it ended.
func testXSync(t *testing.T, tests string) (passed []string, output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tests, "-test.v")
	cmd.Env = append(os.Environ(), "FAIRSEM_XSYNC_REDIS="+redistest.SharedServer(t).Addr())
	text, err := cmd.CombinedOutput()
	for _, found := range regexp.MustCompile(`(?m)^--- PASS: (\w+)`).FindAllSubmatch(text, -1) {
		passed = append(passed, string(found[1]))
	}
	return passed, string(text), err
}
