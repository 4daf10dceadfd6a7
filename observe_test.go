package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// An observer receives each event when it happens, and only then.

// diary records the events that an observer received.
type diary struct {
	mu  sync.Mutex
	all []fairsem.Event
}

func (d *diary) note(ev fairsem.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, ev)
}

func (d *diary) events() []fairsem.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// reported returns the events of one kind.
func reported[E fairsem.Event](d *diary) (found []E) {
	for _, ev := range d.events() {
		if e, ok := ev.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// awaited waits for the n-th event of a kind.
func awaited[E fairsem.Event](w *world, d *diary, n int) E {
	w.t.Helper()
	w.eventually(func() bool { return len(reported[E](d)) >= n }, fmt.Sprintf("%T is not reported %d times", *new(E), n))
	return reported[E](d)[n-1]
}

// kinds returns the names of the events about the ids in order, or of all events if there are no ids.
func (d *diary) kinds(ids ...string) (all []string) {
	for _, ev := range d.events() {
		if len(ids) == 0 || slices.Contains(ids, field[string](ev, "ID")) {
			all = append(all, kind(ev))
		}
	}
	return all
}

// ofPermits leaves out what a slow machine adds: calls and subscriptions that fail meanwhile.
func (d *diary) ofPermits() []fairsem.Event {
	return slices.DeleteFunc(d.events(), func(ev fairsem.Event) bool {
		return slices.Contains([]string{"CallFailed", "Disconnected", "Reconnected", "Unreturned"}, kind(ev))
	})
}

func (d *diary) kindsOfPermits() (all []string) {
	for _, ev := range d.ofPermits() {
		all = append(all, kind(ev))
	}
	return all
}

// kind returns the name of the type of an event, without the common parts.
func kind(ev fairsem.Event) string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", ev), "fairsem."), "Event")
}

// field returns a field that not every event has.
func field[T any](ev fairsem.Event, name string) (value T) {
	if f := reflect.ValueOf(ev).FieldByName(name); f.IsValid() && !f.IsZero() {
		value = f.Interface().(T)
	}
	return value
}

// observed returns a client whose observer keeps a diary. The name was used before, because the first call on a server that was
// just started would wait.
func (w *world) observed(rdb redis.UniversalClient) (*fairsem.Client, *diary) {
	w.t.Helper()
	first := w.clientOn(w.connect(), fairsem.Options{TTL: time.Minute, Grace: w.grace}) // the server may be slow at first
	w.release(w.must(w.of(first, w.limit).Acquire(w.t.Context(), 1)))
	require.NoError(w.t, first.Close())
	d := &diary{}
	return w.clientOn(rdb, fairsem.Options{TTL: w.ttl, Observer: d.note}), d
}

// finish closes the client and returns the events of its permits: Close reports all of them before it returns.
func (w *world) finish(c *fairsem.Client, d *diary) []fairsem.Event {
	w.t.Helper()
	require.NoError(w.t, c.Close())
	return d.ofPermits()
}

// finishAfterAnOutage is finish where Redis may answer again too late for what Close waits for.
func (w *world) finishAfterAnOutage(c *fairsem.Client, d *diary) []fairsem.Event {
	w.t.Helper()
	if err := c.Close(); err != nil {
		require.ErrorIs(w.t, err, fairsem.ErrUnavailable)
	}
	return d.events()
}

// pass waits for d.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	began := time.Now()
	w.eventually(func() bool { return time.Since(began) > d }, "time stands still")
}

func TestGrantAtOnceAndItsReleaseAreReported(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "trace"))
		w.limit = 3
		c, d := w.observed(w.connect())
		before := time.Now()
		p := w.must(w.of(c, w.limit).Acquire(ctx, 2))
		cancel()
		w.pass(10 * time.Millisecond)
		w.release(p)
		after := time.Now()
		all := w.finish(c, d)
		require.Equal(t, []string{"Granted", "Released"}, d.kindsOfPermits())
		g, r := all[0].(fairsem.GrantedEvent), all[1].(fairsem.ReleasedEvent)
		assert.Equal(t, fairsem.GrantedEvent{
			At: g.At, Context: g.Context, Name: w.name, ID: p.ID(), Weight: 2, Waited: p.Waited(), Token: p.Token(), By: fairsem.GrantedAtOnce,
		}, g)
		assert.Equal(t, fairsem.ReleasedEvent{
			At: r.At, Context: r.Context, Name: w.name, ID: p.ID(), Weight: 2, Token: p.Token(), Held: r.Held,
		}, r)
		assert.True(t, before.Before(g.At) && g.At.Before(r.At) && r.At.Before(after))
		assert.Greater(t, r.Held, 10*time.Millisecond)
		assert.LessOrEqual(t, r.Held, r.At.Sub(g.At))
		for _, ev := range all {
			ctx := field[context.Context](ev, "Context")
			assert.Equal(t, "trace", ctx.Value(key{}))
			assert.NoError(t, ctx.Err(), "it ends with that of the caller")
		}
	})
}

// handOff makes one semaphore wait while another one holds, and checks the events of the waiting one. It returns how the grant was
// reported.
func (w *world) handOff(from, to *fairsem.Semaphore, d *diary) fairsem.GrantedBy {
	w.t.Helper()
	first := w.must(from.Acquire(w.t.Context(), 1))
	waiter := w.queue(w.t.Context(), to, 1)
	w.release(first)
	p := w.granted(waiter)
	w.release(p)
	w.eventually(func() bool { return len(d.kinds(p.ID())) == 3 }, "not all is reported")
	require.Equal(w.t, []string{"WaitStarted", "Granted", "Released"}, d.kinds(p.ID()))
	i := slices.IndexFunc(d.events(), func(ev fairsem.Event) bool { return field[string](ev, "ID") == p.ID() })
	s := d.events()[i].(fairsem.WaitStartedEvent)
	assert.Equal(w.t, fairsem.WaitStartedEvent{At: s.At, Context: s.Context, Name: w.name, ID: p.ID(), Weight: 1}, s)
	grants := reported[fairsem.GrantedEvent](d)
	g := grants[slices.IndexFunc(grants, func(g fairsem.GrantedEvent) bool { return g.ID == p.ID() })]
	assert.True(w.t, g.Queued)
	assert.Equal(w.t, p.Waited(), g.Waited)
	assert.False(w.t, g.At.Before(s.At))
	return g.By
}

// A new subscription queries missed messages, so the first grants may be found that way.
func (w *world) handsOffBy(want fairsem.GrantedBy, from, to *fairsem.Semaphore, d *diary) {
	w.t.Helper()
	var seen []fairsem.GrantedBy
	for range 100 {
		by := w.handOff(from, to, d)
		if by == want {
			return
		}
		require.Equal(w.t, fairsem.GrantedByRefresh, by)
		seen = append(seen, by)
	}
	w.t.Errorf("want a grant by %s, not %v", want, seen)
}

func TestGrantByTheSameProcessIsReportedByReply(t *testing.T) {
	everywhere(t, func(_ *testing.T, w *world) {
		w.ttl = time.Hour
		c, d := w.observed(w.connect())
		w.handsOffBy(fairsem.GrantedByReply, w.of(c, 1), w.of(c, 1), d)
	})
}

func TestGrantByAnotherProcessIsReportedByMessage(t *testing.T) {
	everywhere(t, func(_ *testing.T, w *world) {
		w.ttl = time.Hour
		c, d := w.observed(w.connect())
		w.handsOffBy(fairsem.GrantedByMessage, w.semaphore(), w.of(c, 1), d)
	})
}

func TestGrantWithoutAMessageIsReportedByRefresh(t *testing.T) {
	w := onRedis(t)
	w.ttl = 4 * time.Second // a third of it has to pass, and on a busy machine no lease must end before
	c, d := w.observed(deaf{w.connect().(*redis.Client)})
	assert.Equal(t, fairsem.GrantedByRefresh, w.handOff(w.semaphore(), w.of(c, 1), d))
}

func TestNotAcquiredIsReportedWithTheReturnedError(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 2
		c, d := w.observed(w.connect())
		other := w.semaphore()
		holder := w.must(other.Acquire(t.Context(), 2))
		line := w.queue(t.Context(), other, 1)
		s := w.of(c, w.limit)
		ctx, cancel := context.WithCancel(t.Context())
		for i, refused := range []struct {
			call func() error
			want error
		}{
			{func() error { _, err := s.TryAcquire(ctx, 1); return err }, fairsem.ErrNotAcquired},
			{func() error { _, err := s.Acquire(ctx, 3); return err }, fairsem.ErrExceedsLimit},
			{func() error {
				_, err := s.With(fairsem.CallOptions{MaxQueue: 1}).Acquire(ctx, 1)
				return err
			}, fairsem.ErrQueueFull},
			{func() error {
				waiter := w.queue(ctx, s, 1)
				awaited[fairsem.WaitStartedEvent](w, d, 1)
				cancel()
				<-waiter.done
				return waiter.err
			}, context.Canceled},
		} {
			err := refused.call()
			require.ErrorIs(t, err, refused.want)
			n := awaited[fairsem.NotAcquiredEvent](w, d, i+1)
			assert.Equal(t, err, n.Err)
			assert.Equal(t, w.name, n.Name)
			assert.Equal(t, i == 3, n.Queued)
			assert.Positive(t, n.Waited)
			if !n.Queued {
				assert.Equal(t, []string{"NotAcquired"}, d.kinds(n.ID))
			} else {
				assert.Equal(t, []string{"WaitStarted", "NotAcquired"}, d.kinds(n.ID))
			}
		}
		assert.Len(t, w.finish(c, d), 5)
		w.release(holder)
		w.release(w.granted(line))
	})
}

// A call that sends nothing causes no event.
func TestInvalidCallIsNotReported(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, d := w.observed(w.connect())
		s := w.of(c, 1)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Acquire(done, 1)
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.TryAcquire(t.Context(), 0)
		require.ErrorIs(t, err, fairsem.ErrInvalid)
		require.Empty(t, w.finish(c, d))
		_, err = s.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrClosed)
		assert.Empty(t, d.events())
	})
}

func TestCloseReportsWhatItEndsBeforeItReturns(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, d := w.observed(w.connect())
		s := w.of(c, 1)
		p := w.must(s.Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls []*call
		for range 20 {
			calls = append(calls, w.queue(ctx, s, 1))
		}
		awaited[fairsem.WaitStartedEvent](w, d, len(calls)) // their positions are confirmed
		w.finish(c, d)
		assert.Equal(t, []string{"Granted", "Released"}, d.kinds(p.ID()))
		assert.NoError(t, reported[fairsem.ReleasedEvent](d)[0].Err)
		refused := reported[fairsem.NotAcquiredEvent](d)
		require.Len(t, refused, len(calls))
		for _, n := range refused {
			require.ErrorIs(t, n.Err, fairsem.ErrClosed)
			assert.Equal(t, []string{"WaitStarted", "NotAcquired"}, d.kinds(n.ID))
		}
		for _, c := range calls {
			<-c.done
			assert.ErrorIs(t, c.err, fairsem.ErrClosed)
		}
	})
}

func TestErrorThatARetryCannotHealIsReported(t *testing.T) {
	w := onRedis(t)
	c, d := w.observed(w.connect())
	require.NoError(t, w.rdb.Set(t.Context(), w.key("owner"), "not a set", time.Minute).Err())
	_, err := w.of(c, 1).Acquire(t.Context(), 1)
	require.ErrorContains(t, err, "WRONGTYPE")
	w.finish(c, d)
	assert.Equal(t, []string{"CallFailed", "NotAcquired"}, d.kinds())
	assert.ErrorIs(t, reported[fairsem.NotAcquiredEvent](d)[0].Err, reported[fairsem.CallFailedEvent](d)[0].Err)
	require.NoError(t, w.rdb.Del(t.Context(), w.key("owner")).Err())
}

func TestServerThatIsDownIsReported(t *testing.T) {
	w, server := privately(t)
	w.ttl = time.Second
	c, d := w.observed(w.connect())
	require.NoError(t, server.Kill())
	_, err := w.of(c, 1).Acquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	n := awaited[fairsem.NotAcquiredEvent](w, d, 1)
	assert.Equal(t, err, n.Err)
	assert.Greater(t, n.Waited, w.ttl/2)
	f := awaited[fairsem.CallFailedEvent](w, d, 1)
	assert.Equal(t, fairsem.CallFailedEvent{At: f.At, Name: w.name, Verb: "acquire", Err: f.Err}, f)
	assert.Error(t, f.Err)
	require.NoError(t, server.Restart())
	w.finishAfterAnOutage(c, d)
	assert.Equal(t, []string{"NotAcquired"}, d.kinds(n.ID))
}

func TestLossWithoutAnAnswerIsReportedWithTheNetworkError(t *testing.T) {
	w, server := privately(t)
	w.ttl = 3 * time.Second // a busy machine takes a part of it
	c, d := w.observed(w.connect())
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	require.NoError(t, server.Pause())
	l := awaited[fairsem.LostEvent](w, d, 1)
	assert.EqualError(t, context.Cause(p.Context()), l.Err.Error(), "its holder learns the same")
	assert.Equal(t, fairsem.LostEvent{
		At: l.At, Context: l.Context, Name: w.name, ID: p.ID(), Weight: 1, Token: p.Token(), Held: l.Held, Err: l.Err,
	}, l)
	require.ErrorIs(t, l.Err, fairsem.ErrLost)
	require.ErrorContains(t, l.Err, "no answer in time")
	assert.Positive(t, l.Held)
	assert.LessOrEqual(t, l.Held, l.At.Sub(awaited[fairsem.GrantedEvent](w, d, 1).At)) // a query right after the grant renews it
	assert.Equal(t, "refresh", awaited[fairsem.CallFailedEvent](w, d, 1).Verb)
	require.NoError(t, server.Resume())
	require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
	w.finishAfterAnOutage(c, d)
	assert.Equal(t, []string{"Granted", "Lost"}, d.kinds(p.ID()))
}

// takeAway deletes an id from Redis without notifying its holder, at once: a renewal in between would find it evicted,
// or store a deadline again.
func (w *world) takeAway(id string) {
	w.t.Helper()
	_, err := w.rdb.TxPipelined(w.t.Context(), func(pipe redis.Pipeliner) error {
		for _, kind := range []string{"timeout", "owner"} {
			pipe.ZRem(w.t.Context(), w.key(kind), id)
		}
		return nil
	})
	require.NoError(w.t, err)
}

func TestLossThatARenewalFindsIsReported(t *testing.T) {
	w := onRedis(t)
	w.ttl = 6 * time.Second // a third of it has to pass, and on a busy machine the lease must not end before
	c, d := w.observed(w.connect())
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	w.takeAway(p.ID())
	l := awaited[fairsem.LostEvent](w, d, 1)
	require.ErrorIs(t, l.Err, fairsem.ErrLost)
	require.ErrorContains(t, l.Err, "it is not in Redis any more")
	require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
	w.finishAfterAnOutage(c, d) // on a busy machine a renewal may fail
	assert.Equal(t, []string{"Granted", "Lost"}, d.kinds(p.ID()))
}

func TestLossThatTheReleaseFindsIsReportedInsteadOfTheRelease(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		c, d := w.observed(w.connect())
		p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
		w.takeAway(p.ID())
		err := givenBack(t.Context(), p)
		require.ErrorIs(t, err, fairsem.ErrLost)
		w.finish(c, d)
		assert.Equal(t, []string{"Granted", "Lost"}, d.kindsOfPermits())
		assert.ErrorIs(t, reported[fairsem.LostEvent](d)[0].Err, fairsem.ErrLost)
	})
}

func TestPermitThatIsNeverRenewedIsReportedAsLost(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, d := w.observed(w.connect())
		brief := w.of(c, 1).With(fairsem.CallOptions{TTL: 4 * time.Second, NoRefresh: true}) // a busy machine takes a part of it
		p := w.must(brief.Acquire(t.Context(), 1))
		l := awaited[fairsem.LostEvent](w, d, 1)
		require.ErrorContains(t, l.Err, "nine tenths of its TTL are over, and it is never renewed")
		w.eventually(func() bool { return w.status(brief).Used == 0 }, "it does not expire")
		w.finish(c, d)
		assert.Equal(t, []string{"Granted", "Lost"}, d.kinds(p.ID()))
	})
}

func TestEvictionIsReported(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		c, d := w.observed(w.connect())
		s := w.of(c, 1)
		p := w.must(s.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), s, 1)
		id := awaited[fairsem.WaitStartedEvent](w, d, 1).ID
		operator := w.semaphore()
		require.NoError(t, operator.Evict(t.Context(), id))
		n := awaited[fairsem.NotAcquiredEvent](w, d, 1)
		<-waiter.done
		assert.Equal(t, waiter.err, n.Err)
		require.ErrorIs(t, n.Err, fairsem.ErrEvicted)
		require.NoError(t, operator.Evict(t.Context(), p.ID()))
		l := awaited[fairsem.LostEvent](w, d, 1)
		require.ErrorIs(t, l.Err, fairsem.ErrLost)
		require.ErrorIs(t, l.Err, fairsem.ErrEvicted)
		require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
		w.finish(c, d)
		assert.Equal(t, []string{"Granted", "Lost"}, d.kinds(p.ID()))
		assert.Equal(t, []string{"WaitStarted", "NotAcquired"}, d.kinds(id))
	})
}

// A grant of a Limiter is not a permit, so it cannot be lost or released.
func TestCallsOfALimiterAreReported(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const window = 2 * time.Second // a busy machine may take a second for the calls that belong in one
		w.limited.Store(true)
		d := &diary{}
		c := w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Observer: d.note})
		other, err := w.client().Limiter(w.name, 2, window)
		require.NoError(t, err)
		require.NoError(t, other.Wait(t.Context(), 1)) // on a server that was just started it waits
		w.pass(window + 100*time.Millisecond)
		l, err := c.Limiter(w.name, 2, window)
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context(), 2))
		decision, err := l.Allow(t.Context(), 2)
		require.NoError(t, err)
		require.False(t, decision.Allowed)
		require.NoError(t, l.Wait(t.Context(), 1))
		all := w.finish(c, d)
		require.Equal(t, []string{"Allowed", "NotAcquired", "WaitStarted", "Allowed"}, d.kindsOfPermits())
		first, last := all[0].(fairsem.AllowedEvent), all[3].(fairsem.AllowedEvent)
		assert.Equal(t, fairsem.AllowedEvent{
			At: first.At, Context: first.Context, Name: w.name, ID: first.ID, Weight: 2, Waited: first.Waited, By: fairsem.GrantedAtOnce,
		}, first)
		require.ErrorIs(t, all[1].(fairsem.NotAcquiredEvent).Err, fairsem.ErrNotAcquired)
		assert.True(t, last.Queued)
		assert.Greater(t, last.Waited, 100*time.Millisecond)
		s := w.semaphore()
		w.eventually(func() bool { return w.status(s).Used == 0 }, "it does not expire")
	})
}

// Some methods of x/sync return no error.
func TestErrorThatAWeightedCannotReturnIsReported(t *testing.T) {
	w, server := privately(t)
	w.ttl = 3 * time.Second // a busy machine takes a part of it
	c, d := w.observed(w.connect())
	all, err := c.Weighted(w.name, 1)
	require.NoError(t, err)
	units := all.With(fairsem.CallOptions{Tenant: "acme"})
	require.True(t, units.TryAcquire(1))
	require.False(t, units.TryAcquire(1))
	require.Empty(t, reported[fairsem.UnreturnedEvent](d), "a refusal is no error")
	require.NoError(t, server.Pause())
	units.Release(1)
	u := awaited[fairsem.UnreturnedEvent](w, d, 1)
	assert.Equal(t, fairsem.UnreturnedEvent{At: u.At, Name: w.name, Tenant: "acme", Verb: "release", Units: 1, Err: u.Err}, u)
	require.Error(t, u.Err)
	require.False(t, units.TryAcquire(1))
	u = awaited[fairsem.UnreturnedEvent](w, d, 2)
	assert.Equal(t, []string{"try-acquire", "acme"}, []string{u.Verb, u.Tenant})
	require.NoError(t, server.Resume())
	w.eventually(func() bool { return len(reported[fairsem.ReleasedEvent](d)) == len(reported[fairsem.GrantedEvent](d)) }, "units are not released")
	w.finishAfterAnOutage(c, d)
	assert.Len(t, reported[fairsem.UnreturnedEvent](d), 2)
}

func TestPermitThatIsReleasedInPartsIsReportedOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 5
		c, d := w.observed(w.connect())
		units, err := c.Weighted(w.name, w.limit)
		require.NoError(t, err)
		require.True(t, units.TryAcquire(5))
		for _, n := range []int64{2, 2, 1} {
			require.Empty(t, reported[fairsem.ReleasedEvent](d))
			units.Release(n)
		}
		w.finish(c, d)
		assert.Equal(t, []string{"Granted", "Released"}, d.kindsOfPermits())
		assert.Equal(t, int64(5), reported[fairsem.ReleasedEvent](d)[0].Weight)
	})
}

// outages is a go-redis hook that loses every pipeline while it is on.
type outages struct {
	testclient.Hook
	on atomic.Bool
}

func (o *outages) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !o.on.Load() {
			return next(ctx, cmds)
		}
		for _, c := range cmds {
			c.SetErr(io.EOF)
		}
		return io.EOF
	}
}

func TestRenewalThatFailsAndRecoversIsReportedAndLosesNothing(t *testing.T) {
	w := onRedis(t)
	w.ttl = 8 * time.Second // a busy machine takes a part of it
	rdb := w.connect().(*redis.Client)
	outage := &outages{}
	rdb.AddHook(outage)
	c, d := w.observed(rdb)
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	outage.on.Store(true)
	f := awaited[fairsem.CallFailedEvent](w, d, 1)
	outage.on.Store(false)
	assert.Equal(t, fairsem.CallFailedEvent{At: f.At, Name: w.name, Verb: "refresh", Err: f.Err}, f)
	require.ErrorIs(t, f.Err, io.EOF)
	w.eventually(func() bool { return time.Since(f.At) > w.ttl }, "time stands still")
	require.NoError(t, p.Context().Err())
	w.release(p)
	w.finish(c, d)
	assert.Equal(t, []string{"Granted", "Released"}, d.kinds(p.ID()))
}

func TestReleaseThatRedisDoesNotConfirmIsReportedWithItsError(t *testing.T) {
	w, server := privately(t)
	w.ttl = 6 * time.Second // a stall must not end the lease before the release
	c, d := w.observed(w.connect())
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	require.NoError(t, server.Pause())
	require.ErrorIs(t, p.Release(t.Context()), fairsem.ErrUnavailable)
	r := awaited[fairsem.ReleasedEvent](w, d, 1)
	require.ErrorIs(t, r.Err, fairsem.ErrUnavailable)
	assert.Less(t, r.Held, w.ttl/2, "the time without an answer counts")
	require.NoError(t, server.Resume())
	w.finish(c, d)
	assert.Equal(t, []string{"Granted", "Released"}, d.kinds(p.ID()))
	w.awaitExpiry(w.client().Inspect(w.name))
}

func TestCloseThatCannotReachRedisReportsWhatItDidNotRelease(t *testing.T) {
	w, server := privately(t)
	w.ttl = time.Hour
	first := w.semaphore() // on a server that was just started it waits
	w.release(w.must(first.Acquire(t.Context(), 1)))
	d := &diary{}
	c, err := fairsem.New(w.connect(), fairsem.Options{TTL: w.ttl, Observer: d.note})
	require.NoError(t, err)
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	require.NoError(t, server.Pause())
	require.ErrorIs(t, c.Close(), fairsem.ErrUnavailable)
	assert.Equal(t, []string{"Granted", "Released"}, d.kinds(p.ID()))
	assert.ErrorIs(t, reported[fairsem.ReleasedEvent](d)[0].Err, fairsem.ErrUnavailable)
	require.NoError(t, server.Resume())
	require.NoError(t, w.rdb.Del(t.Context(), w.key("owner"), w.key("timeout")).Err())
}

func TestLostPositionIsReportedAndTheCallContinues(t *testing.T) {
	w := onRedis(t)
	w.ttl = 6 * time.Second // a third of it has to pass, and on a busy machine no lease must end before
	c, d := w.observed(w.connect())
	other := w.semaphore()
	holder := w.must(other.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), w.of(c, 1), 1)
	s := awaited[fairsem.WaitStartedEvent](w, d, 1)
	expireLease(t, w, s.ID)
	l := awaited[fairsem.PositionLostEvent](w, d, 1)
	assert.Equal(t, fairsem.PositionLostEvent{
		At: l.At, Context: l.Context, Name: w.name, ID: s.ID, Weight: 1, Queued: true, Waited: l.Waited,
	}, l)
	awaited[fairsem.WaitStartedEvent](w, d, 2)
	w.release(holder)
	p := w.granted(waiter)
	w.release(p)
	w.finish(c, d)
	assert.Equal(t, []string{"WaitStarted", "PositionLost"}, d.kinds(s.ID))
	assert.Equal(t, []string{"WaitStarted", "Granted", "Released"}, d.kinds(p.ID()))
	assert.Greater(t, reported[fairsem.GrantedEvent](d)[0].Waited, l.Waited, "it counts from the call")
}

func TestSubscriptionThatEndsAndIsEstablishedAgainIsReported(t *testing.T) {
	w, _ := privately(t)
	c, d := w.observed(w.connect())
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	channel := protocol.DefaultKeyspace.WakePrefix() + protocol.ClientOf(p.ID())
	for i := range 3 {
		w.eventually(func() bool {
			return w.rdb.PubSubNumSub(t.Context(), channel).Val()[channel] == 1
		}, "it does not subscribe")
		require.Len(t, reported[fairsem.DisconnectedEvent](d), i)
		require.NoError(t, w.rdb.ClientKillByFilter(t.Context(), "type", "pubsub").Err())
		lost := awaited[fairsem.DisconnectedEvent](w, d, i+1)
		back := awaited[fairsem.ReconnectedEvent](w, d, i+1)
		assert.Equal(t, fairsem.DisconnectedEvent{At: lost.At, Channel: channel, Err: lost.Err}, lost)
		require.Error(t, lost.Err)
		assert.Equal(t, fairsem.ReconnectedEvent{At: back.At, Channel: channel, Silent: back.Silent}, back)
		assert.GreaterOrEqual(t, back.Silent, back.At.Sub(lost.At))
	}
	w.release(p)
	w.finish(c, d)
	assert.Len(t, reported[fairsem.DisconnectedEvent](d), 3, "the end at Close is not reported")
	assert.Len(t, reported[fairsem.ReconnectedEvent](d), 3)
	assert.Equal(t, []string{"Granted", "Released"}, d.kinds(p.ID()))
}

func TestNodeOfAClusterThatBreaksTheConnectionIsReportedWithItsAddress(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	w := newWorld(t, func(testing.TB) redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs(cluster.Nodes)})
	})
	c, d := w.observed(w.connect())
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	owner, err := cluster.Owner(w.key("owner"))
	require.NoError(t, err)
	isNode := func(ev fairsem.Event) bool { return field[string](ev, "Node") == owner.Addr() }
	w.eventually(func() bool {
		owner.Client().ClientKillByFilter(t.Context(), "type", "pubsub")
		return slices.ContainsFunc(d.events(), isNode)
	}, "its end is not reported")
	first := d.events()[slices.IndexFunc(d.events(), isNode)]
	require.IsType(t, fairsem.DisconnectedEvent{}, first)
	w.eventually(func() bool {
		return slices.ContainsFunc(reported[fairsem.ReconnectedEvent](d), func(r fairsem.ReconnectedEvent) bool { return isNode(r) })
	}, "its return is not reported")
	w.release(p)
	w.finish(c, d)
	assert.Equal(t, []string{"Granted", "Released"}, d.kinds(p.ID()))
}

func TestSubscriptionWithoutARightIsReportedOnce(t *testing.T) {
	w, _ := privately(t)
	rights := []any{"ACL", "SETUSER", "mute", "on", "nopass", "~*", "resetchannels", "+@all"}
	require.NoError(t, w.rdb.Do(t.Context(), rights...).Err())
	c, d := w.observed(w.as("mute", "x"))
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	lost := awaited[fairsem.DisconnectedEvent](w, d, 1)
	require.ErrorContains(t, lost.Err, "NOPERM")
	w.eventually(func() bool { // it keeps trying
		log, err := w.rdb.ACLLog(t.Context(), 1).Result()
		return err == nil && len(log) > 0 && log[0].Count >= 3
	}, "it does not try again")
	w.release(p)
	w.finish(c, d)
	assert.Equal(t, []string{"Granted", "Released"}, d.kinds(p.ID()))
	assert.Len(t, reported[fairsem.DisconnectedEvent](d), 1)
	assert.Empty(t, reported[fairsem.ReconnectedEvent](d))
}

// closing calls Close in a goroutine.
func closing(c *fairsem.Client) *call {
	closed := &call{done: make(chan struct{})}
	go func() { // ends with Close
		defer close(closed.done)
		closed.err = c.Close()
	}()
	return closed
}

// Close does not return before the observer, and the observer misses nothing.
func TestSlowObserverReceivesEverythingBeforeCloseReturns(t *testing.T) {
	w := onRedis(t)
	w.limit = 50
	gate := make(chan struct{})
	d := &diary{}
	var inside atomic.Int64
	c := w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Observer: func(ev fairsem.Event) {
		if inside.Add(1) > 1 {
			t.Error("it is called by two at a time")
		}
		<-gate
		d.note(ev)
		inside.Add(-1)
	}})
	s := w.of(c, w.limit)
	var all sync.WaitGroup
	for range w.limit {
		all.Go(func() {
			for range 20 {
				p, err := s.Acquire(t.Context(), 1)
				if assert.NoError(t, err) {
					assert.NoError(t, givenBack(t.Context(), p))
				}
			}
		})
	}
	all.Wait()
	closed := closing(c) // ends when the gate is open
	w.eventually(func() bool {
		_, err := s.Status(t.Context())
		return errors.Is(err, fairsem.ErrClosed)
	}, "it does not close")
	select {
	case <-closed.done:
		t.Error("Close left the observer behind")
	case <-time.After(50 * time.Millisecond):
	}
	assert.Empty(t, d.events())
	close(gate)
	<-closed.done
	require.NoError(t, closed.err)
	assert.Len(t, reported[fairsem.GrantedEvent](d), 1000)
	assert.Len(t, reported[fairsem.ReleasedEvent](d), 1000)
}

// slowEnd is a context that has ended. The second check of its error is delayed.
type slowEnd struct {
	context.Context
	asked  atomic.Int64
	inside chan struct{} // closed at the second check
	gate   chan struct{}
}

func (s *slowEnd) Err() error {
	if s.asked.Add(1) != 2 {
		return nil
	}
	close(s.inside)
	<-s.gate
	return context.Canceled
}

// A call that is about to return has not reported its event yet.
func TestCloseWaitsForTheCallsThatAreAboutToReturn(t *testing.T) {
	w := onRedis(t)
	c, d := w.observed(w.connect())
	ctx := &slowEnd{Context: t.Context(), inside: make(chan struct{}), gate: make(chan struct{})}
	late := acquire(ctx, w.of(c, 1), 1)
	<-ctx.inside
	closed := closing(c) // ends when the call does
	select {
	case <-closed.done:
		t.Error("Close left a call behind")
	case <-time.After(200 * time.Millisecond):
	}
	close(ctx.gate)
	<-closed.done
	require.NoError(t, closed.err)
	<-late.done
	require.ErrorIs(t, late.err, context.Canceled)
	assert.Equal(t, []string{"NotAcquired"}, d.kindsOfPermits())
}

// An observer may use the client that it observes.
func TestObserverMayUseItsClient(t *testing.T) {
	w := onRedis(t)
	w.limit = 100
	var s *fairsem.Semaphore
	var inside []error
	d := &diary{}
	c := w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Observer: func(ev fairsem.Event) {
		d.note(ev)
		if len(inside) == 5 {
			return
		}
		p, err := s.TryAcquire(context.Background(), 1)
		if err == nil {
			err = p.Release(context.Background())
		}
		inside = append(inside, err)
	}})
	s = w.of(c, w.limit)
	w.release(w.must(s.Acquire(t.Context(), 1)))
	w.finish(c, d)
	for _, err := range inside {
		assert.True(t, err == nil || errors.Is(err, fairsem.ErrClosed), err)
	}
	assert.Len(t, inside, 5)
	assert.Len(t, reported[fairsem.ReleasedEvent](d), len(reported[fairsem.GrantedEvent](d)))
}

// logbook is a slog handler that keeps the records from a level on, but for calls without an answer, which a busy machine has now and then.
type logbook struct {
	level slog.Level

	mu      sync.Mutex
	records []slog.Record
	traces  []any // the values of traceKey in the contexts
}

type traceKey struct{}

func (l *logbook) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler               { panic("not needed") }
func (l *logbook) WithGroup(string) slog.Handler                    { panic("not needed") }

func (l *logbook) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "fairsem: operation failed" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records, l.traces = append(l.records, r), append(l.traces, ctx.Value(traceKey{}))
	return nil
}

// lines returns the level, the message and the names of the attributes of each record.
func (l *logbook) lines() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		text := r.Level.String() + " " + r.Message
		for a := range r.Attrs {
			text += " " + a.Key
		}
		all = append(all, text)
	}
	return all
}

func TestLoggerAndObserverReceiveTheSameEvents(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.release(w.must(w.semaphore().Acquire(t.Context(), 1))) // on a server that was just started it waits
		d, all := &diary{}, &logbook{level: slog.LevelDebug}
		warnings, beside := &logbook{level: slog.LevelWarn}, &logbook{level: slog.LevelWarn}
		clients := []*fairsem.Client{
			w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Logger: slog.New(all), Observer: d.note}),
			w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Logger: slog.New(warnings)}),
			w.clientOn(w.connect(), fairsem.Options{TTL: w.ttl, Logger: slog.New(beside), Observer: func(fairsem.Event) {}}),
		}
		ctx := context.WithValue(t.Context(), traceKey{}, "trace")
		for _, c := range clients {
			s := w.of(c, 1)
			w.release(w.must(s.Acquire(ctx, 1)))
			p := w.must(s.With(fairsem.CallOptions{TTL: 4 * time.Second, NoRefresh: true}).Acquire(ctx, 1))
			<-p.Context().Done()
			w.eventually(func() bool { return w.status(s).Used == 0 }, "it does not expire")
			_, err := s.Acquire(ctx, 2)
			require.ErrorIs(t, err, fairsem.ErrExceedsLimit)
			require.NoError(t, c.Close())
		}
		events := slices.DeleteFunc(d.events(), func(e fairsem.Event) bool { _, failed := e.(fairsem.CallFailedEvent); return failed })
		assert.Equal(t, []string{
			"DEBUG fairsem: permit granted name id weight queued waited token by",
			"DEBUG fairsem: permit released name id weight token held",
			"DEBUG fairsem: permit granted name id weight queued waited token by",
			"WARN fairsem: permit lost name id weight token held error",
			"DEBUG fairsem: not acquired name id weight queued waited error",
		}, all.lines())
		for i, r := range all.records {
			assert.Equal(t, field[time.Time](events[i], "At").UnixNano(), r.Time.UnixNano())
			assert.Equal(t, "trace", all.traces[i])
		}
		for _, l := range []*logbook{warnings, beside} {
			assert.Equal(t, []string{"WARN fairsem: permit lost name id weight token held error"}, l.lines())
		}
		warnings.records[0].Attrs(func(a slog.Attr) bool {
			if a.Key == "error" {
				assert.ErrorIs(t, a.Value.Any().(error), fairsem.ErrLost)
			}
			return true
		})
	})
}

// late is a context whose end is seen only at the second check, so every call with it passes the first one.
type late struct {
	context.Context
	asked atomic.Bool
}

func (l *late) Err() error {
	if !l.asked.Swap(true) {
		return nil
	}
	return l.Context.Err()
}

// Each call ends with one Granted or NotAcquired, each permit with one Released or Lost, whatever happens.
func TestUnderRandomLoadEveryCallAndEveryPermitHasItsEventsOnce(t *testing.T) {
	w, _ := privately(t)
	w.limit, w.ttl = 12, 6*time.Second // a stall must not end the wait for an answer
	const clients, workers = 2, 12
	var all, killer sync.WaitGroup
	stop := make(chan struct{})
	killer.Go(func() { // ends with stop
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				w.rdb.ClientKillByFilter(context.Background(), "type", "pubsub")
				w.rdb.ClientKillByFilter(context.Background(), "type", "normal", "skipme", "yes")
			}
		}
	})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var observed [clients]*fairsem.Client
	var diaries [clients]*diary
	for i := range clients {
		observed[i], diaries[i] = w.observed(w.connect())
	}
	for i, c := range observed {
		s, d := w.of(c, w.limit), diaries[i]
		b := &books{permits: make(map[string]error)}
		var users sync.WaitGroup
		for j := range workers {
			users.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(i*workers+j)))
				for n := 0; n < steps(150) || !b.haveAllEnds(); n++ {
					b.use(t, w, s, random)
				}
			})
		}
		all.Go(func() {
			users.Wait()
			w.finish(c, d)
			b.compare(t, d)
		})
	}
	all.Wait()
	close(stop)
	killer.Wait()
}

// books are the results that the users of a client saw, for a comparison with the events of its observer.
type books struct {
	mu      sync.Mutex
	permits map[string]error // by id: the result of Release
	errs    []error
}

// haveAllEnds reports whether calls were refused, and permits were released and lost. On a busy machine that takes longer.
func (b *books) haveAllEnds() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var released, lost bool
	for _, err := range b.permits {
		released, lost = released || err == nil, lost || errors.Is(err, fairsem.ErrLost)
	}
	return released && lost && len(b.errs) > 0
}

func (b *books) use(t *testing.T, w *world, s *fairsem.Semaphore, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.ExpFloat64()*float64(100*time.Millisecond)))
	defer cancel()
	get, weight := s.Acquire, 1+random.Int64N(4)
	switch random.IntN(20) {
	case 0, 1:
		get = s.TryAcquire
	case 2:
		get = s.With(fairsem.CallOptions{MaxQueue: 1 + random.Int64N(5)}).Acquire
	case 3:
		get = s.With(fairsem.CallOptions{NoRefresh: true}).Acquire
	case 4:
		weight = w.limit + 1
	}
	p, err := get(&late{Context: ctx}, weight)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.errs = append(b.errs, err)
		return
	}
	b.permits[p.ID()] = nil
	if random.IntN(500) == 0 {
		return // Close releases it
	}
	b.mu.Unlock()
	time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond) // the work
	if random.IntN(20) == 0 {
		w.rdb.ZAddXX(t.Context(), w.key("timeout"), redis.Z{Score: 1, Member: p.ID()}) // it expires
		if random.IntN(2) == 0 {
			<-p.Context().Done()
		}
	}
	err = p.Release(t.Context())
	b.mu.Lock()
	b.permits[p.ID()] = err
}

func (b *books) compare(t *testing.T, d *diary) {
	var errs []error
	stories := make(map[string][]string)
	down := false
	for _, ev := range d.events() {
		id := field[string](ev, "ID")
		said, queued := b.permits[id], slices.Contains(stories[id], "WaitStarted")
		switch ev := ev.(type) {
		case fairsem.GrantedEvent:
			assert.Contains(t, b.permits, id)
			assert.Equal(t, queued, ev.Queued)
			assert.Equal(t, queued, ev.By != fairsem.GrantedAtOnce)
			assert.GreaterOrEqual(t, ev.Waited, time.Duration(0))
		case fairsem.NotAcquiredEvent:
			errs = append(errs, ev.Err)
			assert.Equal(t, queued, ev.Queued)
		case fairsem.PositionLostEvent:
			assert.Equal(t, queued, ev.Queued)
		case fairsem.ReleasedEvent:
			assert.NotErrorIs(t, said, fairsem.ErrLost)
			assert.GreaterOrEqual(t, ev.Held, time.Duration(0))
		case fairsem.LostEvent:
			assert.True(t, said == nil || errors.Is(said, fairsem.ErrLost), said)
			assert.GreaterOrEqual(t, ev.Held, time.Duration(0))
		case fairsem.DisconnectedEvent:
			assert.False(t, down)
			down = true
		case fairsem.ReconnectedEvent:
			assert.True(t, down)
			down = false
		}
		if id != "" {
			stories[id] = append(stories[id], kind(ev))
		}
	}
	assert.ElementsMatch(t, b.errs, errs, "what calls returned")
	counts := make(map[string]int)
	for id, story := range stories {
		counts[strings.Join(story, " ")]++
		if _, granted := b.permits[id]; granted {
			assert.Contains(t, []string{"Granted Released", "Granted Lost"}, strings.TrimPrefix(strings.Join(story, " "), "WaitStarted "))
		}
	}
	t.Logf("%d permits, %d errors, %v", len(b.permits), len(b.errs), counts)
	for _, end := range []string{"NotAcquired", "Granted Released", "Granted Lost", "PositionLost"} {
		if n := counts[end] + counts["WaitStarted "+end]; end != "PositionLost" {
			assert.Positive(t, n, "the load makes nobody end with %s", end)
		}
		delete(counts, end)
		delete(counts, "WaitStarted "+end)
	}
	assert.Empty(t, counts)
	for id := range b.permits {
		assert.NotEmpty(t, stories[id], id)
	}
}
