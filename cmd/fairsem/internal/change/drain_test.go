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

// The wait is shorter than the time between two polls. What the first one found was reported as the end.
func TestAWaitForHoldersEndsWithAPoll(t *testing.T) {
	t.Parallel()
	client, err := fairsem.New(redistest.NewServer(t).Client(), fairsem.Options{TTL: 10 * time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	p, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	var messages written = func([]byte) { assert.NoError(t, p.Release(t.Context())) } // that there is one holder
	d := Target{Client: client, Name: "n", Messages: messages, Out: io.Discard}
	require.NoError(t, sem.SetLimit(t.Context(), 0))
	require.NoError(t, d.Drained(t.Context(), drainPoll/2))
}

// written is a Writer that is called with what is written.
type written func([]byte)

func (f written) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
