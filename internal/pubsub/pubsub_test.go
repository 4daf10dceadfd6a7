package pubsub

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// calls records the calls of a Hub.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, what)
}

func (c *calls) take() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, c.all = c.all, nil
	return all
}

// newTestHub returns a Hub for these names, and a record of its calls.
func newTestHub(t *testing.T, rdb redis.UniversalClient, names ...string) (*Hub, *calls) {
	t.Helper()
	c := &calls{}
	g := goroutines.New()
	t.Cleanup(g.Close)
	k := protocol.Keyspace{Prefix: "fairsem-test-" + uuid.NewString(), ClientID: "me"}
	cluster, _ := rdb.(Cluster)
	return New(rdb, cluster, k, time.Hour, g, Hooks{
		Woken:        func(name string, _ int64, _ []protocol.Grant) { c.add("woken " + name) },
		Gap:          func() { c.add("gap") },
		VerifyAll:    func() { c.add("verify all") },
		Verify:       func(name string) { c.add("verify " + name) },
		Names:        func() []string { return names },
		Disconnected: func(string, string, error) { c.add("disconnected") },
		Reconnected:  func(string, string, time.Duration) { c.add("reconnected") },
	}), c
}

// While no subscription was established, messages may have been lost, and another server may have been there for a moment.
func TestNewSubscriptionMeansAGapAndAVerificationOfAllNames(t *testing.T) {
	t.Parallel()
	h, called := newTestHub(t, redis.NewClient(&redis.Options{}))
	h.handleWake(&redis.Subscription{})
	assert.Equal(t, []string{"gap", "verify all"}, called.take())
	h.handleWake(&redis.Pong{})
	h.handleWake(&redis.Message{Payload: "nonsense"})
	assert.Empty(t, called.take())
}

// nodes is a cluster in which each key is on one of two nodes.
type nodes struct {
	redis.UniversalClient
	of map[string]*redis.Client // by key
}

func (n nodes) MasterForKey(_ context.Context, key string) (*redis.Client, error) {
	return n.of[key], nil
}
func (n nodes) ReloadState(context.Context) {}
func (n nodes) ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error {
	return nil
}

func TestNewSubscriptionToAPrimaryVerifiesOnlyItsNames(t *testing.T) {
	t.Parallel()
	one, two := redis.NewClient(&redis.Options{}), redis.NewClient(&redis.Options{})
	h, called := newTestHub(t, nodes{one, nil}, "a", "b", "c")
	h.cluster = nodes{one, map[string]*redis.Client{
		h.keyspace.Key("a", protocol.Owner): one, h.keyspace.Key("b", protocol.Owner): two, h.keyspace.Key("c", protocol.Owner): one,
	}}
	h.watched[one], h.watched[two] = true, true
	h.handleWatch(two, &redis.Subscription{})
	assert.Equal(t, []string{"verify b"}, called.take())
	h.handleWatch(one, &redis.Subscription{})
	assert.Equal(t, []string{"verify a", "verify c"}, called.take())
	h.handleWatch(one, &redis.Pong{})
	assert.Empty(t, called.take())
	assert.True(t, h.needs(two))
	assert.False(t, h.needs(redis.NewClient(&redis.Options{})), "no name is there")
}

func TestPrimaryThatGetsANameWhileNamesAreLookedUpStaysWatched(t *testing.T) {
	t.Parallel()
	one := redis.NewClient(&redis.Options{})
	h, _ := newTestHub(t, nodes{one, nil})
	h.cluster = nodes{one, map[string]*redis.Client{h.keyspace.Key("a", protocol.Owner): one}}
	h.watched[one] = true
	h.hooks.Names = func() []string {
		h.Watch("a")
		return nil
	}
	assert.True(t, h.needs(one))
	assert.True(t, h.watched[one])
	h.hooks.Names = func() []string { return nil }
	assert.False(t, h.needs(one))
	assert.False(t, h.watched[one])
}

// The check whether a subscription is dead may run while the client is closed.
func TestFailureIsReportedOnceAndNotAtClose(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		h, called := newTestHub(t, redis.NewClient(&redis.Options{}))
		if closed {
			h.goroutines.Close()
		}
		s := h.grants()
		s.failed(errSubscriptionSilent)
		s.failed(io.EOF)
		want := []string{"disconnected"}
		if closed {
			want = nil
		}
		assert.Equal(t, want, called.take())
	}
}

// A server repeats a command that it does not know, and that may be AUTH: it is often renamed.
func TestPasswordThatAServerRepeatsIsNotReported(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t, "--rename-command", "HELLO", "", "--rename-command", "AUTH", "")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "correct-horse"})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	h, _ := newTestHub(t, rdb)
	down := make(chan error, 1)
	h.hooks.Disconnected = func(_, _ string, err error) { down <- err }
	h.Start()
	err := <-down
	assert.ErrorContains(t, err, "unknown command")
	assert.NotContains(t, err.Error(), "correct-horse")
}

func TestClosedHubStartsNothing(t *testing.T) {
	t.Parallel()
	h, _ := newTestHub(t, redis.NewClient(&redis.Options{}))
	h.goroutines.Close()
	h.Start()
	assert.False(t, h.Blind(), "nothing can be noticed, or missed, any more")
}

// After a planned failover the old server goes on for a while, and what grants anything sends its messages from the new one.
func TestResubscribingLeavesTheServerOfTheSubscriptionForTheOneThatIsDialledNow(t *testing.T) {
	t.Parallel()
	first, second := redistest.NewServer(t), redistest.NewServer(t)
	var primary atomic.Pointer[redistest.Server]
	primary.Store(first)
	rdb := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, primary.Load().Addr())
	}})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	h, called := newTestHub(t, rdb)
	h.Resubscribe()
	h.Start()
	require.Eventually(t, func() bool { return !h.Blind() }, time.Minute, time.Millisecond)
	assert.Contains(t, called.take(), "gap")
	primary.Store(second)
	h.Resubscribe()
	channel := h.keyspace.WakePrefix() + "me"
	require.Eventually(t, func() bool {
		return second.Client().PubSubNumSub(t.Context(), channel).Val()[channel] == 1 && !h.Blind()
	}, time.Minute, time.Millisecond)
	all := called.take()
	assert.Equal(t, []string{"verify all", "disconnected"}, all[:2])
	assert.Equal(t, []string{"reconnected", "gap", "verify all"}, all[len(all)-3:])
	require.Eventually(t, func() bool { return first.Client().PubSubNumSub(t.Context(), channel).Val()[channel] == 0 }, time.Minute, time.Millisecond)
}

// movable is a cluster in which one node has all slots.
type movable struct {
	nodes
	owner *atomic.Pointer[redis.Client]
}

func (m movable) MasterForKey(context.Context, string) (*redis.Client, error) {
	return m.owner.Load(), nil
}

// A node that was removed from its cluster lives on, without any messages: each wait took a third of a TTL, for minutes.
func TestSubscriptionFollowsTheSlotOfItsChannel(t *testing.T) {
	t.Parallel()
	first, second := redistest.NewServer(t), redistest.NewServer(t)
	m := movable{owner: new(atomic.Pointer[redis.Client])}
	m.owner.Store(first.Client())
	h, called := newTestHub(t, m)
	h.ttl = time.Second // so a second of silence is enough
	h.Start()
	channel := h.keyspace.WakePrefix() + "me"
	subscribers := func(s *redistest.Server) int64 { return s.Client().PubSubNumSub(t.Context(), channel).Val()[channel] }
	require.Eventually(t, func() bool { return subscribers(first) == 1 && !h.Blind() }, time.Minute, time.Millisecond)
	m.owner.Store(second.Client())
	require.Eventually(t, func() bool { return subscribers(second) == 1 && subscribers(first) == 0 && !h.Blind() }, time.Minute, time.Millisecond)
	assert.Equal(t, []string{"gap", "verify all"}, called.take()[:2])
}

// A subscription went to and fro for ever where the nodes of a cluster do not agree on their addresses.
func TestSubscriptionDoesNotReturnToANodeThatItHasLeft(t *testing.T) {
	t.Parallel()
	now := "first"
	s := &subscription{visited: map[string]bool{"": true, "first": true, "second": true}, place: func() (subscriber, string) { return nil, now }}
	assert.False(t, s.hasMoved())
	now = "second"
	assert.False(t, s.hasMoved())
	now = "" // not known
	assert.False(t, s.hasMoved())
	now = "third"
	assert.True(t, s.hasMoved())
}

// From the start until the server has confirmed the subscription, it could go away unnoticed.
func TestHubIsBlindUntilItsSubscriptionIsEstablished(t *testing.T) {
	t.Parallel()
	rdb := testclient.Settled(t)
	h, called := newTestHub(t, rdb)
	assert.False(t, h.Blind(), "nothing is watched")
	h.Start()
	require.Eventually(t, func() bool { return !h.Blind() }, time.Minute, time.Millisecond)
	assert.Equal(t, []string{"gap", "verify all"}, called.take())
	key := h.keyspace.Key("a name", protocol.Owner)
	require.NoError(t, rdb.Publish(t.Context(), h.keyspace.WakePrefix()+"me", "1:2:3 4 "+key).Err())
	var got []string
	require.Eventually(t, func() bool { got = called.take(); return len(got) > 0 }, time.Minute, time.Millisecond)
	assert.Equal(t, []string{"woken a name"}, got)

	unreachable := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { assert.NoError(t, unreachable.Close()) })
	h, called = newTestHub(t, unreachable)
	h.Start()
	require.Eventually(t, func() bool { got = called.take(); return len(got) > 0 }, time.Minute, time.Millisecond)
	assert.Equal(t, []string{"disconnected"}, got, "it was a doubt from the start")
	assert.True(t, h.Blind())
}
