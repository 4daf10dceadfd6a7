package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// SettledClient returns a client of [SharedServer], once that server is so old that an unknown name is a new one.
func SettledClient(t testing.TB) *redis.Client {
	t.Helper()
	server := SharedServer(t)
	if err := server.AwaitAge(2); err != nil { // whole seconds, of which the first may have been short
		t.Fatal(err)
	}
	return closedAtEnd(t, redis.NewClient(&redis.Options{Addr: server.Addr()}))
}

// MiniClient returns a client of a miniredis for this test alone.
func MiniClient(t testing.TB) *redis.Client {
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
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, SettledClient(t)) })
	t.Run("miniredis", func(t *testing.T) { t.Parallel(); test(t, MiniClient(t)) })
}

func closedAtEnd(t testing.TB, rdb *redis.Client) *redis.Client {
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}
