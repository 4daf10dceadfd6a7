// Package worldtest is for tests of packages built on the library: a name of their own on a real server, several clients and several
// processes that share it, and counts of allocations. It imports the library, so the tests inside package fairsem cannot use it.
package worldtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// World is a name of its own on a server. A test can change the fields before it makes clients.
type World struct {
	*testing.T
	Redis     string        // the address of the server
	LimitName string        // that no other test uses
	TTL       time.Duration // of every new client
	Prefix    string        // of every new client, where the code under test chooses a name; "": the default
}

// New returns a name on the server that the tests of a package share, and runs the test in parallel.
func New(t *testing.T) *World {
	t.Helper()
	t.Parallel()
	server := redistest.SharedServer(t)
	require.NoError(t, server.AwaitAge(2)) // a younger one grants nothing for a while
	return &World{t, server.Addr(), t.Name() + "-" + uuid.NewString(), 10 * time.Second, ""}
}

// Client returns a new Client, which the end of the test closes. For Redis it is another process.
func (w *World) Client() *fairsem.Client {
	w.Helper()
	return w.Observed(nil)
}

// Observed is Client with an observer.
func (w *World) Observed(observer fairsem.Observer) *fairsem.Client {
	w.Helper()
	return newClient(w, w.Redis, fairsem.Options{Prefix: w.Prefix, TTL: w.TTL, Observer: observer})
}

func newClient(t testing.TB, addr string, o fairsem.Options) *fairsem.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	c, err := fairsem.New(rdb, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// Semaphore returns the semaphore of the world with a new Client.
func (w *World) Semaphore(limit int64) *fairsem.Semaphore {
	w.Helper()
	s, err := w.Client().Semaphore(w.LimitName, limit)
	require.NoError(w, err)
	return s
}

// Status returns the state of a semaphore.
func (w *World) Status(s *fairsem.Semaphore) fairsem.Status {
	w.Helper()
	st, err := s.Status(w.Context())
	require.NoError(w, err)
	return st
}

// Eventually waits until a condition holds, for as long as only a hang takes.
func (w *World) Eventually(is func() bool, why string) {
	w.Helper()
	require.Eventually(w, is, time.Minute, 5*time.Millisecond, why)
}

// EventuallyInARow waits until a condition holds 100 times in a row. A failure now and then of a busy machine only repeats that. A
// condition that fails in one of five tries never passes.
func (w *World) EventuallyInARow(is func() bool, why string) {
	w.Helper()
	w.Eventually(func() bool {
		for range 100 {
			if !is() {
				return false
			}
		}
		return true
	}, why)
}

// EventuallyUsed waits until that many units are held.
func (w *World) EventuallyUsed(s *fairsem.Semaphore, n int64) {
	w.Helper()
	w.Eventually(func() bool { return w.Status(s).Used == n }, fmt.Sprintf("not %d units are in use", n))
}

// Evict revokes all permits. Any goroutine may call it.
func (w *World) Evict(s *fairsem.Semaphore) {
	w.Helper()
	for held, err := range s.Holders(w.Context()) {
		if assert.NoError(w, err) {
			assert.NoError(w, s.Evict(w.Context(), held.ID))
		}
	}
}

// Occupy holds units until the test calls release.
func (w *World) Occupy(s *fairsem.Semaphore, n int64) (release func()) {
	w.Helper()
	p, err := s.Acquire(w.Context(), n)
	require.NoError(w, err)
	return func() { _ = p.Release(context.Background()) } // the lease may be lost on a busy machine
}
