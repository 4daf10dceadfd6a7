package redistest

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// outcome records how a test ended.
type outcome struct {
	testing.TB
	skipped, failed bool
}

func (*outcome) Helper()                {}
func (o *outcome) Skipf(string, ...any) { o.skipped = true; runtime.Goexit() }
func (o *outcome) Fatal(...any)         { o.failed = true; runtime.Goexit() }

// runTest runs body like a test.
func runTest(body func(testing.TB)) *outcome {
	o := &outcome{}
	done := make(chan struct{})
	// Ends with body or its Goexit. This function waits for it.
	go func() {
		defer close(done)
		body(o)
	}()
	<-done
	return o
}

func TestMissingServerFailsInCI(t *testing.T) {
	t.Setenv("FAIRSEM_REDIS_SERVER", "/nowhere/redis-server")
	t.Setenv("CI", "true")
	o := runTest(func(t testing.TB) { t.Helper(); NewServer(t) })
	require.True(t, o.failed)
	require.False(t, o.skipped)
}

func TestMissingProgramFailsInCIAndSkipsElsewhere(t *testing.T) {
	for environment, inCI := range map[string]bool{"true": true, "": false} {
		t.Setenv("CI", environment)
		o := runTest(func(t testing.TB) { t.Helper(); Program(t, "no-such-program") })
		require.Equal(t, inCI, o.failed)
		require.Equal(t, !inCI, o.skipped)
	}
}

func TestProgramReturnsThePathOfAProgram(t *testing.T) {
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
		o := runTest(body)
		require.True(t, o.skipped)
		require.False(t, o.failed)
	}
}

func TestSharedServerIsOnePerProcess(t *testing.T) {
	t.Parallel()
	require.Same(t, SharedServer(t), SharedServer(t))
	require.Same(t, SharedServer(t).Client(), SharedServer(t).Client())
}

// A test binary that panics or is killed must not leave a server. This test runs a process that ends right after it has started
// one.
func TestServerDiesWithAProcessThatCrashes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can kill a child when its parent ends")
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
		return (&Server{addr: addr}).do("PING").Err() != nil
	}, soon, pollEvery)
}

// crash runs this test in another process, which ends at once. It returns the address of the server of that process.
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
