package change

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// It lasted for as long as the client retries, twice, whatever the wait was.
func TestAWaitForHoldersEndsThoughTheServerHangs(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	client, err := fairsem.New(server.Client(), fairsem.Options{TTL: 10 * time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, server.Resume())
		assert.NoError(t, client.Close())
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d := Target{Client: client, Name: "n", Messages: io.Discard, Out: io.Discard}
	err = d.Pause(ctx, true, func(ctx context.Context) error {
		require.NoError(t, server.Pause())
		return d.Drained(ctx, time.Millisecond)
	})
	require.ErrorIs(t, err, errNoAnswer)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	require.NoError(t, ctx.Err())
}
