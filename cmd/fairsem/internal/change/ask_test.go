package change

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// Changes that happen while a question waits for its yes.

// asked makes a change to the name n of a fresh server: meanwhile happens before the yes.
func asked(t *testing.T, meanwhile func()) (client *fairsem.Client, server *redistest.Server, target Target, out *bytes.Buffer) {
	t.Helper()
	server = redistest.NewServer(t)
	client, err := fairsem.New(server.Client(), fairsem.Options{Label: "me", TTL: 10 * time.Minute}) // nothing is renewed meanwhile
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	out = &bytes.Buffer{}
	ask := func(context.Context) (bool, error) {
		meanwhile()
		return true, nil
	}
	return client, server, Target{Client: client, Name: "n", Messages: io.Discard, Ask: ask, JSON: true, Out: out}, out
}

// It interrupted the work of a holder, and the result said that a waiter was evicted.
func TestAWaiterThatIsGrantedItsPermitBeforeTheYesIsEvictedAsAHolder(t *testing.T) {
	t.Parallel()
	var first *fairsem.Permit
	granted := make(chan *fairsem.Permit, 1)
	client, _, target, out := asked(t, func() {
		require.NoError(t, first.Release(t.Context()))
		granted <- <-granted
	})
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	first, err = sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	go func() { // ends with its grant
		p, err := sem.With(fairsem.CallOptions{Tenant: "acme"}).Acquire(t.Context(), 1)
		assert.NoError(t, err)
		granted <- p
	}()
	require.Eventually(t, func() bool {
		s, err := sem.Status(t.Context())
		return err == nil && s.Waiting == 1
	}, time.Minute, time.Millisecond)
	tenant := "acme"
	require.NoError(t, target.Evict(t.Context(), Selection{Tenant: &tenant}))
	var result evicted
	require.NoError(t, json.Unmarshal(out.Bytes(), &result), out)
	assert.Len(t, result.Holders, 1)
	assert.Empty(t, result.Waiters)
	assert.True(t, result.Changed)
}

// A limit that is set by hand for a name that nothing uses would stay for ever.
func TestANameThatIsForgottenBeforeTheYesGetsNoLimit(t *testing.T) {
	t.Parallel()
	var forget func()
	client, server, target, _ := asked(t, func() { forget() })
	forget = func() { require.NoError(t, server.Client().FlushAll(t.Context()).Err()) }
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	p, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Release(t.Context()))
	require.ErrorIs(t, target.Resize(t.Context(), 7, false), ErrUnknown)
	status, err := sem.Status(t.Context())
	require.NoError(t, err)
	assert.False(t, status.Pinned)
	p, err = sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, p.Release(t.Context()))
	require.NoError(t, target.Resize(t.Context(), 7, true), "--new allows it")
	status, err = sem.Status(t.Context())
	require.NoError(t, err)
	assert.True(t, status.Pinned)
}

func TestAnExpiredHolderIsNotThereToEvict(t *testing.T) {
	t.Parallel()
	client, server, target, _ := asked(t, func() {})
	sem, err := client.Semaphore("n", 1)
	require.NoError(t, err)
	p, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, server.Client().ZAdd(t.Context(), protocol.DefaultKeyspace.Key("n", protocol.Timeout), redis.Z{Score: 1, Member: p.ID()}).Err())
	require.ErrorIs(t, target.Evict(t.Context(), Selection{All: true}), ErrNoMatch)
	require.ErrorIs(t, target.Evict(t.Context(), Selection{IDs: []string{p.ID()}}), ErrNoMatch)
}

// A change that Redis has not answered may be in force, and nobody may read that it is not.
func TestOnlyAnAnswerOrACheckSaysThatAChangeWasNotMade(t *testing.T) {
	t.Parallel()
	for err, uncertain := range map[error]bool{
		fmt.Errorf("%w: 5s", fairsem.ErrUnavailable): true,
		context.DeadlineExceeded:                     true,
		context.Canceled:                             true,
		io.EOF:                                       true,
		testclient.Reply("NOPERM no such right"):     false,
		fmt.Errorf("%w: %w", fairsem.ErrUnavailable, testclient.Reply("READONLY")): false,
		fairsem.ErrInvalid:  false,
		fairsem.ErrNotFound: false,
	} {
		got := Outcome(err)
		require.ErrorIs(t, got, err)
		if uncertain {
			assert.ErrorIs(t, got, ErrUncertain)
		} else {
			assert.NotErrorIs(t, got, ErrUncertain)
		}
	}
	assert.NoError(t, Outcome(nil))
}
