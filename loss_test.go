package fairsem_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
)

// After a loss of state, clients restore holders with their tokens, and waiters in their order.

// grace is the default of Options.Grace. Where a test restores several permits, that may be too short for a busy machine.
const grace, longGrace = time.Second, 3 * time.Second

// agedServer returns a private server that has run for so long that it grants at once on a name that it does not have.
func agedServer(t *testing.T, args ...string) (*world, *redistest.Server) {
	t.Helper()
	w, server := privately(t, args...)
	require.NoError(t, server.AwaitAge(2)) // in whole seconds, and the first may have been short
	return w, server
}

// restart kills the server and starts it again.
func restart(t *testing.T, server *redistest.Server) {
	t.Helper()
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart())
}

// holders returns the permit ids of the holders, with their tokens.
func (w *world) holders(s *fairsem.Semaphore) map[string]int64 {
	w.t.Helper()
	found := make(map[string]int64)
	for ticket, err := range s.Holders(w.t.Context()) {
		require.NoError(w.t, err)
		found[ticket.ID] = ticket.Token
	}
	return found
}

func tokens(permits ...*fairsem.Permit) map[string]int64 {
	all := make(map[string]int64)
	for _, p := range permits {
		all[p.ID()] = p.Token()
	}
	return all
}

func TestRestartWithoutPersistenceLosesNothingAndGrantsNothingTwice(t *testing.T) {
	w, server := agedServer(t)
	w.limit, w.grace = 6, longGrace
	a, b, newcomer := w.semaphore(), w.semaphore(), w.semaphore()
	held := []*fairsem.Permit{w.must(a.Acquire(t.Context(), 1)), w.must(b.Acquire(t.Context(), 3)), w.must(a.Acquire(t.Context(), 2))}
	var calls []*call
	for i, s := range []*fairsem.Semaphore{b, a, b, a} {
		calls = append(calls, w.queue(t.Context(), s, int64(1+i)))
	}
	line := w.line(a)

	restart(t, server)
	late := acquire(t.Context(), newcomer, 1) // at once, before anything may be restored
	w.eventually(func() bool { return w.status(newcomer).Waiting == 5 && w.status(newcomer).Used == 6 }, "not all is restored")
	assert.Equal(t, tokens(held...), w.holders(a))
	assert.Equal(t, line, w.line(a)[:4], "the newcomer is last")
	for _, p := range held {
		require.NoError(t, p.Context().Err())
		w.release(p)
	}
	var last int64
	for _, c := range append(calls, late) {
		p := w.granted(c)
		assert.Greater(t, p.Token(), last)
		last = p.Token()
		w.release(p)
	}
}

// Entries that are newer than the restored file are restored by their clients.
func TestRestartFromAnOldFileLosesNothing(t *testing.T) {
	w, server := agedServer(t)
	w.limit, w.grace = 2, longGrace
	a, b := w.semaphore(), w.semaphore()
	before := w.must(a.Acquire(t.Context(), 1))
	require.NoError(t, w.rdb.Save(t.Context()).Err())
	after := w.must(a.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), a, 1)

	restart(t, server)
	_, err := b.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired)
	w.eventually(func() bool { return w.status(b).Waiting == 1 }, "the waiter is not restored")
	assert.Equal(t, tokens(before, after), w.holders(b))
	w.release(before)
	w.release(after)
	w.release(w.granted(waiter))
}

// No connection breaks here, so the next renewal finds it.
func TestClientsRestoreAFlushedServer(t *testing.T) {
	w, _ := agedServer(t)
	w.ttl, w.grace = 9*time.Second, 6*time.Second // a client finds the loss at its next renewal, within a third of the lease
	w.limit = 3
	a, b := w.semaphore(), w.semaphore()
	held := w.must(a.Acquire(t.Context(), 2))
	brief := w.must(b.With(fairsem.CallOptions{TTL: time.Minute, NoRefresh: true}).Acquire(t.Context(), 1))
	waiters := []*call{w.queue(t.Context(), b, 2), w.queue(t.Context(), a, 1)}
	line := w.line(a)
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	w.eventually(func() bool {
		return len(w.holders(a)) == 2 && len(w.line(a)) == 2
	}, "not all is restored")
	assert.Equal(t, tokens(held, brief), w.holders(a))
	assert.Equal(t, line, w.line(a))
	w.release(held)
	w.release(brief)
	for _, c := range waiters {
		w.release(w.granted(c))
	}
}

// Its permit was lost, and its unit stayed held for as long as others used the name: nothing said when it expires.
func TestHolderWhoseDeadlineWasDeletedGoesOn(t *testing.T) {
	w, _ := agedServer(t)
	w.ttl, w.limit = 2*time.Second, 1
	s := w.semaphore()
	p := w.must(s.Acquire(t.Context(), 1))
	rdb := w.connect()
	require.NoError(t, rdb.Del(t.Context(), w.key("timeout")).Err())
	w.eventually(func() bool { return rdb.ZScore(t.Context(), w.key("timeout"), p.ID()).Val() > 0 }, "a renewal stores a deadline again")
	require.NoError(t, p.Context().Err())
	require.NoError(t, w.givenBack(p))
	w.release(w.must(s.Acquire(t.Context(), 1)))
}

func TestRestoreThatNoLongerFitsIsReportedAsLost(t *testing.T) {
	w, server := agedServer(t)
	w.ttl = 3 * time.Second
	proxy := redistest.NewProxy(t, server.Addr())
	p := w.must(w.of(w.clientOn(w.through(proxy), fairsem.Options{TTL: w.ttl}), 1).Acquire(t.Context(), 1))
	proxy.Hold()
	require.NoError(t, w.rdb.FlushAll(t.Context()).Err())
	q := w.must(w.semaphore().TryAcquire(t.Context(), 1)) // the server was never down
	proxy.Resume()
	<-p.Context().Done()
	require.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
	require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
	require.NoError(t, q.Context().Err())
	w.release(q)
}

// A call that ended while the server was down is not restored.
func TestWhatEndedDuringTheOutageIsNotRestored(t *testing.T) {
	w, server := agedServer(t)
	w.limit = 2
	s := w.semaphore()
	p, q := w.must(s.Acquire(t.Context(), 1)), w.must(s.Acquire(t.Context(), 1))
	ctx, cancel := context.WithCancel(t.Context())
	waiter := w.queue(ctx, s, 1)
	require.NoError(t, server.Kill())
	cancel()
	<-waiter.done
	short, end := context.WithCancel(t.Context())
	end()
	released := make(chan struct{})
	go func() { // ends within the time that Release takes after its context
		defer close(released)
		if err := p.Release(short); err != nil {
			assert.ErrorIs(t, err, context.Canceled, "it was live until it was released")
		}
	}()
	require.NoError(t, server.Restart())
	<-released
	w.eventually(func() bool { st := w.status(s); return st.Used == 1 && st.Waiting == 0 }, "too much is restored")
	assert.Equal(t, tokens(q), w.holders(s))
	w.release(q)
}

// Between a restart and the end of the grace period TryAcquire cannot know whether there is room.
func TestTryAcquireWaitsForTheEndOfTheGrace(t *testing.T) {
	w, server := agedServer(t)
	w.limit = 2
	holder, other := w.semaphore(), w.semaphore()
	p := w.must(holder.Acquire(t.Context(), 1))
	w.release(w.must(other.TryAcquire(t.Context(), 1)))
	began := time.Now() // not after the restart: the holder may have called at once, which begins the grace period
	restart(t, server)
	w.release(w.must(other.TryAcquire(t.Context(), 1)))
	assert.Greater(t, time.Since(began), grace-10*time.Millisecond) // in whole ms, by two clocks
	require.NoError(t, p.Context().Err())
	w.release(p)
}

// With a grace period of a whole TTL it does not matter that the holder cannot restore its permit.
func TestGraceOfATTLGrantsNothingBesideADisconnectedHolder(t *testing.T) {
	w, server := agedServer(t)
	const ttl = 4 * time.Second // a busy machine takes a part of it
	proxy := redistest.NewProxy(t, server.Addr())
	a := w.of(w.clientOn(w.through(proxy), fairsem.Options{TTL: ttl, Grace: ttl}), 1)
	b := w.of(w.clientOn(w.connect(), fairsem.Options{TTL: time.Minute, Grace: ttl}), 1)
	p := w.must(a.Acquire(t.Context(), 1))
	proxy.Hold()
	restart(t, server)
	q := w.must(b.Acquire(t.Context(), 1))
	require.Error(t, p.Context().Err(), "two live permits for one unit")
	proxy.Resume()
	require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
	w.release(q)
}

// replaced makes a server forget the permit p of a holder that is disconnected, and grant one of its units to q.
func replaced(t *testing.T, limit, units int64, with func(*fairsem.Semaphore) *fairsem.Semaphore) (w *world, server *redistest.Server, of, later *redistest.Proxy, p, q *fairsem.Permit) {
	t.Helper()
	w, server = agedServer(t)
	opts := fairsem.Options{TTL: time.Minute, Grace: 2 * time.Second}
	of, later = redistest.NewProxy(t, server.Addr()), redistest.NewProxy(t, server.Addr())
	p = w.must(with(w.of(w.clientOn(w.through(of), opts), limit)).Acquire(t.Context(), units))
	of.Hold()
	restart(t, server)
	q = w.must(with(w.of(w.clientOn(w.through(later), opts), limit)).Acquire(t.Context(), 1)) // after the grace period
	require.NoError(t, p.Context().Err())
	return w, server, of, later, p, q
}

func plainly(s *fairsem.Semaphore) *fairsem.Semaphore { return s }

// S2, S8: its unit is free again, and another has worked under it meanwhile.
func TestHolderThatWasAwayWhileItsLockWasGrantedAndReleasedLosesIt(t *testing.T) {
	w, _, of, _, p, q := replaced(t, 1, 1, plainly)
	w.release(q)
	of.Resume()
	w.eventually(func() bool { return p.Context().Err() != nil }, "it still has the lock")
	require.ErrorIs(t, w.givenBack(p), fairsem.ErrLost)
}

// S1, S2, S13: the server forgets both before the first is back. Whichever is restored first, the later grant is the one that counts.
func TestOfTwoHoldersOfOneUnitTheLaterOneOutlivesAnotherLoss(t *testing.T) {
	for name, c := range map[string]struct {
		limit, units int64
		with         func(*fairsem.Semaphore) *fairsem.Semaphore
	}{
		"a lock":             {1, 1, plainly},
		"a number":           {2, 1, numbered},
		"a lock for writing": {2, 2, plainly},
	} {
		for _, back := range []string{"first", "later", "saved"} {
			t.Run(name+", back is the "+back, func(t *testing.T) {
				w, server, of, later, p, q := replaced(t, c.limit, c.units, c.with)
				if back == "saved" { // the server forgets nothing the second time, so the later holder need not be restored
					require.NoError(t, w.rdb.Save(t.Context()).Err())
				}
				require.NoError(t, server.Kill())
				if back == "first" {
					later.Hold()
					of.Resume()
				}
				require.NoError(t, server.Restart())
				s := w.of(w.clientOn(w.connect(), fairsem.Options{}), c.limit)
				if back == "first" {
					w.eventually(func() bool { return w.holders(s)[p.ID()] != 0 }, "the first is not restored")
					later.Resume()
				} else {
					w.eventually(func() bool { return w.holders(s)[q.ID()] != 0 }, "the later one is not restored")
					of.Resume()
				}
				w.eventually(func() bool { return p.Context().Err() != nil }, "both have it")
				require.ErrorIs(t, w.givenBack(p), fairsem.ErrLost)
				assert.Equal(t, tokens(q), w.holders(s))
				w.release(q)
			})
		}
	}
}

// S8: a store that keeps tokens refuses it, as its token is lower. For an RWMutex it is a reader that was away during a whole write.
func TestHolderOfSomeUnitsThatWasAwayWhileAnotherHadAllLosesThem(t *testing.T) {
	w, _, of, later, p, q := replaced(t, 3, 1, plainly)
	w.release(q)
	s := w.of(w.clientOn(w.through(later), fairsem.Options{}), 3)
	w.release(w.must(s.Acquire(t.Context(), 3)))
	beside := w.must(s.Acquire(t.Context(), 1))
	of.Resume()
	w.eventually(func() bool { return p.Context().Err() != nil }, "it still has its unit")
	require.ErrorIs(t, w.givenBack(p), fairsem.ErrLost)
	w.release(beside)
}

// The state is in the memory of a replica, and may lack the latest changes.
func sentinelWorld(t *testing.T, opts fairsem.Options) (*world, *redistest.Sentinel, func() *fairsem.Semaphore) {
	t.Helper()
	t.Parallel()
	group := redistest.NewSentinel(t)
	w := newWorld(t, func(testing.TB) redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.PrimaryName, SentinelAddrs: group.Addrs()})
	})
	w.ttl = time.Minute
	opts.TTL = w.ttl
	return w, group, func() *fairsem.Semaphore { return w.of(w.clientOn(w.connect(), opts), w.limit) }
}

// rejoin makes a server a replica of the primary. The sentinels do that, too, but only after ten seconds.
func rejoin(t *testing.T, group *redistest.Sentinel, server *redistest.Server) {
	t.Helper()
	primary, err := group.Primary()
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	require.NoError(t, server.Client().ReplicaOf(t.Context(), host, port).Err())
}

func TestFailoverKeepsWhatReplicasAcknowledged(t *testing.T) {
	w, group, semaphore := sentinelWorld(t, fairsem.Options{WaitReplicas: 2})
	w.limit = 2
	a, b := semaphore(), semaphore()
	p, q := w.must(a.Acquire(t.Context(), 1)), w.must(b.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), b, 1)
	old, err := group.Primary()
	require.NoError(t, err)
	replicas, err := group.Replicas()
	require.NoError(t, err)
	for _, r := range replicas {
		n, err := r.Client().ZCard(t.Context(), w.key("owner")).Result()
		require.NoError(t, err)
		assert.Equal(t, int64(2), n, "a grant was returned before a replica had it")
	}
	require.NoError(t, old.Kill())
	require.NoError(t, group.AwaitFailover(old))
	require.NoError(t, group.BePatient())
	require.NoError(t, old.Restart())
	rejoin(t, group, old) // without it too few replicas acknowledge
	w.release(p)
	w.release(w.granted(waiter))
	require.NoError(t, q.Context().Err())
	w.release(q)
}

// A grant that only the old primary had is restored on the new one.
func TestFailoverWithoutWaitReplicasRestoresWhatTheReplicaMissed(t *testing.T) {
	w, group, semaphore := sentinelWorld(t, fairsem.Options{Grace: longGrace})
	w.limit = 2
	a, b := semaphore(), semaphore()
	p := w.must(a.Acquire(t.Context(), 1))
	old, err := group.Primary()
	require.NoError(t, err)
	replicas, err := group.Replicas()
	require.NoError(t, err)
	for _, r := range replicas { // so the next primary does not have the permit
		require.NoError(t, r.Client().ConfigSet(t.Context(), "replica-read-only", "no").Err())
		require.NoError(t, r.Client().Del(t.Context(), w.key("owner"), w.key("timeout")).Err())
		require.NoError(t, r.Client().ConfigSet(t.Context(), "replica-read-only", "yes").Err())
	}
	require.NoError(t, old.Kill())
	require.NoError(t, group.AwaitFailover(old))
	require.NoError(t, group.BePatient())
	q := w.must(b.Acquire(t.Context(), 1))
	_, err = b.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired, "one permit is restored")
	assert.Equal(t, tokens(p, q), w.holders(b))
	require.NoError(t, p.Context().Err())
	w.release(p)
	w.release(q)
}

// S11: a grant that too few replicas have does not count.
func TestWithoutEnoughReplicasNothingIsGranted(t *testing.T) {
	w := onRedis(t)
	s := w.of(w.clientOn(w.connect(), fairsem.Options{TTL: 6 * time.Second, WaitReplicas: 1}), 1) // several answers, on a busy machine too
	_, err := s.Acquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	assert.ErrorContains(t, err, "0 of 1")
	other := w.semaphore()
	w.release(w.must(other.Acquire(t.Context(), 1)))
}

// In an old file, a holder may still be a waiter.
func TestHolderThatWaitsInAnOldFileRemainsTheHolder(t *testing.T) {
	w, server := agedServer(t)
	w.grace = 2 * time.Second
	b, newcomer := w.semaphore(), w.semaphore()
	w.ttl = 4 * time.Second // only what is in the old file is to expire
	a := w.semaphore()
	before := w.must(a.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), b, 1)
	require.NoError(t, w.rdb.Save(t.Context()).Err())
	w.release(before)
	p := w.granted(waiter)
	restart(t, server)
	next := acquire(t.Context(), newcomer.With(fairsem.CallOptions{HeadStart: time.Hour}), 1)
	w.eventually(func() bool { return maps.Equal(tokens(p), w.holders(a)) && w.status(a).Waiting == 1 }, "it is not restored, or the entry of the file does not expire")
	require.NoError(t, p.Context().Err())
	w.release(p)
	w.release(w.granted(next))
}

// If the server loses a release, the next holder must keep its permit.
func TestHolderInAnOldFileDoesNotReplaceTheLaterHolder(t *testing.T) {
	w, server := agedServer(t)
	w.grace = 2 * time.Second
	b := w.semaphore()
	w.ttl = 4 * time.Second // only what is in the old file is to expire
	a := w.semaphore()
	before := w.must(a.Acquire(t.Context(), 1))
	require.NoError(t, w.rdb.Save(t.Context()).Err())
	w.release(before)
	p := w.must(b.Acquire(t.Context(), 1))
	restart(t, server)
	next := acquire(t.Context(), a, 1)
	w.eventually(func() bool { return maps.Equal(tokens(p), w.holders(b)) && w.status(b).Waiting == 1 }, "it is not restored, or the entry of the file does not expire")
	require.NoError(t, p.Context().Err())
	w.release(p)
	w.release(w.granted(next))
}

func TestLoweredLimitAndARestartRevokeNoPermit(t *testing.T) {
	for _, lowered := range []int64{1, 2} { // 2: one seems to have all units
		t.Run(fmt.Sprintf("to %d", lowered), func(t *testing.T) {
			w, server := agedServer(t)
			w.grace = longGrace
			many := w.of(w.client(), 3)
			held := []*fairsem.Permit{w.must(many.Acquire(t.Context(), 1)), w.must(w.of(w.client(), 3).Acquire(t.Context(), 2))}
			few := w.of(w.client(), lowered)
			_, err := few.TryAcquire(t.Context(), 1)
			require.ErrorIs(t, err, fairsem.ErrNotAcquired)
			restart(t, server)
			waiter := w.queue(t.Context(), few, 1)
			w.eventually(func() bool { return w.status(few).Used == 3 }, "not all is restored")
			for _, p := range held {
				require.NoError(t, p.Context().Err())
				w.release(p)
			}
			w.release(w.granted(waiter))
		})
	}
}

// The acquire was executed, and only its WAIT was refused.
func TestMissingRightToWaitLeavesNothingHeld(t *testing.T) {
	w, server := privately(t)
	rights := []any{"ACL", "SETUSER", "hasty", "on", "nopass", "~*", "&*", "+@all", "-wait"}
	require.NoError(t, server.Client().Do(t.Context(), rights...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "hasty", Password: "x"})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	s := w.of(w.clientOn(rdb, fairsem.Options{WaitReplicas: 1}), 1)
	_, err := s.Acquire(t.Context(), 1)
	require.ErrorContains(t, err, "NOPERM")
	assert.ErrorContains(t, err, "docs/operations.md")
	w.eventually(func() bool { return w.status(s).Used == 0 }, "the unit is still in use without a holder")
}

// apart returns a world in its own cluster, with two processes. The name is on another primary than the channel of the first
// process.
func apart(t *testing.T, opts fairsem.Options) (w *world, cluster *redistest.Cluster, primary *redistest.Server, holder, rival *fairsem.Semaphore) {
	t.Helper()
	t.Parallel()
	cluster = redistest.NewCluster(t)
	w = newWorld(t, func(testing.TB) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs(cluster.Nodes)})
	})
	opts.TTL = time.Minute // the next renewal is later than the end of the test
	c := w.clientOn(w.connect(), opts)
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	w.release(p)
	client, _, _ := strings.Cut(p.ID(), ":")
	ears, err := cluster.Owner(protocol.DefaultKeyspace.WakePrefix() + client)
	require.NoError(t, err)
	for base, i := w.name, 0; primary == nil || primary == ears; i++ {
		w.name = fmt.Sprint(base, i)
		primary, err = cluster.Owner(w.key("owner"))
		require.NoError(t, err)
	}
	return w, cluster, primary, w.of(c, 1), w.of(w.clientOn(w.connect(), opts), 1)
}

// A holder that sends nothing notices the loss of its primary by a connection that it keeps only for that.
func TestHolderInAClusterOutlivesItsPrimaryWhereverItsSubscriptionIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace time.Duration
		dies  func(t *testing.T, primary, replica *redistest.Server)
	}{
		"restarted empty": {longGrace, func(t *testing.T, primary, _ *redistest.Server) { restart(t, primary) }},
		// go-redis tries for some seconds to connect to the killed primary, in either process.
		"replaced by a replica that lacks the state": {5 * grace, func(t *testing.T, primary, replica *redistest.Server) {
			require.NoError(t, replica.Client().ConfigSet(t.Context(), "replica-read-only", "no").Err())
			require.NoError(t, replica.Client().FlushAll(t.Context()).Err())
			require.NoError(t, primary.Kill())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, cluster, primary, holder, rival := apart(t, fairsem.Options{Grace: c.grace})
			w.release(w.must(rival.Acquire(t.Context(), 1))) // it then has a connection there, and sees it break
			p := w.must(holder.Acquire(t.Context(), 1))
			w.eventually(func() bool {
				const channel = "fairsem:watch"
				return primary.Client().PubSubNumSub(t.Context(), channel).Val()[channel] == 2
			}, "the primary is not watched")
			c.dies(t, primary, cluster.Nodes[slices.Index(cluster.Nodes, primary)+3])
			late := acquire(t.Context(), rival, 1)
			w.eventually(func() bool {
				st, err := rival.Status(t.Context())
				return err == nil && st.Used == 1 && st.Waiting == 1 || !late.waits()
			}, "it is not restored")
			require.True(t, late.waits(), "two live permits for one unit")
			assert.Equal(t, tokens(p), w.holders(rival))
			require.NoError(t, p.Context().Err())
			w.release(p)
			w.release(w.granted(late))
		})
	}
}

func TestPrimaryIsWatchedWhileItHasPermitsOfTheClient(t *testing.T) {
	t.Parallel()
	cluster := redistest.SharedCluster(t)
	w := newWorld(t, func(testing.TB) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs(cluster.Nodes)})
	})
	prefix := "fairsem-" + uuid.NewString()
	s := w.of(w.clientOn(w.connect(), fairsem.Options{TTL: 3 * time.Second, Prefix: prefix}), 1)
	watchers := func() (n int64) {
		for _, node := range cluster.Nodes {
			n += node.Client().PubSubNumSub(t.Context(), prefix+":watch").Val()[prefix+":watch"]
		}
		return n
	}
	for range 2 {
		p := w.must(s.Acquire(t.Context(), 1))
		w.eventually(func() bool { return watchers() == 1 }, "it is not watched")
		w.release(p)
		w.eventually(func() bool { return watchers() == 0 }, "it is still watched")
	}
}
