package fairsem_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// Promises in situations that are easy to forget. The comment of each test names the fault that it guards against.

// A handler that blocks must not delay calls on other names, nor the end of their leases.
func TestLoggerThatBlocksDelaysNoCall(t *testing.T) {
	gate := make(chan struct{})
	holdsUpNobody(t, gate, fairsem.Options{Logger: slog.New(blocked{slog.DiscardHandler, gate})})
}

func TestObserverThatBlocksDelaysNoCall(t *testing.T) {
	gate := make(chan struct{})
	holdsUpNobody(t, gate, fairsem.Options{Observer: func(fairsem.Event) { <-gate }})
}

func holdsUpNobody(t *testing.T, gate chan struct{}, opts fairsem.Options) {
	t.Helper()
	w := onRedis(t)
	w.ttl = 4 * time.Second // a stall must not end the lease of q before its release
	opts.TTL = w.ttl
	proxy := redistest.NewProxy(t, redistest.SharedServer(t).Addr())
	c := w.clientOn(w.through(proxy), opts)
	t.Cleanup(func() { close(gate) })
	other, err := c.Semaphore(w.name+"-other", 1)
	require.NoError(t, err)
	w.must(other.Acquire(t.Context(), 1)) // its loss is reported first
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	next := w.queue(t.Context(), w.semaphore(), 1)
	proxy.Hold()
	q := w.granted(next)
	select {
	case <-p.Context().Done():
	case <-time.After(time.Minute): // the gate opens at the end of the test only
		t.Error("the permit lives on")
	}
	proxy.Resume()
	w.release(q)
}

// blocked is a slog handler that waits for its gate.
type blocked struct {
	slog.Handler
	gate chan struct{}
}

func (blocked) Enabled(context.Context, slog.Level) bool { return true }

func (b blocked) Handle(context.Context, slog.Record) error {
	<-b.gate
	return nil
}

// The call of an operator also grants. A client that makes one while it waits must not miss its own grant.
func TestSetLimitNotifiesAWaiterOfTheSameClient(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		c := w.client()
		s := w.of(c, 1)
		p := w.must(s.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), s, 1)
		expireLease(t, w, p.ID())
		require.NoError(t, s.ResetLimit(t.Context()))
		w.release(w.granted(waiter))
		assert.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
	})
}

// expireLease expires the lease of an id on the server.
func expireLease(t *testing.T, w *world, id string) {
	t.Helper()
	require.NoError(t, w.rdb.ZAdd(t.Context(), w.key("timeout"), redis.Z{Score: 1, Member: id}).Err())
}

// The context of fn ends before the release, so the release must not use it.
func TestDoWaitsForItsReleaseAfterTheContextOfItsFunctionHasEnded(t *testing.T) {
	w, server := privately(t)
	err := w.semaphore().Do(t.Context(), 1, func(context.Context) error {
		require.NoError(t, server.Pause())
		time.AfterFunc(200*time.Millisecond, func() { assert.NoError(t, server.Resume()) })
		return nil
	})
	require.NoError(t, unlessLate(err))
}

// An earlier copy of a request can still arrive after the request was refused.
func TestCopyOfARequestThatArrivesAfterItsRefusalIsNotGranted(t *testing.T) {
	w := onRedis(t)
	rdb := w.connect().(*redis.Client)
	late := &straggler{}
	rdb.AddHook(late)
	s, other := w.of(w.clientOn(rdb, fairsem.Options{}), 1), w.semaphore()
	holder := w.must(other.Acquire(t.Context(), 1))
	_, err := s.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired)
	w.release(holder)
	// The tombstone may still be in flight when TryAcquire returns.
	w.eventually(func() bool { return w.rdb.ZCard(t.Context(), w.key("timeout")).Val() == 1 }, "it leaves no tombstone")
	late.arrive(t, w)
	assert.Zero(t, w.status(other).Used)
}

// A declaration whose answer was lost is as old as the first attempt, not as the second.
func TestDeclarationThatIsSentAgainIsNotTheNewest(t *testing.T) {
	w := onRedis(t)
	rdb := w.connect().(*redis.Client)
	deployed := w.client()
	began := time.Now()
	rdb.AddHook(&between{then: func() {
		// An age is exact only up to a round trip.
		w.eventually(func() bool { return time.Since(began) > 300*time.Millisecond }, "time stands still")
		w.release(w.must(w.of(deployed, 5).Acquire(t.Context(), 1)))
	}, done: new(atomic.Bool)})
	old := w.of(w.clientOn(rdb, fairsem.Options{}), 2)
	w.release(w.must(old.Acquire(t.Context(), 1)))
	assert.Equal(t, int64(5), w.status(old).Limit)
}

// between is a go-redis hook that loses the first pipeline with a script, and does something before it is sent again.
type between struct {
	testclient.Hook
	then func()
	done *atomic.Bool
}

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" || b.done.Swap(true) {
			return next(ctx, cmds)
		}
		b.then()
		for _, c := range cmds {
			c.SetErr(context.DeadlineExceeded)
		}
		return context.DeadlineExceeded
	}
}

// V1 for a waiter with a long TTL: if a process with a short TTL is granted first and is killed, the waiter waits for the short
// TTL.
func TestKilledHolderWithAShorterTTLDelaysByItsOwnTTL(t *testing.T) {
	w := onRedis(t)
	w.ttl = time.Hour
	s, other := w.semaphore(), w.semaphore()
	cutOff, proxy := w.network()
	urgent := w.of(cutOff, 1).With(fairsem.CallOptions{HeadStart: time.Hour, TTL: 2 * time.Second})
	holder := w.must(other.Acquire(t.Context(), 1))
	patient := w.queue(t.Context(), s, 1)
	dying := w.queue(t.Context(), urgent, 1)
	w.release(holder)
	w.granted(dying)
	proxy.Hold()
	q := w.granted(patient) // not after its own hour
	proxy.Resume()
	w.release(q)
}

// A renewal that was requested while an operation was in flight must not be sent after the grant.
func TestNoRefreshPermitIsNotRenewedByAnEarlierVerify(t *testing.T) {
	w := onRedis(t)
	w.ttl, w.limit = 5*time.Second, 2 // its reply is held for a part of that
	rdb := w.connect().(*redis.Client)
	slow := &heldReply{ran: make(chan struct{}), resume: make(chan struct{})}
	resume := sync.OnceFunc(func() { close(slow.resume) })
	rdb.AddHook(slow)
	s := w.of(w.clientOn(rdb, fairsem.Options{TTL: w.ttl}), w.limit)
	unrenewed := s.With(fairsem.CallOptions{NoRefresh: true})
	other := w.must(s.Acquire(t.Context(), 1)) // makes the scheduler check the name
	slow.armed.Store(true)
	t.Cleanup(resume) // a test that fails must not hang
	call := acquire(t.Context(), unrenewed, 1)
	<-slow.ran
	w.eventually(func() bool { return w.status(s).Used == 2 }, "the call that was held is another one")
	waiter := w.queue(t.Context(), s, 1) // its subscription makes the client query again
	resume()
	p := w.granted(call)
	deadline := func() float64 { return w.rdb.ZScore(t.Context(), w.key("timeout"), p.ID()).Val() } // 0 once it has expired
	first := deadline()
	<-p.Context().Done()
	assert.LessOrEqual(t, deadline(), first)
	w.release(w.granted(waiter))
	w.release(other)
}

// If only meta is lost, the holders must stay, and must not expire before their leases.
func TestLossOfMetaAloneKeepsTheHolders(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 2
		s := w.semaphore()
		p := w.must(s.With(fairsem.CallOptions{TTL: time.Hour}).Acquire(t.Context(), 1))
		for _, use := range []func(){
			func() { w.status(s) },
			func() { w.release(w.must(s.Acquire(t.Context(), 1))) },
		} {
			require.NoError(t, w.rdb.Del(t.Context(), w.key("meta")).Err())
			use()
			left, err := w.rdb.PTTL(t.Context(), w.key("owner")).Result()
			require.NoError(t, err)
			assert.Greater(t, left, time.Hour)
		}
		w.release(p)
	})
}

// If a missing right left a wrong sum of weights, the sum is computed again.
func TestWrongSumOfWeightsIsCorrectedWhenNothingIsHeld(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 5
		s := w.semaphore()
		require.NoError(t, w.rdb.HSet(t.Context(), w.key("weight"), "extra", 4).Err())
		p := w.must(s.Acquire(t.Context(), 2))
		assert.Equal(t, int64(2), w.status(s).Used)
		w.release(p)
	})
}

// go-redis reloads the nodes of a cluster only once a minute, unless it is requested.
func TestClusterGrantsAgainSoonAfterAPrimaryWasKilled(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	w := newWorld(t, func(testing.TB) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs(cluster.Nodes)})
	})
	w.ttl = time.Minute
	s := w.semaphore()
	w.release(w.must(s.Acquire(t.Context(), 1)))
	primary, err := cluster.Owner(w.key("owner"))
	require.NoError(t, err)
	require.NoError(t, primary.Kill())
	began := time.Now()
	w.release(w.must(s.Acquire(t.Context(), 1)))
	assert.Less(t, time.Since(began), 30*time.Second)
}
