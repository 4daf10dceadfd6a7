package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/history"
)

// Tests of Mutex and RWMutex. The methods inherited from Semaphore are tested there.

const allUnits = 1_000_000_000 // the weight of the writer of an RWMutex

// locker is a Mutex, or the writers' half of an RWMutex.
type locker interface {
	Lock(ctx context.Context) (*fairsem.Permit, error)
	TryLock(ctx context.Context) (*fairsem.Permit, error)
	Do(ctx context.Context, fn func(context.Context) error) error
	Name() string
}

func (w *world) mutex() *fairsem.Mutex {
	w.t.Helper()
	m, err := w.client().Mutex(w.name)
	require.NoError(w.t, err)
	return m
}

func (w *world) rwMutex() *fairsem.RWMutex {
	w.t.Helper()
	m, err := w.client().RWMutex(w.name)
	require.NoError(w.t, err)
	return m
}

// bothLocks runs a test on both kinds of locks. lock returns the lock of the world with a new client.
func bothLocks(t *testing.T, test func(t *testing.T, w *world, lock func(fairsem.CallOptions) locker)) {
	t.Helper()
	t.Parallel()
	for kind, lock := range map[string]func(*world, fairsem.CallOptions) locker{
		"Mutex":   func(w *world, o fairsem.CallOptions) locker { return w.mutex().With(o) },
		"RWMutex": func(w *world, o fairsem.CallOptions) locker { return w.rwMutex().With(o) },
	} {
		t.Run(kind, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				test(t, w, func(o fairsem.CallOptions) locker { return lock(w, o) })
			})
		})
	}
}

// lining calls get in the background, and returns when the call is in the queue.
func (w *world) lining(s *fairsem.Semaphore, get func(context.Context) (*fairsem.Permit, error)) *call {
	w.t.Helper()
	before := w.status(s).Waiting
	c := &call{done: make(chan struct{})}
	go func() { // ends with the grant; every test waits for it
		defer close(c.done)
		c.permit, c.err = get(w.t.Context())
	}()
	w.eventually(func() bool { return w.status(s).Waiting == before+1 }, "the call does not queue")
	return c
}

// refusedTo checks that a try is refused.
func (w *world) refusedTo(try func(context.Context) (*fairsem.Permit, error)) {
	w.t.Helper()
	p, err := try(w.t.Context())
	assert.ErrorIs(w.t, err, fairsem.ErrNotAcquired)
	assert.Nil(w.t, p)
}

func TestLockIsHeldByOneCallAndThenByTheNextInTheQueue(t *testing.T) {
	bothLocks(t, func(t *testing.T, w *world, lock func(fairsem.CallOptions) locker) {
		look, processes := w.semaphore(), []locker{lock(fairsem.CallOptions{}), lock(fairsem.CallOptions{})}
		holder := w.must(processes[0].Lock(t.Context()))
		var calls []*call
		for i := range 6 {
			calls = append(calls, w.lining(look, processes[i%2].Lock))
		}
		for i, c := range calls {
			for _, later := range calls[i:] {
				require.True(t, later.waits(), "it is granted beside the holder")
			}
			assert.Equal(t, int64(1), w.status(look).Holders)
			w.release(holder)
			holder = w.granted(c)
		}
		w.release(holder)
	})
}

func TestTryLockNeitherWaitsNorOvertakes(t *testing.T) {
	bothLocks(t, func(t *testing.T, w *world, lock func(fairsem.CallOptions) locker) {
		a, b := lock(fairsem.CallOptions{}), lock(fairsem.CallOptions{})
		holder := w.must(a.TryLock(t.Context()))
		w.refusedTo(b.TryLock)
		w.refusedTo(a.TryLock)
		next := w.lining(w.semaphore(), b.Lock)
		w.refusedTo(a.TryLock)
		w.release(holder)
		holder = w.granted(next)
		w.refusedTo(a.TryLock)
		w.release(holder)
		w.release(w.must(a.TryLock(t.Context())))
	})
}

func TestLockTokensIncreaseForWritersAndReaders(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		a, b := w.rwMutex(), w.rwMutex()
		var last int64
		for range 3 {
			for _, get := range []func(context.Context) (*fairsem.Permit, error){
				a.Lock, b.Lock, a.TryLock, b.RLock, a.RLock, b.TryRLock, b.TryLock,
			} {
				p := w.must(get(t.Context()))
				assert.Greater(t, p.Token(), last)
				last = p.Token()
				w.release(p)
			}
		}
		together := []*fairsem.Permit{w.must(a.RLock(t.Context())), w.must(b.RLock(t.Context()))}
		assert.Greater(t, together[0].Token(), last)
		assert.Greater(t, together[1].Token(), together[0].Token())
		w.release(together[0])
		w.release(together[1])
	})
}

func TestReadersShareTheLockAndAWriterExcludesAllOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		a, b := w.rwMutex(), w.rwMutex()
		var readers []*fairsem.Permit
		for _, get := range []func(context.Context) (*fairsem.Permit, error){a.RLock, b.RLock, a.TryRLock, b.TryRLock} {
			readers = append(readers, w.must(get(t.Context())))
		}
		for _, p := range readers {
			w.refusedTo(a.TryLock)
			w.refusedTo(b.TryLock)
			w.release(p)
		}
		writer := w.must(b.TryLock(t.Context()))
		for _, try := range []func(context.Context) (*fairsem.Permit, error){a.TryLock, a.TryRLock, b.TryLock, b.TryRLock} {
			w.refusedTo(try)
		}
		w.release(writer)
	})
}

func TestWaitingWriterBlocksReadersThatComeAfterIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		look, a, b := w.semaphore(), w.rwMutex(), w.rwMutex()
		early := w.must(a.RLock(t.Context()))
		writer := w.lining(look, b.Lock)
		late := w.lining(look, a.RLock)
		w.refusedTo(a.TryRLock) // a unit is free beside the first reader, but another call waits
		assert.Equal(t, int64(1), w.status(look).Used)
		w.release(early)
		p := w.granted(writer)
		assert.True(t, late.waits())
		w.release(p)
		w.release(w.granted(late))
	})
}

func TestReadersBehindAWriterAreGrantedTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour // no renewal during the test
		look, a, b := w.semaphore(), w.rwMutex(), w.rwMutex()
		holder := w.must(a.Lock(t.Context()))
		var readers []*call
		for range 3 {
			readers = append(readers, w.lining(look, a.RLock), w.lining(look, b.RLock))
		}
		writer, last := w.lining(look, b.Lock), w.lining(look, b.RLock)
		w.release(holder)
		var together []*fairsem.Permit
		for _, c := range readers {
			together = append(together, w.granted(c)) // none has released
		}
		for i, p := range together {
			assert.True(t, writer.waits(), "granted beside %d readers", len(together)-i)
			w.release(p)
		}
		p := w.granted(writer)
		assert.True(t, last.waits())
		w.release(p)
		w.release(w.granted(last))
	})
}

// If a waiting writer is cancelled, the readers behind it must be granted.
func TestReadersAreGrantedWhenTheWriterBeforeThemIsCancelled(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		look, a, b := w.semaphore(), w.rwMutex(), w.rwMutex()
		holder := w.must(a.RLock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		writer := w.lining(look, func(context.Context) (*fairsem.Permit, error) { return b.Lock(ctx) })
		readers := []*call{w.lining(look, a.RLock), w.lining(look, b.RLock)}
		cancel()
		for _, c := range readers {
			w.release(w.granted(c))
		}
		<-writer.done
		require.ErrorIs(t, writer.err, context.Canceled)
		w.release(holder)
	})
}

// Neither kind starves: a waiter is granted before all later calls, however many there are.
func TestStreamOfReadersStarvesNoWriterAndOfWritersNoReader(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		for _, c := range []struct{ stream, single string }{{"reader", "writer"}, {"writer", "reader"}} {
			record := new(record)
			enough := make(chan struct{}) // closed when the single call was granted
			var all sync.WaitGroup
			for range 2 {
				m := w.rwMutex()
				for range 3 {
					all.Go(func() { // ends with enough
						for open := true; open; {
							record.add(w.use(t.Context(), m, c.stream, 0))
							select {
							case <-enough:
								open = false
							default:
							}
						}
					})
				}
			}
			w.eventually(func() bool { return record.len() >= 20 }, "the stream makes no progress")
			m := w.rwMutex()
			for range 5 {
				record.add(w.use(t.Context(), m, c.single, 0))
			}
			close(enough)
			all.Wait()
			assert.Empty(t, history.Overtakes(record.grants), "a stream of %ss", c.stream)
			assert.Empty(t, history.OverLimit(record.grants, allUnits))
		}
	})
}

// use acquires a lock as a reader or a writer, holds it for a while, and returns the grant, which is empty if ctx ended before.
func (w *world) use(ctx context.Context, m *fairsem.RWMutex, kind string, hold time.Duration) history.Grant {
	get, weight := m.RLock, int64(1)
	if kind == "writer" {
		get, weight = m.Lock, allUnits
	}
	g := history.Grant{Weight: weight, AskedWall: time.Now().UnixMicro(), Asked: history.Now()}
	p, err := get(ctx)
	g.Granted = history.Now()
	if err != nil {
		assert.ErrorIs(w.t, err, context.DeadlineExceeded)
		return history.Grant{}
	}
	assert.Equal(w.t, weight, p.Weight())
	g.ID, g.Token, g.Position = p.ID(), p.Token(), fairsem.PositionOf(p)
	time.Sleep(hold) // the work
	g.Released = history.Now()
	g.Lost = p.Context().Err() != nil
	assert.NoError(w.t, givenBack(context.WithoutCancel(ctx), p))
	return g
}

// record collects the grants of many calls.
type record struct {
	mu     sync.Mutex
	grants []history.Grant
}

func (r *record) add(g history.Grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.ID != "" {
		r.grants = append(r.grants, g)
	}
}

func (r *record) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.grants)
}

// Random readers and writers, some of which are cancelled: no writer beside another holder, no overtaking.
func TestRandomReadersAndWritersKeepEveryPromise(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		record := new(record)
		var all sync.WaitGroup
		for process := range uint64(3) {
			m := w.rwMutex()
			for g := range uint64(4) {
				random := rand.New(rand.NewPCG(seed, 10*process+g))
				all.Go(func() { // ends with its last try
					for try := range steps(27) {
						time.Sleep(time.Duration(random.ExpFloat64() * float64(10*time.Millisecond))) // sometimes no call waits
						kind := []string{"writer", "reader", "reader", "reader", "reader"}[random.IntN(5)]
						patience := time.Duration(random.ExpFloat64() * float64(100*time.Millisecond))
						if try == 0 && g == 0 {
							kind, patience = "writer", time.Minute // on a slow machine, all others may give up
						}
						ctx, cancel := context.WithTimeout(t.Context(), patience)
						record.add(w.use(ctx, m, kind, time.Duration(random.IntN(3))*time.Millisecond))
						cancel()
					}
				})
			}
		}
		all.Wait()
		t.Logf("%d grants", len(record.grants))
		assert.GreaterOrEqual(t, history.MostAtOnce(record.grants), int64(allUnits), "no writer was granted")
		assert.Empty(t, history.OverLimit(record.grants, allUnits))
		assert.Empty(t, history.Overtakes(record.grants))
		assert.Empty(t, history.TokensDecrease(record.grants))
		assert.Empty(t, history.TokensRepeat(record.grants))
		for _, g := range record.grants {
			assert.False(t, g.Lost, g)
		}
		s := w.semaphore()
		w.eventually(func() bool { return w.status(s).Used == 0 }, "something leaked") // a grant as a context ends is released in the background
	})
}

func TestDoReleasesLocksAfterErrorsAndPanics(t *testing.T) {
	bothLocks(t, func(t *testing.T, w *world, lock func(fairsem.CallOptions) locker) {
		m := lock(fairsem.CallOptions{})
		givesBack(t, w, m.Do, m.TryLock, lock(fairsem.CallOptions{}).TryLock)
		if rw, ok := m.(*fairsem.RWMutex); ok {
			givesBack(t, w, rw.RDo, rw.TryLock, lock(fairsem.CallOptions{}).TryLock)
		}
	})
}

// givesBack checks that the tries fail while the function of do runs, and succeed afterwards.
func givesBack(
	t *testing.T, w *world, do func(context.Context, func(context.Context) error) error,
	tries ...func(context.Context) (*fairsem.Permit, error),
) {
	t.Helper()
	free := func() {
		for _, try := range tries {
			w.release(w.must(try(t.Context())))
		}
	}
	failure := errors.New("failure")
	var err error
	w.eventually(func() bool {
		err = do(t.Context(), func(ctx context.Context) error {
			for _, try := range tries {
				w.refusedTo(try)
			}
			assert.NoError(t, ctx.Err())
			return failure
		})
		return !errors.Is(err, fairsem.ErrUnavailable) // on a busy machine the answer to the release may take too long for do
	}, "no release is confirmed in time")
	assert.Equal(t, failure.Error(), err.Error(), "the error contains nothing else")
	require.ErrorIs(t, err, failure)
	free()
	assert.PanicsWithValue(t, "panic", func() {
		_ = do(t.Context(), func(context.Context) error { panic("panic") })
	})
	free()
	require.NoError(t, do(t.Context(), func(context.Context) error { return nil }))
	free()
}

// In RDo, readers run beside each other, but not beside a writer.
func TestFunctionsOfReadersRunTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		a, b := w.rwMutex(), w.rwMutex()
		err := a.RDo(t.Context(), func(ctx context.Context) error {
			return b.RDo(ctx, func(context.Context) error {
				w.refusedTo(b.TryLock)
				return nil
			})
		})
		require.NoError(t, unlessLate(err))
		require.NoError(t, unlessLate(a.Do(t.Context(), func(context.Context) error {
			w.refusedTo(b.TryRLock)
			return nil
		})))
	})
}

func TestLostLockEndsItsContextBeforeTheNextGrant(t *testing.T) {
	bothLocks(t, func(t *testing.T, w *world, lock func(fairsem.CallOptions) locker) {
		mute := lock(fairsem.CallOptions{TTL: 3 * time.Second, NoRefresh: true})
		losesTheLock(t, w, mute.Lock, mute.Do, lock(fairsem.CallOptions{}).Lock)
		if rw, ok := mute.(*fairsem.RWMutex); ok {
			losesTheLock(t, w, rw.RLock, rw.RDo, lock(fairsem.CallOptions{}).Lock)
		}
	})
}

// losesTheLock checks the report to a holder whose lease is not renewed.
func losesTheLock(
	t *testing.T, w *world, get func(context.Context) (*fairsem.Permit, error),
	do func(context.Context, func(context.Context) error) error,
	other func(context.Context) (*fairsem.Permit, error),
) {
	t.Helper()
	p := w.must(get(t.Context()))
	next := w.must(other(t.Context())) // p is not released
	assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
	require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
	require.NoError(t, next.Context().Err())
	w.release(next)

	err := do(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), fairsem.ErrLost)
		return nil
	})
	require.ErrorIs(t, err, fairsem.ErrLost)
	w.release(w.must(other(t.Context())))
}

// If the server has ended the lease, for example after a step of its clock, the next renewal notifies the holder.
func TestHolderOfALockIsNotifiedWhenRedisNoLongerHasIt(t *testing.T) {
	bothLocks(t, func(t *testing.T, w *world, lock func(fairsem.CallOptions) locker) {
		m := lock(fairsem.CallOptions{TTL: 3 * time.Second})
		p := w.must(m.Lock(t.Context()))
		expireLease(t, w, p.ID())
		next := w.must(lock(fairsem.CallOptions{}).TryLock(t.Context()))
		<-p.Context().Done()
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
		w.release(next)
	})
}

func TestLocksUseCallOptions(t *testing.T) {
	bothLocks(t, func(t *testing.T, w *world, lock func(fairsem.CallOptions) locker) {
		look, m, short := w.semaphore(), lock(fairsem.CallOptions{}), lock(fairsem.CallOptions{MaxQueue: 1})
		assert.Equal(t, w.name, m.Name())
		assert.Equal(t, w.name, short.Name())
		holder := w.must(m.Lock(t.Context()))
		ordinary := w.lining(look, short.Lock)
		_, err := short.Lock(t.Context())
		wrong(t, err, fairsem.ErrQueueFull, "lock ")
		urgent := w.lining(look, lock(fairsem.CallOptions{HeadStart: time.Hour}).Lock)
		w.release(holder)
		w.release(w.granted(urgent))
		w.release(w.granted(ordinary))
	})
}

func TestMutexIsTheSemaphoreOfItsNameWithALimitOfOne(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		p := w.must(w.mutex().Lock(t.Context()))
		st := w.status(w.of(w.client(), 7)) // another limit, which Status does not declare
		assert.Equal(t, [3]int64{1, 1, 1}, [3]int64{st.Limit, st.Used, st.Holders})
		_, err := w.semaphore().TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		w.release(p)
	})
}

func TestRWMutexIsASemaphoreOfWhichAWriterHoldsAllUnits(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		m := w.rwMutex()
		look := w.of(w.client(), 7)
		readers := []*fairsem.Permit{w.must(m.RLock(t.Context())), w.must(m.RLock(t.Context()))}
		waiter := w.lining(look, m.Lock)
		sees := func(used, holders, waiting int64) {
			t.Helper()
			st := w.status(look)
			assert.Equal(t, [5]int64{allUnits, allUnits, used, holders, waiting},
				[5]int64{st.Limit, st.Declared, st.Used, st.Holders, st.Waiting})
		}
		sees(2, 2, 1)
		for ticket, err := range look.Holders(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, int64(1), ticket.Weight)
		}
		for ticket, err := range look.Waiters(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, int64(allUnits), ticket.Weight)
		}
		w.release(readers[0])
		w.release(readers[1])
		writer := w.granted(waiter)
		sees(allUnits, 1, 0)
		w.release(writer)
		sees(0, 0, 0)
	})
}

// If the name is also used with a smaller limit, the writer gets an error and does not wait for ever.
func TestWriterUnderALowerLimitGetsAnError(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		m, s := w.rwMutex(), w.semaphore()
		w.release(w.must(m.Lock(t.Context())))
		w.release(w.must(s.Acquire(t.Context(), 1)))
		for _, get := range []func(context.Context) (*fairsem.Permit, error){m.Lock, m.TryLock} {
			_, err := get(t.Context())
			require.ErrorIs(t, err, fairsem.ErrExceedsLimit)
		}
		w.release(w.must(m.RLock(t.Context())))
	})
}

func TestLocksWithInvalidNamesAreRefused(t *testing.T) {
	t.Parallel()
	c := offlineClient(t)
	for _, test := range []struct{ name, part string }{
		{"", "empty"},
		{"}\n", `"}\n"`},
		{strings.Repeat("x", 513), "513"},
	} {
		m, err := c.Mutex(test.name)
		assert.Nil(t, m)
		invalid(t, err, test.part)
		rw, err := c.RWMutex(test.name)
		assert.Nil(t, rw)
		invalid(t, err, test.part)
	}
}

// lockOperations returns all calls of locks that take a context, by the kind of lock and their name in errors.
func lockOperations(m *fairsem.Mutex, rw *fairsem.RWMutex, fn func(context.Context) error) map[string]map[string]func(context.Context) error {
	permit := func(get func(context.Context) (*fairsem.Permit, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := get(ctx); return err }
	}
	function := func(do func(context.Context, func(context.Context) error) error) func(context.Context) error {
		return func(ctx context.Context) error { return do(ctx, fn) }
	}
	return map[string]map[string]func(context.Context) error{
		"Mutex": {"lock": permit(m.Lock), "try-lock": permit(m.TryLock), "do": function(m.Do)},
		"RWMutex": {
			"lock": permit(rw.Lock), "try-lock": permit(rw.TryLock), "do": function(rw.Do),
			"rlock": permit(rw.RLock), "try-rlock": permit(rw.TryRLock), "rdo": function(rw.RDo),
		},
	}
}

func TestErrorsOfLocksNameTheCallAndComeBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	c, closed := offlineClient(t), offlineClient(t)
	require.NoError(t, closed.Close())
	forbidden := func(context.Context) error { panic("it runs without a lock") }
	for _, test := range []struct {
		client *fairsem.Client
		ctx    context.Context
		opts   fairsem.CallOptions
		is     error
		part   string
	}{
		{c, none, fairsem.CallOptions{}, fairsem.ErrInvalid, "invalid argument: the context is nil"},
		{c, t.Context(), fairsem.CallOptions{MaxQueue: -1}, fairsem.ErrInvalid, "invalid argument: MaxQueue -1"},
		{c, done, fairsem.CallOptions{}, context.Canceled, "context canceled"},
		{closed, t.Context(), fairsem.CallOptions{}, fairsem.ErrClosed, "client closed"},
	} {
		m, err := test.client.Mutex("a\nname")
		require.NoError(t, err)
		rw, err := test.client.RWMutex("a\nname")
		require.NoError(t, err)
		for _, operations := range lockOperations(m.With(test.opts), rw.With(test.opts), forbidden) {
			for op, call := range operations {
				wrong(t, call(test.ctx), test.is, fmt.Sprintf(`fairsem: %s "a\nname": %s`, op, test.part))
			}
		}
	}
}

func TestLocksRefuseANilFunction(t *testing.T) {
	t.Parallel()
	c := offlineClient(t)
	m, err := c.Mutex("a\nname")
	require.NoError(t, err)
	rw, err := c.RWMutex("a\nname")
	require.NoError(t, err)
	invalid(t, m.Do(t.Context(), nil), `fairsem: do "a\nname": invalid argument: the function is nil`)
	invalid(t, rw.Do(t.Context(), nil), `fairsem: do "a\nname": invalid argument: the function is nil`)
	invalid(t, rw.RDo(t.Context(), nil), `fairsem: rdo "a\nname": invalid argument: the function is nil`)
}
