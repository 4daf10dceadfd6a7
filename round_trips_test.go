package fairsem_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// scriptCalls counts the script calls of one client, and those that a plain script declined: each costs a second round trip.
type scriptCalls struct {
	testclient.Hook
	verbs map[any]string // by the hash

	mu              sync.Mutex
	called, decline map[string]int
}

func newScriptCalls() *scriptCalls {
	s := &scriptCalls{verbs: make(map[any]string), called: make(map[string]int), decline: make(map[string]int)}
	for _, script := range slices.Concat(protocol.Scripts, protocol.PlainScripts) {
		s.verbs[script.Hash()] = script.Verb
	}
	return s
}

func (s *scriptCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range commands {
			if verb := s.verbs[fmt.Sprint(c.Args()[min(1, len(c.Args())-1)])]; verb != "" {
				s.called[verb]++
				if reply, ok := c.(protocol.Numbers); ok && slices.Equal(reply.Val(), []int64{0}) {
					s.decline[verb]++
				}
			}
		}
		return err
	}
}

// seldomDeclined checks that fewer than half of so many pairs of an acquire and a release needed a second round trip: on a busy machine
// some leases expire, too. A client that does not learn from them needs one for each pair.
func (s *scriptCalls) seldomDeclined(t *testing.T, pairs int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	declined := 0
	for _, n := range s.decline {
		declined += n
	}
	assert.LessOrEqual(t, declined, pairs/2, fmt.Sprintf("second round trips of %d pairs: called %v, declined %v", pairs, s.called, s.decline))
}

// counted returns a semaphore of another process, and counts its script calls.
func (w *world) counted(ttl time.Duration) (*fairsem.Semaphore, *scriptCalls) {
	w.t.Helper()
	rdb, calls := w.connect(), newScriptCalls()
	rdb.AddHook(calls)
	return w.of(w.clientOn(rdb, fairsem.Options{TTL: ttl}), w.limit), calls
}

const pairs = 50

// A lock for which one caller sometimes waits: two processes take turns, and in between nobody holds it.
func TestProcessesThatTakeTurnsSeldomNeedASecondRoundTrip(t *testing.T) {
	w := onRedis(t)
	a, callsOfA := w.counted(w.ttl)
	b, callsOfB := w.counted(w.ttl)
	for range pairs {
		held := w.must(a.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), b, 1)
		w.release(held)
		w.release(w.granted(waiter))
	}
	callsOfA.seldomDeclined(t, pairs)
	callsOfB.seldomDeclined(t, pairs)
}

// The client knows that its ticket waits, and that the plain scripts release holders only.
func TestAcquireThatIsGivenUpInTheQueueSeldomNeedsASecondRoundTrip(t *testing.T) {
	w := onRedis(t)
	a := w.semaphore()
	b, calls := w.counted(w.ttl)
	held := w.must(a.Acquire(t.Context(), 1))
	first := w.queue(t.Context(), a, 1)
	for range pairs {
		ctx, cancel := context.WithCancel(t.Context())
		waiter := w.queue(ctx, b, 1)
		cancel()
		<-waiter.done
		w.eventually(func() bool { return w.status(a).Waiting == 1 }, "it stays in the queue")
	}
	calls.seldomDeclined(t, pairs)
	w.release(held)
	w.release(w.granted(first))
}

// All that hold and wait before it have later deadlines, so each acquire makes others poll, which only the full script does.
func TestAcquireWithAShorterTTLThanThoseBeforeItSeldomNeedsASecondRoundTrip(t *testing.T) {
	w := onRedis(t)
	long := w.of(w.clientOn(w.connect(), fairsem.Options{TTL: time.Minute}), 1)
	short, calls := w.counted(10 * time.Second)
	held := w.must(long.Acquire(t.Context(), 1))
	for range pairs {
		before := w.queue(t.Context(), long, 1)
		waiter := w.queue(t.Context(), short, 1)
		after := w.queue(t.Context(), long, 1)
		w.release(held)
		w.release(w.granted(before))
		w.release(w.granted(waiter))
		held = w.granted(after)
	}
	calls.seldomDeclined(t, pairs)
	w.release(held)
}

// A caller that sheds load tries while the limit is reached, and releases its permits.
func TestTryAcquireThatIsRefusedBetweenReleasesSeldomNeedsASecondRoundTrip(t *testing.T) {
	w := onRedis(t)
	w.limit = 2
	other := w.must(w.semaphore().Acquire(t.Context(), 1))
	s, calls := w.counted(w.ttl)
	for range pairs {
		held := w.must(s.Acquire(t.Context(), 1))
		_, err := s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		w.release(held)
	}
	calls.seldomDeclined(t, pairs)
	w.release(other)
}

// One call renews more waiters than a full script may, and they keep their places.
func TestManyWaitersAreRenewedInCallsOfAPlainScript(t *testing.T) {
	w := onRedis(t)
	const n = 2 * protocol.MaxIDs
	held := w.must(w.semaphore().Acquire(t.Context(), 1))
	s, calls := w.counted(w.ttl)
	first := w.queue(t.Context(), s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var others []*call
	for range n {
		others = append(others, acquire(ctx, s, 1))
	}
	verb := protocol.PlainRefreshScript.Verb
	w.eventually(func() bool {
		calls.mu.Lock()
		defer calls.mu.Unlock()
		return calls.called[verb] > calls.decline[verb]
	}, "none is answered")
	w.eventually(func() bool { return w.status(s).Waiting == 1+n }, "one has lost its place")
	w.release(held)
	p := w.granted(first)
	cancel()
	for _, c := range others {
		<-c.done
		require.ErrorIs(t, c.err, context.Canceled)
	}
	w.release(p)
}
