package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// beside returns a world with another name on the same server.
func (w *world) beside(suffix string) *world {
	other := *w
	other.name += suffix
	other.t.Cleanup(other.mustBeEmpty)
	return &other
}

// twoNames returns two names, of which the first comes first, with a process that uses both.
func twoNames(w *world) (c *fairsem.Client, a, b *world) {
	a, b = w.beside("-a"), w.beside("-b")
	return w.client(), a, b // the last to come is the first to go: Close waits for releases in the background
}

// allCall is an AcquireAll in a goroutine.
type allCall struct {
	done    chan struct{}
	permits *fairsem.Permits
	err     error
}

func acquireAll(ctx context.Context, requests ...fairsem.Request) *allCall {
	c := &allCall{done: make(chan struct{})}
	go func() { // ends with AcquireAll; every test waits for it
		defer close(c.done)
		c.permits, c.err = fairsem.AcquireAll(ctx, requests...)
	}()
	return c
}

// has waits until so many units are in use and so many calls wait.
func (w *world) has(s *fairsem.Semaphore, used, waiting int64) {
	w.t.Helper()
	w.eventually(func() bool { st := w.status(s); return st.Used == used && st.Waiting == waiting },
		fmt.Sprintf("%s: not %d units in use and %d waiters", s.Name(), used, waiting))
}

func TestAcquireAllReturnsOnePermitForEachRequest(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 5
		c, first, second := twoNames(w)
		a, b := first.of(c, 5), second.of(w.client(), 5)
		p, err := fairsem.AcquireAll(t.Context(), b.Request(3), a.Request(2))
		require.NoError(t, err)
		list := p.List()
		require.Len(t, list, 2)
		assert.Equal(t, []int64{3, 2}, []int64{list[0].Weight(), list[1].Weight()})
		first.has(a, 2, 0)
		second.has(b, 3, 0)
		assert.NoError(t, p.Context().Err())
		require.NoError(t, givenBack(t.Context(), p))
		require.NoError(t, p.Release(t.Context()), "again")
		assert.Equal(t, fairsem.ErrReleased, context.Cause(p.Context()))
		first.has(a, 0, 0)
		second.has(b, 0, 0)
	})
}

func TestAcquireAllAsksInTheOrderOfTheNamesWhateverThatOfTheRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, first, second := twoNames(w)
		a, b := first.of(c, 1), second.of(c, 1)
		for _, requests := range [][]fairsem.Request{{a.Request(1), b.Request(1)}, {b.Request(1), a.Request(1)}} {
			holder := w.must(a.Acquire(t.Context(), 1))
			call := acquireAll(t.Context(), requests...)
			first.has(a, 1, 1)
			second.has(b, 0, 0)
			w.release(holder)
			<-call.done
			require.NoError(t, call.err)
			require.NoError(t, givenBack(t.Context(), call.permits))
		}
	})
}

// A name is not all that clients agree on: keys begin with the prefix.
func TestAcquireAllAsksForOneNameInTheOrderOfThePrefixes(t *testing.T) {
	w := onRedis(t)
	rdb := w.connect()
	one := w.of(w.clientOn(rdb, fairsem.Options{Prefix: "a-" + w.name}), 1)
	other := w.of(w.clientOn(rdb, fairsem.Options{Prefix: "b-" + w.name}), 1)
	holder := w.must(one.Acquire(t.Context(), 1))
	call := acquireAll(t.Context(), other.Request(1), one.Request(1))
	w.has(one, 1, 1)
	w.has(other, 0, 0)
	w.release(holder)
	<-call.done
	require.NoError(t, call.err)
	require.NoError(t, givenBack(t.Context(), call.permits))
}

func TestRequestThatFailsReleasesAllOthersAndIsNamedInTheError(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, first, second := twoNames(w)
		a, b := first.of(c, 1), second.of(c, 1)
		holder := w.must(b.Acquire(t.Context(), 1))
		waiter := second.queue(t.Context(), b, 1)
		for _, test := range []struct {
			request fairsem.Request
			is      error
		}{
			{b.Request(2), fairsem.ErrExceedsLimit},
			{b.With(fairsem.CallOptions{MaxQueue: 1}).Request(1), fairsem.ErrQueueFull},
			{b.With(fairsem.CallOptions{MaxWait: 100 * time.Millisecond}).Request(1), fairsem.ErrNotAcquired},
		} {
			p, err := fairsem.AcquireAll(t.Context(), test.request, a.Request(1))
			assert.Nil(t, p)
			require.ErrorIs(t, err, test.is)
			require.ErrorContains(t, err, fmt.Sprintf("acquire-all %q", second.name))
			first.has(a, 0, 0)
			second.has(b, 1, 1)
		}
		w.release(holder)
		w.release(w.granted(waiter))
	})
}

func TestContextThatEndsWhileAcquireAllWaitsReleasesAllOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, first, second := twoNames(w)
		a, b := first.of(c, 1), second.of(c, 1)
		holder := w.must(b.Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		call := acquireAll(ctx, a.Request(1), b.Request(1))
		second.has(b, 1, 1)
		first.has(a, 1, 0)
		cancel()
		<-call.done
		require.ErrorIs(t, call.err, context.Canceled)
		require.ErrorContains(t, call.err, fmt.Sprintf("acquire-all %q", second.name))
		require.NotErrorIs(t, call.err, fairsem.ErrLost)
		first.has(a, 0, 0)
		second.has(b, 1, 0)
		w.release(holder)
	})
}

func TestLossOfAPermitEndsTheWaitForTheNext(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, first, second := twoNames(w)
		a, b := first.of(c, 1), second.of(c, 1)
		holder := w.must(b.Acquire(t.Context(), 1))
		for _, test := range []struct {
			opts fairsem.CallOptions
			lose func()
			is   error
		}{
			{fairsem.CallOptions{}, func() {
				for p, err := range a.Holders(t.Context()) {
					require.NoError(t, err)
					require.NoError(t, a.Evict(t.Context(), p.ID))
				}
			}, fairsem.ErrEvicted},
			{fairsem.CallOptions{TTL: 4 * time.Second, NoRefresh: true}, func() {}, fairsem.ErrLost},
		} {
			call := acquireAll(t.Context(), a.With(test.opts).Request(1), b.Request(1))
			second.has(b, 1, 1)
			test.lose()
			<-call.done
			require.ErrorIs(t, call.err, test.is)
			require.ErrorIs(t, call.err, fairsem.ErrLost)
			require.NotErrorIs(t, call.err, context.Canceled, "the context of the caller goes on")
			require.ErrorContains(t, call.err, fmt.Sprintf("acquire-all %q: hold %q: permit lost", second.name, first.name))
			second.has(b, 1, 0)
		}
		w.release(holder)
	})
}

func TestCloseOfAClientEndsAcquireAllThatHoldsItsPermits(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, first, second := twoNames(w)
		a, b := first.of(c, 1), second.of(w.client(), 1)
		holder := w.must(b.Acquire(t.Context(), 1))
		call := acquireAll(t.Context(), a.Request(1), b.Request(1))
		second.has(b, 1, 1)
		require.NoError(t, c.Close())
		<-call.done
		wrong(t, call.err, fairsem.ErrClosed, "acquire-all")
		second.has(b, 1, 0)
		w.release(holder)
		_, err := fairsem.AcquireAll(t.Context(), b.Request(1), a.Request(1))
		require.ErrorIs(t, err, fairsem.ErrClosed)
	})
}

func TestContextOfPermitsEndsWithTheFirstOfThemAndNamesIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, first, second := twoNames(w)
		a, b := first.of(c, 1), second.of(c, 1)
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		p, err := fairsem.AcquireAll(ctx, a.Request(1), b.Request(1))
		require.NoError(t, err)
		cancel()
		require.NoError(t, p.Context().Err(), "it ends with the context of the call")
		assert.Equal(t, "value", p.Context().Value(key{}))
		require.NoError(t, b.Evict(t.Context(), p.List()[1].ID()))
		w.await(p.Context().Done(), "the context goes on")
		cause := context.Cause(p.Context())
		require.ErrorIs(t, cause, fairsem.ErrEvicted)
		require.ErrorIs(t, cause, fairsem.ErrLost)
		require.ErrorContains(t, cause, fmt.Sprintf("%q", second.name))
		first.has(a, 1, 0)

		err = givenBack(t.Context(), p)
		wrong(t, err, fairsem.ErrLost, fmt.Sprintf("release %q", second.name))
		first.has(a, 0, 0)
		assert.Equal(t, cause, context.Cause(p.Context()), "the first cause stands")
	})
}

func TestReleaseOfOnePermitEndsTheContextOfAll(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, first, second := twoNames(w)
		a, b := first.of(c, 1), second.of(c, 1)
		p, err := fairsem.AcquireAll(t.Context(), a.Request(1), b.Request(1))
		require.NoError(t, err)
		w.release(p.List()[0])
		require.ErrorIs(t, p.Context().Err(), context.Canceled)
		wrong(t, context.Cause(p.Context()), fairsem.ErrReleased, fmt.Sprintf("%q", first.name))
		first.has(a, 0, 0)
		second.has(b, 1, 0)
		require.NoError(t, givenBack(t.Context(), p))
		second.has(b, 0, 0)
	})
}

func TestLocksAreAcquiredTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		c, first, second := twoNames(w)
		m, err := c.Mutex(first.name)
		require.NoError(t, err)
		rw, err := c.RWMutex(second.name)
		require.NoError(t, err)
		reader := w.must(rw.RLock(t.Context()))
		p, err := fairsem.AcquireAll(t.Context(), rw.RRequest(), m.Request())
		require.NoError(t, err, "readers do not exclude each other")
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		require.NoError(t, givenBack(t.Context(), p))
		w.release(reader)

		p, err = fairsem.AcquireAll(t.Context(), rw.Request(), m.Request())
		require.NoError(t, err)
		_, err = rw.TryRLock(t.Context())
		require.ErrorIs(t, err, fairsem.ErrNotAcquired, "a writer excludes readers")
		require.NoError(t, givenBack(t.Context(), p))
	})
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	t.Parallel()
	c, other := offlineClient(t), offlineClient(t)
	of := func(c *fairsem.Client, name string) *fairsem.Semaphore {
		s, err := c.Semaphore(name, 5)
		require.NoError(t, err)
		return s
	}
	a, b := of(c, "a"), of(c, "b\n")
	m, err := c.Mutex("a")
	require.NoError(t, err)
	var nobody *fairsem.Semaphore
	for _, test := range []struct {
		requests []fairsem.Request
		part     string
	}{
		{nil, `acquire-all: invalid argument: there is no request`},
		{[]fairsem.Request{a.Request(1), {}}, "zero value"},
		{[]fairsem.Request{a.Request(1), nobody.Request(1)}, "zero value"},
		{[]fairsem.Request{a.Request(1), new(fairsem.Mutex).Request()}, "zero value"},
		{[]fairsem.Request{a.Request(1), new(fairsem.RWMutex).Request()}, "zero value"},
		{[]fairsem.Request{a.Request(1), new(fairsem.RWMutex).RRequest()}, "zero value"},
		{[]fairsem.Request{a.Request(1), b.Request(0)}, `acquire-all "b\n": invalid argument: weight 0`},
		{[]fairsem.Request{b.Request(1), a.With(fairsem.CallOptions{MaxWait: -1}).Request(1)}, `acquire-all "a": invalid argument: MaxWait`},
		{[]fairsem.Request{b.Request(1), a.Request(1), b.Request(2)}, `acquire-all "b\n": invalid argument: two requests have this name and the prefix "fairsem"`},
		{[]fairsem.Request{a.Request(1), a.With(fairsem.CallOptions{HeadStart: time.Second}).Request(1)}, "two requests"},
		{[]fairsem.Request{a.Request(1), m.Request()}, "two requests"},
		{[]fairsem.Request{a.Request(1), of(other, "a").Request(1)}, "two requests"},
	} {
		p, err := fairsem.AcquireAll(t.Context(), test.requests...)
		assert.Nil(t, p)
		invalid(t, err, test.part)
	}
	_, err = fairsem.AcquireAll(none, a.Request(1))
	invalid(t, err, `acquire-all "a": invalid argument: the context is nil`)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = fairsem.AcquireAll(done, a.Request(1), b.Request(1))
	wrong(t, err, context.Canceled, `acquire-all "a"`)
}

// rooms are some names on one server.
type rooms struct {
	limits []int64
	of     []*fairsem.Semaphore // of one process
}

func newRooms(c *fairsem.Client, name string) (r rooms, err error) {
	r.limits = []int64{1, 2, 3, 2, 5}
	for i, limit := range r.limits {
		s, err := c.Semaphore(fmt.Sprint(name, "-", i), limit)
		if err != nil {
			return r, err
		}
		r.of = append(r.of, s)
	}
	return r, nil
}

// use acquires units of some of the names, in any order, holds them for a moment, and releases them.
func (r rooms) use(ctx context.Context, random *rand.Rand) error {
	var requests []fairsem.Request
	for _, i := range random.Perm(len(r.of))[:1+random.IntN(len(r.of))] {
		requests = append(requests, r.of[i].Request(1+random.Int64N(r.limits[i])))
	}
	p, err := fairsem.AcquireAll(ctx, requests...)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond) // the work
	return givenBack(ctx, p)
}

// crowd has callers use the names until each has done so some times.
func (r rooms) crowd(ctx context.Context, callers, requests int, seed uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	hang := time.AfterFunc(time.Minute, func() { cancel(errors.New("no caller got on for a minute")) })
	defer hang.Stop()
	defer cancel(nil)
	failed := make(chan error, callers)
	var all sync.WaitGroup
	for g := range callers {
		all.Go(func() { // ends with ctx
			random := rand.New(rand.NewPCG(seed, uint64(g)))
			for range requests {
				if err := r.use(ctx, random); err != nil {
					failed <- fmt.Errorf("caller %d: %w", g, err)
					return
				}
				hang.Reset(time.Minute)
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

func TestCallersOfRandomRequestsInAnyOrderAllFinish(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Minute // which only a hang misses
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		var all sync.WaitGroup
		for i := range uint64(3) {
			r, err := newRooms(w.client(), w.name)
			require.NoError(t, err)
			if i == 0 {
				for _, s := range r.of {
					t.Cleanup((&world{t: t, rdb: w.rdb, name: s.Name(), limited: w.limited}).mustBeEmpty)
				}
			}
			all.Go(func() { assert.NoError(t, r.crowd(t.Context(), 8, steps(12), seed+i)) })
		}
		all.Wait()
	})
}

func TestProcessesWithRandomRequestsInAnyOrderAllFinish(t *testing.T) {
	w := onRedis(t)
	w.ttl = time.Minute // which only a hang misses
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r, err := newRooms(w.client(), w.name)
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range uint64(2) {
		worker := worldtest.Start(t, order{Addr: redistest.SharedServer(t).Addr(), Name: w.name, Limit: 1, TTL: w.ttl, Rooms: 12, Seed: seed + i})
		all.Go(func() { assert.NoError(t, worker.Wait(), "a call has not returned") })
	}
	all.Wait()
	for _, s := range r.of {
		other := &world{t: t, rdb: w.rdb, name: s.Name(), limited: w.limited}
		assert.Zero(t, other.status(s).Waiting)
		other.mustBeEmpty()
	}
}
