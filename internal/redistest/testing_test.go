package redistest

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict records how a test ended.
type verdict struct {
	testing.TB
	skipped, failed bool
}

func (*verdict) Helper()                {}
func (v *verdict) Skipf(string, ...any) { v.skipped = true; runtime.Goexit() }
func (v *verdict) Fatal(...any)         { v.failed = true; runtime.Goexit() }

// judge runs body as a test would be run.
func judge(body func(testing.TB)) *verdict {
	v := &verdict{}
	done := make(chan struct{})
	// Ends with body, at the latest with its Goexit; waited for below.
	go func() {
		defer close(done)
		body(v)
	}()
	<-done
	return v
}

func TestMissingServerFailsInCI(t *testing.T) {
	t.Setenv("FAIRSEM_REDIS_SERVER", "/nowhere/redis-server")
	t.Setenv("CI", "true")
	v := judge(func(t testing.TB) { t.Helper(); NewServer(t) })
	require.True(t, v.failed)
	require.False(t, v.skipped)
}

func TestMissingProgramFailsInCIAndSkipsElsewhere(t *testing.T) {
	for environment, inCI := range map[string]bool{"true": true, "": false} {
		t.Setenv("CI", environment)
		v := judge(func(t testing.TB) { t.Helper(); Program(t, "no-such-program") })
		require.Equal(t, inCI, v.failed)
		require.Equal(t, !inCI, v.skipped)
	}
}

func TestProgramIsFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, os.Args[0], Program(t, os.Args[0]))
}

func TestMissingServerSkipsElsewhere(t *testing.T) {
	t.Setenv("FAIRSEM_REDIS_SERVER", "/nowhere/redis-server")
	t.Setenv("CI", "")
	for _, body := range []func(testing.TB){
		func(t testing.TB) { t.Helper(); NewServer(t) },
		func(t testing.TB) { t.Helper(); NewCluster(t) },
		func(t testing.TB) { t.Helper(); NewSentinel(t) },
	} {
		v := judge(body)
		require.True(t, v.skipped)
		require.False(t, v.failed)
	}
}

func TestSharedServerIsOnePerProcess(t *testing.T) {
	t.Parallel()
	require.Same(t, SharedServer(t), SharedServer(t))
	require.Same(t, SharedServer(t).Client(), SharedServer(t).Client())
}

// A test binary that panics or is killed must not leave a server: the process below dies right after it started one.
func TestServerDiesWithAProcessThatCrashes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent died")
	}
	if os.Getenv("REDISTEST_CRASH") != "" {
		s, err := Start()
		require.NoError(t, err)
		_, _ = os.Stdout.WriteString(s.Addr())
		os.Exit(1)
	}
	t.Parallel()
	addr := crash(t)
	require.Eventually(t, func() bool {
		return (&Server{addr: addr}).ask("PING").Err() != nil
	}, soon, pollEvery)
}

// crash runs this test again in a process that dies, and returns the address of its server.
func crash(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServerDiesWithAProcessThatCrashes$")
	cmd.Env = append(os.Environ(), "REDISTEST_CRASH=1", "TMPDIR="+t.TempDir())
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Contains(t, string(out), "127.0.0.1:")
	return string(out)
}
