package redistest

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const soon = time.Minute

// once returns a client that tries once, and waits for an answer for that long.
func once(t *testing.T, addr string, patience time.Duration) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: patience, DialTimeout: patience, PoolTimeout: patience,
	})
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestNewServerAnswersIsEmptyAndDoesNotPersist(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	ctx := t.Context()
	require.NoError(t, s.Client().Ping(ctx).Err())
	require.Zero(t, s.Client().DBSize(ctx).Val())
	require.Equal(t, map[string]string{"save": ""}, s.Client().ConfigGet(ctx, "save").Val())
	require.Equal(t, map[string]string{"appendonly": "no"}, s.Client().ConfigGet(ctx, "appendonly").Val())
	require.True(t, strings.HasPrefix(s.Addr(), "127.0.0.1:"))
}

func TestStartArgumentsReachTheServer(t *testing.T) {
	t.Parallel()
	s := NewServer(t, "--maxmemory", "12mb", "--appendonly", "yes")
	ctx := t.Context()
	require.Equal(t, map[string]string{"maxmemory": "12582912"}, s.Client().ConfigGet(ctx, "maxmemory").Val())
	require.Equal(t, map[string]string{"appendonly": "yes"}, s.Client().ConfigGet(ctx, "appendonly").Val())
}

func TestStopLeavesNoProcessAndNoFolder(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*Server) error{
		"running": func(*Server) error { return nil },
		"paused":  (*Server).Pause,
		"killed":  (*Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewServer(t)
			require.NoError(t, before(s))
			require.NoError(t, s.Stop())
			require.ErrorIs(t, s.proc.signal(syscall.Signal(0)), os.ErrProcessDone)
			require.NoDirExists(t, s.dir)
			require.NoError(t, s.Stop(), "a second Stop does nothing")
			require.ErrorIs(t, s.Restart(), errStopped)
		})
	}
}

func TestFailedStartReportsTheServersLogAndLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	_, err := Start("--no-such-directive", "1")
	require.ErrorContains(t, err, "no-such-directive")
	left, readErr := os.ReadDir(temp)
	require.NoError(t, readErr)
	require.Empty(t, left)
}

func TestPausedServerAnswersAfterResume(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	ctx := t.Context()
	require.NoError(t, s.Client().Ping(ctx).Err())
	require.NoError(t, s.Pause())
	require.Error(t, once(t, s.Addr(), 100*time.Millisecond).Ping(ctx).Err())
	require.NoError(t, s.Resume())
	require.NoError(t, once(t, s.Addr(), soon).Ping(ctx).Err())
}

func TestRestartKeepsThePortAndLosesTheKeys(t *testing.T) {
	t.Parallel()
	s := NewServer(t)
	c := once(t, s.Addr(), soon)
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, "k", "v", 0).Err())
	require.NoError(t, s.Kill())
	require.Error(t, c.Ping(ctx).Err())
	require.Error(t, s.Pause(), "a killed server cannot be paused")
	require.NoError(t, s.Restart())
	require.ErrorIs(t, once(t, s.Addr(), soon).Get(ctx, "k").Err(), redis.Nil)
}

func TestRestartOfAServerThatPersistsKeepsTheKeys(t *testing.T) {
	t.Parallel()
	s := NewServer(t, "--appendonly", "yes", "--appendfsync", "always")
	ctx := t.Context()
	require.NoError(t, s.Client().Set(ctx, "k", "v", 0).Err())
	require.NoError(t, s.Restart())
	require.Equal(t, "v", once(t, s.Addr(), soon).Get(ctx, "k").Val())
}

// If another server answers on the port, the server that failed to bind it is not ready.
func TestServerIsNotReadyIfAnotherServerAnswersOnItsPort(t *testing.T) {
	t.Parallel()
	other := NewServer(t)
	s := NewServer(t)
	require.NoError(t, s.Kill())
	s.args = append(s.args, "--port", strings.TrimPrefix(other.Addr(), "127.0.0.1:"))
	s.addr = other.Addr()
	require.ErrorIs(t, s.Restart(), errPortTaken)
	require.NoError(t, other.Client().Ping(t.Context()).Err())
}

func TestManyServersStartAtOnce(t *testing.T) {
	t.Parallel()
	servers, err := StartAll(12)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, StopAll(servers)) })
	for _, s := range servers {
		require.NoError(t, s.Client().Ping(context.Background()).Err())
	}
}

func TestStartWithAddsToTheEnvironmentOfTheServer(t *testing.T) {
	s, err := StartWith([]string{"LD_PRELOAD=no-such-library.so"})
	needs(t, err)
	defer func() { require.NoError(t, s.Stop()) }()
	require.Contains(t, logTail(s.dir, 100), "no-such-library.so", "the loader warns, and the server starts")
}
