package look_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/look"
	"github.com/fairsem/fairsem/internal/redistest"
)

func TestClockIsTheServers(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	want, err := server.Client().Time(t.Context()).Result()
	require.NoError(t, err)
	at, err := look.ClockOf(t.Context(), server.Client(), "fairsem", "n")
	require.NoError(t, err)
	assert.WithinDuration(t, want, at, time.Minute)
	assert.False(t, at.Before(want))
}

func TestClockDoesNotWaitLongerThanItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Hour})
	t.Cleanup(func() { _ = rdb.Close() })
	require.NoError(t, rdb.Ping(t.Context()).Err())
	require.NoError(t, server.Pause())
	t.Cleanup(func() { _ = server.Resume() })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel) // while the answer is awaited, or before
	_, err := look.ClockOf(ctx, rdb, "fairsem", "n")
	require.ErrorIs(t, err, context.Canceled)
}
