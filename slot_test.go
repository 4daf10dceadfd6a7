package fairsem_test

import (
	"context"
	"net"
	"strings"
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

// One key of each call never exists, so Redis refuses it on both primaries until the whole slot has moved.
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
	assert.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
}

// S5, S8: a plain call uses only keys that a contended lock has, so Redis once began it in a marked slot, and broke it off at the first key
// that it had emptied.
func TestLockIsHandedOnInOrderOnceAMarkedSlotHasMoved(t *testing.T) {
	w := newSlotWorld(t)
	w.ttl = 20 * time.Second
	a, b := w.semaphore(), w.semaphore()
	w.release(w.must(a.Acquire(t.Context(), 1))) // calls are plain from then on
	p := w.must(a.Acquire(t.Context(), 1))
	first, second := w.queue(t.Context(), a, 1), w.queue(t.Context(), b, 1) // a knows that there is a queue
	w.releaseInMarkedSlot(p)
	one := w.granted(first)
	assert.True(t, second.waits(), "granted beside the first")
	w.release(one)
	two := w.granted(second)
	assert.Greater(t, two.Token(), one.Token())
	w.release(two)
}

// The last permit after a long lease has its keys renewed, which are gone by then.
func TestLongLeaseIsReleasedOnceAMarkedSlotHasMoved(t *testing.T) {
	w := newSlotWorld(t)
	w.ttl = time.Minute
	s := w.semaphore()
	w.release(w.must(s.Acquire(t.Context(), 1)))
	p := w.must(s.Acquire(t.Context(), 1))
	w.releaseInMarkedSlot(p)
	w.release(w.must(s.Acquire(t.Context(), 1)))
}

// releaseInMarkedSlot marks the slot, and moves it once the release of p was refused because of that.
func (w *slotWorld) releaseInMarkedSlot(p *fairsem.Permit) {
	w.t.Helper()
	w.mark()
	released := make(chan error, 1)
	go func() { released <- w.givenBack(p) }() // ends when the slot has moved
	w.eventually(func() bool {                 // before Redis 7 the old primary sends the script to the new one for that
		errors := w.on(w.from, "INFO", "errorstats").(string) + w.on(w.to, "INFO", "errorstats").(string)
		return strings.Contains(errors, "errorstat_TRYAGAIN:")
	}, "the marked slot answers scripts")
	w.move()
	require.NoError(w.t, <-released)
}
