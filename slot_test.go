package fairsem_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// slotWorld is a world in its own cluster, whose slot is being moved to another primary.
type slotWorld struct {
	*world
	cluster  *redistest.Cluster
	slot     int64
	from, to *redistest.Server
}

func newSlotWorld(t *testing.T) *slotWorld {
	t.Helper()
	t.Parallel()
	cluster := redistest.NewCluster(t)
	w := &slotWorld{cluster: cluster, world: newWorld(t, func(testing.TB) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs(cluster.Nodes)})
	})}
	var err error
	w.from, err = cluster.Owner(w.key("owner"))
	require.NoError(t, err)
	for _, primary := range cluster.Primaries() {
		if primary != w.from {
			w.to = primary
		}
	}
	w.slot = w.from.Client().ClusterKeySlot(t.Context(), w.key("owner")).Val()
	return w
}

func (w *slotWorld) on(node *redistest.Server, args ...any) any {
	w.t.Helper()
	answer, err := node.Client().Do(context.Background(), args...).Result()
	require.NoError(w.t, err)
	return answer
}

// mark makes the first step of a move, as redis-cli does.
func (w *slotWorld) mark() {
	w.t.Helper()
	w.on(w.to, "CLUSTER", "SETSLOT", w.slot, "IMPORTING", w.on(w.from, "CLUSTER", "MYID"))
	w.on(w.from, "CLUSTER", "SETSLOT", w.slot, "MIGRATING", w.on(w.to, "CLUSTER", "MYID"))
}

// move makes the remaining steps.
func (w *slotWorld) move() {
	w.t.Helper()
	keys, err := w.from.Client().ClusterGetKeysInSlot(context.Background(), int(w.slot), 100).Result()
	require.NoError(w.t, err)
	host, port, err := net.SplitHostPort(w.to.Addr())
	require.NoError(w.t, err)
	for _, key := range keys {
		w.on(w.from, "MIGRATE", host, port, key, 0, 5000)
	}
	for _, node := range append([]*redistest.Server{w.to, w.from}, w.cluster.Primaries()...) {
		w.on(node, "CLUSTER", "SETSLOT", w.slot, "NODE", w.on(w.to, "CLUSTER", "MYID"))
	}
}

func TestPermitOutlivesAMoveOfItsSlotWithinATTL(t *testing.T) {
	w := newSlotWorld(t)
	w.ttl = 20 * time.Second
	holder, rival := w.semaphore(), w.semaphore()
	p := w.must(holder.Acquire(t.Context(), 1))
	token := w.holders(holder)[p.ID()]
	w.mark()
	waits := acquire(t.Context(), rival, 1)
	w.move()
	w.eventually(func() bool { return w.status(rival).Waiting == 1 }, "the move does not end")
	assert.NoError(t, p.Context().Err())
	assert.True(t, waits.waits(), "granted beside the holder")
	assert.Equal(t, token, w.holders(rival)[p.ID()])
	at, err := w.cluster.Owner(w.key("owner"))
	require.NoError(t, err)
	assert.Equal(t, w.to, at)
	w.release(p)
	w.release(w.granted(waits))
}

// If one of several keys (queue or weight) does not exist, Redis refuses a script on both primaries until the whole slot has moved.
func TestMarkedSlotRefusesEveryCallUntilPermitsAreLost(t *testing.T) {
	w := newSlotWorld(t)
	w.ttl = 2 * time.Second
	holder, rival := w.semaphore(), w.semaphore()
	p := w.must(holder.Acquire(t.Context(), 1))
	w.mark()
	_, err := rival.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	assert.ErrorContains(t, err, "TRYAGAIN")
	<-p.Context().Done()
	assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
	w.move()
	w.release(w.must(rival.Acquire(t.Context(), 1)))
	assert.ErrorIs(t, p.Release(t.Context()), fairsem.ErrLost)
}
