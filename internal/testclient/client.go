// Package testclient gives tests clients of the server that redistest shares, and of a miniredis. It is a package of its own
// because programs use redistest, too, which need no miniredis.
package testclient

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fairsem/fairsem/internal/redistest"
)

// Settled returns a client of [redistest.SharedServer], once that server is so old that an unknown name is a new one.
func Settled(t testing.TB) *redis.Client {
	t.Helper()
	server := redistest.SharedServer(t)
	if err := server.AwaitAge(2); err != nil { // whole seconds, of which the first may have been short
		t.Fatal(err)
	}
	return closedAtEnd(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))
}

// Mini returns a client of a miniredis for this test alone.
func Mini(t testing.TB) *redis.Client {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	m.ClockTTL(true)
	return closedAtEnd(t, redis.NewClient(&redis.Options{Addr: m.Addr()}))
}

// OnBoth runs a test on a real server and on miniredis, side by side.
func OnBoth(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, Settled(t)) })
	t.Run("miniredis", func(t *testing.T) { t.Parallel(); test(t, Mini(t)) })
}

// Hook is a go-redis hook that changes nothing. A hook of a test embeds it, and has the methods that do something.
type Hook struct{}

// DialHook returns next.
func (Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook returns next.
func (Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook returns next.
func (Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Reply is an error with which Redis answers.
type Reply string

func (r Reply) Error() string { return string(r) }

// RedisError makes it one of go-redis.
func (Reply) RedisError() {}

func closedAtEnd(t testing.TB, rdb *redis.Client) *redis.Client {
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}
