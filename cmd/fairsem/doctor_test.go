//go:build unix

package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/doctor"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/internal/redistest"
)

// doctorSays runs the command, and returns its output and its exit code.
func doctorSays(t *testing.T, args ...string) (out, notify string, code int) {
	t.Helper()
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "fairsem", append([]string{"doctor"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	code = exitCode(cmd.Run())
	return stdout.String(), stderr.String(), code
}

func TestTheDoctorOfAHealthyServerWritesPlainWordsIntoAPipe(t *testing.T) {
	t.Parallel()
	url := "redis://" + redistest.NewServer(t).Addr()
	prefix := "p-" + uuid.NewString()
	out, notify, code := doctorSays(t, "--redis", url, "--prefix", prefix)
	assert.Zero(t, code, out)
	assert.Empty(t, notify)
	for line := range strings.Lines(out) {
		assert.Regexp(t, `^(ok|warn|skip) +[a-z]+ +\S.*\n$|^ +do: |^\n$|^\d+ ok, \d+ warnings?, 0 failures, \d+ skipped\n$`, line)
	}
	assert.Regexp(t, `(?m)^ok    scripts      a permit is granted`, out)
	assert.NotContains(t, out, "\x1b")
}

func TestTheDoctorsExitCodeIsOneIfSomethingFailedAndIfWantedForWarnings(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	url := "redis://" + s.Addr()
	require.NoError(t, s.Client().ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	out, _, code := doctorSays(t, "--redis", url)
	assert.Zero(t, code, out)
	assert.Regexp(t, `(?m)^warn  eviction     allkeys-lru.*\n +do: CONFIG SET maxmemory-policy noeviction`, out)
	_, notify, code := doctorSays(t, "--redis", url, "--strict")
	assert.Equal(t, 1, code)
	assert.Empty(t, notify)
	require.NoError(t, s.Client().ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	out, notify, code = doctorSays(t, "--redis", url, "no such name")
	assert.Equal(t, 1, code)
	assert.Empty(t, notify)
	assert.Regexp(t, `(?m)^fail  eviction `, out)
	assert.Contains(t, out, `"no such name": Redis knows no such name`)
}

func TestTheDoctorsJSONIsOneObjectWithAllChecks(t *testing.T) {
	t.Parallel()
	s := redistest.NewServer(t)
	out, _, code := doctorSays(t, "--json", "--redis", "redis://"+s.Addr(), "--prefix", "p-"+uuid.NewString(), "nobody \x1b\u009b")
	assert.Equal(t, 1, code)
	requireHarmless(t, out)
	var report doctor.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, s.Addr(), report.Server)
	assert.EqualValues(t, 1, report.Count[doctor.Fail])
	last := report.Checks[len(report.Checks)-1]
	assert.Equal(t, doctor.Finding{
		Check: "semaphores", State: doctor.Fail, Message: `"nobody \x1b\u009b": Redis knows no such name`,
		Advice: "fairsem ls shows those that are in use", Details: map[string]any{"name": "nobody \x1b\u009b"},
	}, last)
}

func TestTheDoctorDoesNotShowAPasswordThatIsWrong(t *testing.T) {
	t.Parallel()
	s := redistest.NewSecure(t)
	out, notify, code := doctorSays(t, "--redis", "rediss://default:geheim@"+s.Addr()+"?skip_verify=true")
	assert.Equal(t, exit.Failure, code)
	assert.Empty(t, out)
	assert.Regexp(t, `^fairsem: Redis at 127\.0\.0\.1:\d+ refuses: WRONGPASS .*; check address, user and password\n$`, notify)
	assert.NotContains(t, notify, "geheim")
}
