// Package examples_test runs the examples.
package examples_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// Programs that users copy have at most as many lines as can be read in one go.
const mostLines = 150

func TestExamplesDoWhatTheirPageSaysOnAServerOfTheirOwnAndOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.SharedServer(t)
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	programs := build(t)
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, mains)
	for _, file := range mains {
		name := filepath.Dir(file)
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.LessOrEqual(t, bytes.Count(source, []byte("\n")), mostLines, file)
		shown := regexp.MustCompile("(?s)<!-- output: " + name + " -->\n```\n\\$ go run ./examples/" + name + "\n(.*?)```").FindSubmatch(page)
		require.NotNil(t, shown, "README.md shows what %s prints", name)
		for where, url := range map[string]string{"embedded": "", "Redis": "redis://" + server.Addr()} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				assert.Equal(t, withoutNumbers(string(shown[1])), withoutNumbers(output(t, filepath.Join(programs, name), url)))
			})
		}
	}
}

// build builds the examples as this test was built, in a folder.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir() + string(filepath.Separator)
	args := []string{"build", "-buildvcs=false", "-o", dir}
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	for _, flag := range info.Settings {
		if flag.Key == "-race" || flag.Key == "-gcflags" {
			args = append(args, flag.Key+"="+flag.Value)
		}
	}
	said, err := exec.CommandContext(t.Context(), "go", append(args, "./...")...).CombinedOutput()
	require.NoError(t, err, string(said))
	return dir
}

// output returns the output of a program. Unless all that it checks holds, the program fails.
func output(t *testing.T, program, url string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "REDIS_URL="+url, "GORACE=atexit_sleep_ms=0")
	var failure strings.Builder
	cmd.Stderr = &failure
	said, err := cmd.Output()
	require.NoError(t, err, "%s%s", said, &failure)
	return string(said)
}

// withoutNumbers leaves out the numbers, which differ from run to run.
func withoutNumbers(text string) string { return regexp.MustCompile(`\d+`).ReplaceAllString(text, "N") }
