package fairsem_test

import (
	"context"
	"fmt"
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
	"github.com/fairsem/fairsem/internal/testclient"
)

// pin sets a limit, and resets it at the end of the test, so that nothing stays.
func (w *world) pin(s *fairsem.Semaphore, limit int64) {
	w.t.Helper()
	require.NoError(w.t, s.SetLimit(w.t.Context(), limit))
	w.t.Cleanup(func() { assert.NoError(w.t, w.of(w.client(), 1).ResetLimit(context.Background())) })
}

func TestSetLimitWakesWaitersAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour // no refresh helps
		held, s := w.semaphore(), w.semaphore()
		first := w.must(held.Acquire(t.Context(), 1))
		second, third := w.queue(t.Context(), s, 1), w.queue(t.Context(), s, 1)
		w.pin(w.semaphore(), 2)
		w.release(w.granted(second))
		w.release(w.granted(third))
		w.release(first)
	})
}

// queueOf acquires n times in the background, and returns when all of these calls are in the queue.
func (w *world) queueOf(s *fairsem.Semaphore, n int64) (calls []*call) {
	w.t.Helper()
	for range n {
		calls = append(calls, acquire(w.t.Context(), s, 1))
	}
	w.eventually(func() bool { return w.status(s).Waiting == n }, "not all calls are in the queue")
	return calls
}

func TestSetLimitGrantsMoreThanOneCallCan(t *testing.T) {
	w := onRedis(t)
	w.ttl = time.Hour
	s := w.semaphore()
	w.release(w.must(s.Acquire(t.Context(), 1))) // the grace period of a new name is over
	w.pin(s, 0)
	const waiters = 1200 // more than two calls grant
	calls := w.queueOf(s, waiters)
	w.pin(w.semaphore(), waiters)
	for _, c := range calls {
		w.release(w.granted(c))
	}
}

// If more waiters fit than one call can grant, SetLimit calls again. Those calls must not set the limit again.
func TestLaterPauseHoldsWhileSetLimitStillGrants(t *testing.T) {
	w := onRedis(t)
	w.ttl = time.Hour
	s := w.semaphore()
	w.release(w.must(s.Acquire(t.Context(), 1))) // the grace period of a new name is over
	w.pin(s, 0)
	const waiters = 1200 // more than two calls grant
	calls := w.queueOf(s, waiters)
	rdb, other := w.connect(), w.semaphore()
	rdb.AddHook(&afterScripts{then: func([][]any) bool {
		if w.status(other).Limit != waiters {
			return false
		}
		require.NoError(t, other.SetLimit(t.Context(), 0))
		return true
	}})
	require.NoError(t, w.of(w.clientOn(rdb, fairsem.Options{}), 1).SetLimit(t.Context(), waiters))
	assert.Zero(t, w.status(s).Limit, "the pause was confirmed after the SetLimit")
	require.NoError(t, other.SetLimit(t.Context(), waiters))
	for _, c := range calls {
		w.release(w.granted(c))
	}
}

// A server that hung executes the commands that are still in its sockets when it continues, whatever happened meanwhile.
func TestLateCopyOfAChangeDoesNotReplaceALaterOne(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		rdb := w.connect()
		var sent [][]any
		rdb.AddHook(&afterScripts{then: func(calls [][]any) bool { sent = append(sent, calls...); return false }})
		s, later := w.of(w.clientOn(rdb, fairsem.Options{}), 1), w.semaphore()
		arrive := func() {
			t.Helper()
			for _, args := range sent {
				require.NoError(t, w.rdb.Do(t.Context(), args...).Err())
			}
		}
		w.pin(s, 3)
		w.pin(later, 5)
		arrive()
		assert.Equal(t, int64(5), w.status(later).Limit)
		require.NoError(t, later.ResetLimit(t.Context()))
		arrive()
		assert.False(t, w.status(later).Pinned)
		require.NoError(t, s.ResetLimit(t.Context())) // no limit is set
		w.pin(later, 0)
		arrive()
		st := w.status(later)
		assert.True(t, st.Pinned && st.Limit == 0)
	})
}

// afterScripts is a go-redis hook that reports executed scripts until it is stopped.
type afterScripts struct {
	testclient.Hook
	then func(calls [][]any) (done bool)
}

// copyOf returns the arguments of a script call, to be sent again. They have the text of the script:
// another test may have emptied the cache.
func copyOf(c redis.Cmder) []any {
	args := slices.Clone(c.Args())
	source := fmt.Sprint(args[1])
	for _, s := range slices.Concat(protocol.Scripts, protocol.PlainScripts) {
		if source == s.Hash() {
			args[0], source = "eval", s.Text()
		}
	}
	args[1] = source
	return args
}

func (h *afterScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		var calls [][]any
		for _, c := range cmds {
			if (c.Name() == "evalsha" || c.Name() == "eval") && c.Err() == nil {
				calls = append(calls, copyOf(c))
			}
		}
		if len(calls) > 0 && h.then != nil && h.then(calls) {
			h.then = nil
		}
		return err
	}
}

func TestSmallerLimitRevokesNoPermitAndGrantsNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		s := w.semaphore()
		permits := []*fairsem.Permit{w.must(s.Acquire(t.Context(), 1)), w.must(s.Acquire(t.Context(), 1)), w.must(s.Acquire(t.Context(), 1))}
		w.pin(s, 1)
		waiter := w.queue(t.Context(), w.semaphore(), 1)
		for _, p := range permits {
			assert.NoError(t, p.Context().Err(), "a permit was revoked")
			assert.True(t, waiter.waits(), "a waiter was granted beyond the limit")
			w.release(p)
		}
		w.release(w.granted(waiter))
	})
}

func TestLimitOfZeroIsAPauseForAllProcesses(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 2
		s := w.semaphore()
		held := w.must(s.Acquire(t.Context(), 1))
		w.pin(s, 0)
		late := w.semaphore() // declares 2 again, but the limit set by hand counts
		_, err := late.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		waiter, large := w.queue(t.Context(), late, 1), w.queue(t.Context(), late, 2)
		assert.NoError(t, held.Context().Err())
		w.release(held)
		assert.True(t, waiter.waits() && large.waits(), "a waiter was granted during a pause")
		require.NoError(t, w.semaphore().ResetLimit(t.Context()))
		w.release(w.granted(waiter))
		w.release(w.granted(large))
	})
}

func TestLimitSetByHandOverridesDeclarationsUntilItIsReset(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		w.pin(s, 3)
		newer := w.of(w.client(), 7)
		w.release(w.must(newer.Acquire(t.Context(), 1)))
		st := w.status(s)
		assert.Equal(t, []any{int64(3), int64(7), true}, []any{st.Limit, st.Declared, st.Pinned})
		require.NoError(t, newer.ResetLimit(t.Context()))
		st = w.status(s)
		assert.Equal(t, []any{int64(7), int64(7), false}, []any{st.Limit, st.Declared, st.Pinned})
	})
}

func TestLimitSetByHandOutlivesAllProcesses(t *testing.T) {
	w := onRedis(t)
	s := w.semaphore()
	w.release(w.must(s.Acquire(t.Context(), 1)))
	w.pin(s, 5)
	assert.Equal(t, time.Duration(-1), w.rdb.PTTL(t.Context(), w.key("meta")).Val(), "PTTL of a key that never expires")
	for _, kind := range []string{"counter", "timeout"} {
		assert.NotEqual(t, time.Duration(-1), w.rdb.PTTL(t.Context(), w.key(kind)).Val(), kind)
	}
	require.NoError(t, s.ResetLimit(t.Context()))
	assert.Positive(t, w.rdb.PTTL(t.Context(), w.key("meta")).Val())
}

func TestWaiterLargerThanALimitSetByHandGetsErrExceedsLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 3, time.Hour
		s := w.semaphore()
		held := w.must(s.Acquire(t.Context(), 3))
		large, small := w.queue(t.Context(), s, 3), w.queue(t.Context(), s, 1)
		w.pin(w.semaphore(), 2)
		<-large.done
		assert.ErrorIs(t, large.err, fairsem.ErrExceedsLimit)
		w.release(held)
		w.release(w.granted(small))
	})
}

// During a rolling deployment, old and new processes call alternately, each with the limit that it was built with.
func TestRollingDeploymentChangesToTheNewLimitOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		before := w.of(w.client(), 2)
		w.release(w.must(before.Acquire(t.Context(), 1)))
		after := w.of(w.client(), 5)
		w.release(w.must(after.Acquire(t.Context(), 1)))
		for range 20 {
			w.release(w.must(before.Acquire(t.Context(), 1)))
			require.Equal(t, int64(5), w.status(before).Limit)
			w.release(w.must(after.Acquire(t.Context(), 5)))
		}
	})
}

func TestSetLimitRefusesInvalidLimitsBeforeAnyIO(t *testing.T) {
	t.Parallel()
	s := offlineSemaphore(t, "name").Inspector
	assert.ErrorIs(t, s.SetLimit(t.Context(), -1), fairsem.ErrInvalid)
	assert.ErrorIs(t, s.SetLimit(t.Context(), 1<<53), fairsem.ErrInvalid)
	assert.ErrorIs(t, s.SetLimit(none, 1), fairsem.ErrInvalid)
	assert.ErrorIs(t, s.ResetLimit(none), fairsem.ErrInvalid)
	assert.ErrorIs(t, s.Evict(t.Context(), ""), fairsem.ErrInvalid)
	assert.ErrorIs(t, s.Evict(none, "a:1"), fairsem.ErrInvalid)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, s.SetLimit(done, 1), context.Canceled)
	assert.ErrorIs(t, s.Evict(done, "a:1"), context.Canceled)
}

func TestEvictedHolderIsNotifiedAtOnceAndItsUnitsAreFree(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour // no refresh helps
		holder, next := w.semaphore(), w.semaphore()
		p := w.must(holder.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), next, 1)
		require.NoError(t, w.semaphore().Evict(t.Context(), p.ID()))
		got := w.granted(waiter)
		<-p.Context().Done()
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrEvicted)
		err := givenBack(t.Context(), p)
		assert.ErrorIs(t, err, fairsem.ErrLost)
		wrong(t, err, fairsem.ErrEvicted, fmt.Sprintf("release %q: permit lost: evicted", w.name))
		assert.NoError(t, got.Context().Err(), "its release ended another permit")
		assert.Equal(t, int64(1), w.status(next).Used)
		w.release(got)
	})
}

// A program that looks at the error, and not at the context of the permit, learned only that it was lost.
func TestErrorOfWhatHadAnEvictedPermitIsErrEvictedAndErrLost(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour // no lease ends
		s, operator := w.semaphore(), w.semaphore()
		evict := func() {
			for id := range w.holders(operator) {
				require.NoError(t, operator.Evict(t.Context(), id))
			}
		}
		is := func(what string, err error) {
			assert.ErrorIs(t, err, fairsem.ErrEvicted, what)
			assert.ErrorIs(t, err, fairsem.ErrLost, what)
		}
		is("Do", s.Do(t.Context(), 1, func(ctx context.Context) error {
			evict()
			<-ctx.Done()
			return nil
		}))
		all, err := fairsem.AcquireAll(t.Context(), s.Request(1))
		require.NoError(t, err)
		evict()
		<-all.Context().Done()
		is("Permits.Release", givenBack(t.Context(), all))
		sem := w.weighted()
		var heard losses
		heard.watch(sem)
		require.True(t, sem.TryAcquire(1))
		evict()
		w.eventually(func() bool { return len(heard.reported()) == 1 }, "the loss is not reported")
		is("OnLost", heard.err)
		is("Weighted.Err", sem.Err())
		sem.Release(1)
		require.NoError(t, sem.Err())
		require.True(t, sem.TryAcquire(1))
		w.loseOnServer(operator, 1)
		sem.Release(1)
		assert.ErrorIs(t, heard.err, fairsem.ErrLost)
		assert.NotErrorIs(t, heard.err, fairsem.ErrEvicted, "this one expired")
	})
}

func TestEvictedWaiterGetsErrEvictedAndTheNextIsGranted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 2, time.Hour
		s := w.semaphore()
		held := w.must(s.Acquire(t.Context(), 1))
		large, small := w.queue(t.Context(), s, 2), w.queue(t.Context(), s, 1)
		for head, err := range s.Waiters(t.Context()) {
			require.NoError(t, err)
			require.NoError(t, w.semaphore().Evict(t.Context(), head.ID))
			break
		}
		<-large.done
		assert.ErrorIs(t, large.err, fairsem.ErrEvicted)
		w.release(w.granted(small))
		w.release(held)
	})
}

func TestLabelOfTheEvictingProcessIsKeptForAShortTime(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), 1))
		by, err := s.EvictedBy(t.Context(), p.ID())
		require.NoError(t, err)
		assert.Empty(t, by)
		long := strings.Repeat("é", 128)
		operator, err := fairsem.New(w.rdb, fairsem.Options{Label: long})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, operator.Close()) })
		require.NoError(t, operator.Inspect(w.name).Evict(t.Context(), p.ID()))
		<-p.Context().Done()
		w.eventually(func() bool { // Evict does not wait long for its label to be stored
			by, err = s.EvictedBy(t.Context(), p.ID())
			return err == nil && by == long
		}, "the label is not stored")
		require.ErrorIs(t, s.Evict(t.Context(), p.ID()), fairsem.ErrNotFound)
		by, err = s.EvictedBy(t.Context(), p.ID())
		require.NoError(t, err)
		assert.Equal(t, long, by, "an Evict that finds nothing stores no label")
		assert.LessOrEqual(t, w.rdb.PTTL(t.Context(), "fairsem:evicted:"+p.ID()).Val(), 20*time.Second)
		assert.Positive(t, w.rdb.PTTL(t.Context(), "fairsem:evicted:"+p.ID()).Val())
	})
}

func TestLabelOfTheEvictingProcessIsReadUpToItsMaximum(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		require.NoError(t, w.rdb.Set(t.Context(), "fairsem:evicted:a:1", strings.Repeat("x", 1<<20), time.Minute).Err())
		t.Cleanup(func() { assert.NoError(t, w.rdb.Del(context.Background(), "fairsem:evicted:a:1").Err()) })
		by, err := w.semaphore().EvictedBy(t.Context(), "a:1")
		require.NoError(t, err)
		assert.Equal(t, strings.Repeat("x", 256), by)
	})
}

func TestNoRefreshPermitIsNotifiedOfItsEviction(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore().With(fairsem.CallOptions{NoRefresh: true, TTL: time.Hour})
		p := w.must(s.Acquire(t.Context(), 1))
		require.NoError(t, w.semaphore().Evict(t.Context(), p.ID()))
		<-p.Context().Done()
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrEvicted)
	})
}

func TestEvictionIsFoundByTheNextRefreshWithAllMessagesLost(t *testing.T) {
	w := securely(t, append(rights(t), "-publish")...)
	w.ttl = 5 * time.Second // a third of it has to pass, and on a busy machine no lease must end before
	s := w.semaphore()
	p := w.must(s.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), s, 1)
	for id := range w.waiters(s) {
		require.NoError(t, s.Evict(t.Context(), id))
	}
	<-waiter.done
	assert.ErrorIs(t, waiter.err, fairsem.ErrEvicted)
	require.NoError(t, s.Evict(t.Context(), p.ID()))
	<-p.Context().Done()
	assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrEvicted)
}

// A release that came before the message, or instead of it, reported a permit that had expired.
func TestReleaseOfAnEvictedPermitIsErrEvictedBeforeItsHolderIsNotified(t *testing.T) {
	w := securely(t, append(rights(t), "-publish")...)
	w.ttl = time.Hour // no refresh finds it
	operator := w.semaphore()
	for _, s := range []*fairsem.Semaphore{w.semaphore(), w.semaphore().With(fairsem.CallOptions{Tenant: "a"})} {
		p := w.must(s.Acquire(t.Context(), 1))
		require.NoError(t, operator.Evict(t.Context(), p.ID()))
		err := givenBack(t.Context(), p)
		assert.ErrorIs(t, err, fairsem.ErrLost)
		wrong(t, err, fairsem.ErrEvicted, fmt.Sprintf("release %q: permit lost: evicted", w.name))
	}
}

// waiters returns the ids of the waiters.
func (w *world) waiters(s *fairsem.Semaphore) map[string]bool {
	w.t.Helper()
	ids := make(map[string]bool)
	for ticket, err := range s.Waiters(w.t.Context()) {
		require.NoError(w.t, err)
		ids[ticket.ID] = true
	}
	return ids
}

func TestEvictOfAnUnknownIDIsErrNotFound(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), 1))
		for _, id := range []string{"unknown:1", uuid.NewString() + ":7", p.ID() + "0", "\x00*{}"} {
			err := s.Evict(t.Context(), id)
			assert.ErrorIs(t, err, fairsem.ErrNotFound)
		}
		assert.NoError(t, p.Context().Err())
		require.NoError(t, s.Evict(t.Context(), p.ID()))
		assert.ErrorIs(t, s.Evict(t.Context(), p.ID()), fairsem.ErrNotFound, "it was already evicted")
		<-p.Context().Done()
	})
}

// An acquire whose answer is lost is sent again with the same id. That must not restore an evicted waiter.
func TestEvictedWaiterIsNotGrantedWhenItsAcquireIsSentAgain(t *testing.T) {
	w := onRedis(t)
	s := w.semaphore()
	held := w.must(s.Acquire(t.Context(), 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := w.queue(ctx, s, 1)
	for id := range w.waiters(s) {
		require.NoError(t, s.Evict(t.Context(), id))
	}
	<-waiter.done
	w.release(held)
	assert.ErrorIs(t, waiter.err, fairsem.ErrEvicted)
	assert.Zero(t, w.status(s).Used)
}

func TestListYieldsEachNameInUseOrWithALimitSetByHandOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		prefix := "fairsem:list*[?]\\-" + uuid.NewString()
		c := w.clientOn(w.connect(), fairsem.Options{Prefix: prefix})
		for _, err := range c.List(t.Context()) {
			require.NoError(t, err)
			t.Error("a name that is not in use")
		}
		other := w.clientOn(w.connect(), fairsem.Options{Prefix: strings.Replace(prefix, "*", "x", 1)})
		var want []string
		for _, name := range []string{"a", "b}:meta", "c d\n\x00", "}{"[1:] + "e", strings.Repeat("f", 512)} {
			s, err := c.Semaphore(name, 1)
			require.NoError(t, err)
			defer func(p *fairsem.Permit) { assert.NoError(t, givenBack(context.Background(), p)) }(w.must(s.Acquire(t.Context(), 1)))
			want = append(want, name)
		}
		unused, err := other.Semaphore("of another prefix", 1)
		require.NoError(t, err)
		w.release(w.must(unused.Acquire(t.Context(), 1)))
		pinned, err := c.Semaphore("pinned", 1)
		require.NoError(t, err)
		require.NoError(t, pinned.SetLimit(t.Context(), 4))
		defer func() { assert.NoError(t, pinned.ResetLimit(context.Background())) }()
		var got []string
		for name, err := range c.List(t.Context()) {
			require.NoError(t, err)
			got = append(got, name)
		}
		assert.ElementsMatch(t, append(want, "pinned"), got)
	})
}

func TestListEndsWithItsContextAndWithTheClient(t *testing.T) {
	w := onRedis(t)
	c := w.client()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mustEndWith := func(ctx context.Context, want error) {
		var errs []error
		for name, err := range c.List(ctx) {
			assert.Empty(t, name)
			errs = append(errs, err)
		}
		require.Len(t, errs, 1)
		assert.ErrorIs(t, errs[0], want)
	}
	mustEndWith(ctx, context.Canceled)
	mustEndWith(none, fairsem.ErrInvalid)
	require.NoError(t, c.Close())
	mustEndWith(t.Context(), fairsem.ErrClosed)
}

// 100,000 waiters are read in pages: no reply holds more than some hundreds.
func TestLongQueuesAreListedPageByPage(t *testing.T) {
	w := onRedis(t)
	const waiters = 20_000
	deadline := float64(time.Now().Add(time.Hour).UnixMilli())
	for chunk := range slices.Chunk(slices.Collect(func(yield func(int) bool) {
		for i := range waiters {
			if !yield(i) {
				return
			}
		}
	}), 5000) {
		var positions, deadlines []redis.Z
		for _, i := range chunk {
			id := uuid.NewString() + ":1"
			positions = append(positions, redis.Z{Score: float64(i + 1), Member: id})
			deadlines = append(deadlines, redis.Z{Score: deadline, Member: id})
		}
		require.NoError(t, w.rdb.ZAdd(t.Context(), w.key("queue"), positions...).Err())
		require.NoError(t, w.rdb.ZAdd(t.Context(), w.key("timeout"), deadlines...).Err())
	}
	t.Cleanup(func() {
		assert.NoError(t, w.rdb.Del(context.Background(), w.key("queue"), w.key("timeout"), w.key("owner"), w.key("counter"), w.key("meta")).Err())
	})
	rdb := w.connect()
	largest := &largestReply{}
	rdb.AddHook(largest)
	seen := 0
	for _, err := range w.of(w.clientOn(rdb, fairsem.Options{}), 1).Waiters(t.Context()) {
		require.NoError(t, err)
		seen++
	}
	assert.Equal(t, waiters, seen)
	assert.NotZero(t, largest.values)
	assert.LessOrEqual(t, largest.values, 4*300)
}

// largestReply records the length of the longest list in a reply.
type largestReply struct {
	testclient.Hook
	values int
}

func (h *largestReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, c := range cmds {
			if list, ok := c.(interface{ Val() []any }); ok {
				h.values = max(h.values, len(list.Val()))
			}
		}
		return err
	}
}
