package fairsem_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

// bury stores holders and waiters whose leases have expired, as after many processes were killed.
func (w *world) bury(holders, waiters int) {
	w.t.Helper()
	ctx := context.Background()
	put := func(key, who string, n int) {
		var all []redis.Z
		for i := range n {
			all = append(all, redis.Z{Score: float64(i + 1), Member: who + ":" + strconv.Itoa(i)})
		}
		require.NoError(w.t, w.rdb.ZAdd(ctx, w.key(key), all...).Err())
		require.NoError(w.t, w.rdb.Expire(ctx, w.key(key), time.Minute).Err())
	}
	put("owner", "held", holders)
	put("queue", "waited", waiters)
	put("timeout", "waited", waiters) // these are reaped first
	put("timeout", "held", holders)
}

// released releases a permit.
func released(p *fairsem.Permit, err error) error {
	if err != nil {
		return err
	}
	return givenBack(context.Background(), p)
}

// If there were more expired ids than one call removes, calls were refused for a tenth of a second.
func TestExpiredLeasesDoNotRefuseACall(t *testing.T) {
	t.Parallel()
	const holders, waiters = 600, 1200
	refusals := map[string]func(*world, *fairsem.Client) error{
		"TryAcquire": func(w *world, c *fairsem.Client) error {
			p, err := w.of(c, 1).TryAcquire(t.Context(), 1)
			return released(p, err)
		},
		"MaxQueue": func(w *world, c *fairsem.Client) error {
			p, err := w.of(c, 1).With(fairsem.CallOptions{MaxQueue: 1}).Acquire(t.Context(), 1)
			return released(p, err)
		},
		"Allow": func(w *world, c *fairsem.Client) error {
			l := w.limiterOf(c, 2, time.Hour) // the first call uses one
			d, err := l.Allow(t.Context(), 1)
			assert.True(t, d.Allowed)
			return err
		},
	}
	for name, ask := range refusals {
		t.Run(name, func(t *testing.T) {
			w := onRedis(t)
			calls := &fairsem.CountedCalls{}
			rdb := w.connect()
			rdb.AddHook(calls)
			c := w.clientOn(rdb, fairsem.Options{})
			require.NoError(t, ask(w, c)) // from here on the client has used the name
			calls.Store(0)
			w.bury(holders, waiters)
			require.NoError(t, ask(w, c))
			assert.Less(t, calls.Load(), int64((holders+waiters)/50), "it calls more often than there is something to remove")
		})
	}
}
