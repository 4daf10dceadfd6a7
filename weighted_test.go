package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/fairsem/fairsem"
)

// weighted is the interface of code that can use either semaphore.
type weighted interface {
	Acquire(ctx context.Context, n int64) error
	TryAcquire(n int64) bool
	Release(n int64)
}

var (
	_ weighted = (*semaphore.Weighted)(nil)
	_ weighted = (*fairsem.Weighted)(nil)
)

func (w *world) weightedOn(c *fairsem.Client, n int64) *fairsem.Weighted {
	w.t.Helper()
	sem, err := c.Weighted(w.name, n)
	require.NoError(w.t, err)
	return sem
}

// weighted returns the semaphore of the world as a Weighted, with a new client.
func (w *world) weighted() *fairsem.Weighted { return w.weightedOn(w.client(), w.limit) }

// asInXSync runs a test on x/sync's semaphore and on Weighted: Weighted must behave in the same way.
func asInXSync(t *testing.T, size int64, test func(t *testing.T, sem weighted)) {
	t.Helper()
	t.Parallel()
	t.Run("x-sync", func(t *testing.T) {
		t.Parallel()
		test(t, semaphore.NewWeighted(size))
	})
	t.Run("fairsem", func(t *testing.T) {
		everywhere(t, func(t *testing.T, w *world) {
			w.limit, w.ttl = size, time.Hour // no renewal grants, and no lease ends, within a test
			test(t, w.weighted())
		})
	})
}

// soon is the timeout of calls that must fail.
const soon = 10 * time.Millisecond

func acquires(t *testing.T, sem weighted, n int64, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err := sem.Acquire(ctx, n)
	assert.True(t, err == nil || err == context.DeadlineExceeded, "%v", err) //nolint:errorlint // callers of x/sync compare
	return err == nil
}

func TestWeightedPanicsWhenMoreIsReleasedThanIsHeld(t *testing.T) {
	asInXSync(t, 3, func(t *testing.T, sem weighted) {
		require.True(t, sem.TryAcquire(2))
		sem.Release(1)
		assert.Panics(t, func() { sem.Release(2) })
		if ours, ok := sem.(*fairsem.Weighted); ok { // the count of x/sync is wrong after that
			assert.PanicsWithValue(t, "fairsem: released more than held", func() { ours.Release(math.MaxInt64) })
			ours.Release(1)
			assert.Panics(t, func() { ours.Release(1) })
		}
	})
}

func TestWeightedPanicsOnReleaseWithoutAcquire(t *testing.T) {
	asInXSync(t, 3, func(t *testing.T, sem weighted) { assert.Panics(t, func() { sem.Release(1) }) })
}

func TestWeightedPanicsOnNegativeWeights(t *testing.T) {
	asInXSync(t, 3, func(t *testing.T, sem weighted) {
		for _, n := range []int64{-1, math.MinInt64} {
			assert.Panics(t, func() { _ = sem.Acquire(t.Context(), n) })
			assert.Panics(t, func() { sem.TryAcquire(n) })
			assert.Panics(t, func() { sem.Release(n) })
		}
	})
}

func TestWeightedGrantsZeroUnitsAtOnce(t *testing.T) {
	asInXSync(t, 2, func(t *testing.T, sem weighted) {
		require.True(t, sem.TryAcquire(2))
		assert.True(t, sem.TryAcquire(0))
		assert.NoError(t, sem.Acquire(t.Context(), 0))
		sem.Release(0)
		assert.False(t, sem.TryAcquire(1))
		sem.Release(2)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Equal(t, context.Canceled, sem.Acquire(done, 0))
	})
}

func TestWeightedOfSizeZeroGrantsOnlyZeroUnits(t *testing.T) {
	asInXSync(t, 0, func(t *testing.T, sem weighted) {
		assert.True(t, sem.TryAcquire(0))
		assert.NoError(t, sem.Acquire(t.Context(), 0))
		assert.False(t, sem.TryAcquire(1))
		assert.False(t, acquires(t, sem, 1, soon))
		assert.Panics(t, func() { sem.Release(1) })
	})
}

func TestWeightedOfSizeZeroGrantsToWaitersWhenTheLimitIsRaised(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		sem, s := w.weightedOn(w.client(), 0), w.semaphore()
		got := make(chan error, 1)
		go func() { got <- sem.Acquire(t.Context(), 2) }() // ends with the grant
		w.eventually(func() bool { return w.status(s).Waiting == 1 }, "the call does not queue")
		assert.Zero(t, w.status(s).Limit)
		require.NoError(t, s.SetLimit(t.Context(), 2))
		require.NoError(t, <-got)
		require.NoError(t, s.ResetLimit(t.Context()))
		assert.False(t, sem.TryAcquire(1), "the declared limit holds again")
		sem.Release(2)
	})
}

func TestWeightedTryAcquireGrantsOnlyFreeUnits(t *testing.T) {
	asInXSync(t, 2, func(t *testing.T, sem weighted) {
		require.NoError(t, sem.Acquire(t.Context(), 1))
		assert.True(t, sem.TryAcquire(1))
		assert.False(t, sem.TryAcquire(1))
		sem.Release(2)
		assert.True(t, sem.TryAcquire(1))
		require.NoError(t, sem.Acquire(t.Context(), 1))
		assert.False(t, sem.TryAcquire(1))
		sem.Release(2)
	})
}

func TestWeightedAcquireGrantsOnlyFreeUnits(t *testing.T) {
	asInXSync(t, 2, func(t *testing.T, sem weighted) {
		require.NoError(t, sem.Acquire(t.Context(), 1))
		assert.True(t, acquires(t, sem, 1, time.Minute))
		assert.False(t, acquires(t, sem, 1, soon))
		sem.Release(2)
		assert.True(t, acquires(t, sem, 1, time.Minute))
		require.NoError(t, sem.Acquire(t.Context(), 1))
		assert.False(t, acquires(t, sem, 1, soon))
		sem.Release(2)
	})
}

// Units may be released in other portions than they were acquired. After each release exactly those units are free.
func TestWeightedUnitsCanBeReleasedInAnyPortions(t *testing.T) {
	asInXSync(t, 9, func(t *testing.T, sem weighted) {
		for _, split := range [][2][]int64{
			{{5}, {2, 3}},
			{{2, 3}, {5}},
			{{9}, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
			{{1, 1, 1}, {3}},
			{{1, 1, 1}, {1, 2}},
			{{4, 3, 2}, {1, 5, 3}},
			{{1, 5, 3}, {4, 3, 2}},
			{{5, 1}, {3, 3}},
			{{2, 2, 2}, {5, 1}},
			{{8, 1}, {1, 7, 1}},
		} {
			free := int64(9)
			isFree := func() {
				assert.False(t, sem.TryAcquire(free+1), "%v: more than %d are free", split, free)
				// Of two batches in flight the one with the release may come second.
				require.Eventually(t, func() bool { return sem.TryAcquire(free) }, time.Minute, time.Millisecond, "%v: fewer than %d are free", split, free)
				sem.Release(free)
			}
			for _, n := range split[0] {
				require.NoError(t, sem.Acquire(t.Context(), n))
				free -= n
				isFree()
			}
			for _, n := range split[1] {
				sem.Release(n)
				free += n
				isFree()
			}
		}
	})
}

func TestWeightedCallAboveTheSizeWaitsForItsContextAndBlocksNoCall(t *testing.T) {
	asInXSync(t, 2, func(t *testing.T, sem weighted) {
		for _, n := range []int64{3, maxUnits + 1, math.MaxInt64} {
			assert.False(t, sem.TryAcquire(n))
			ctx, cancel := context.WithCancel(t.Context())
			tooLarge := make(chan error)
			go func() { tooLarge <- sem.Acquire(ctx, n) }() // ends with ctx
			var others sync.WaitGroup
			for range 6 {
				others.Go(func() {
					if assert.NoError(t, sem.Acquire(t.Context(), 1)) {
						sem.Release(1)
					}
				})
			}
			others.Wait()
			select {
			case err := <-tooLarge:
				t.Fatal(err)
			default:
			}
			cancel()
			assert.Equal(t, context.Canceled, <-tooLarge)
		}
	})
}

func TestWeightedLargeAcquireIsNotStarved(t *testing.T) {
	const size = 4
	asInXSync(t, size, func(t *testing.T, sem weighted) {
		var served atomic.Bool
		var small sync.WaitGroup
		for range size {
			require.NoError(t, sem.Acquire(t.Context(), 1))
			small.Go(func() {
				for !served.Load() {
					sem.Release(1)
					assert.NoError(t, sem.Acquire(context.WithoutCancel(t.Context()), 1))
				}
				sem.Release(1)
			})
		}
		assert.NoError(t, sem.Acquire(t.Context(), size))
		served.Store(true)
		sem.Release(size)
		small.Wait()
	})
}

// untilOneWaits waits until another call waits, so that not even one unit can be acquired.
func untilOneWaits(sem weighted) {
	for sem.TryAcquire(1) {
		sem.Release(1)
	}
}

// golang/go#37852
func TestWeightedCancelOfALargeHeadWakesTheSmallBehindIt(t *testing.T) {
	asInXSync(t, 10, func(t *testing.T, sem weighted) {
		require.NoError(t, sem.Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		large := make(chan error)
		go func() { large <- sem.Acquire(ctx, 10) }() // ends with ctx
		untilOneWaits(sem)
		go cancel()
		require.NoError(t, sem.Acquire(t.Context(), 1))
		assert.Equal(t, context.Canceled, <-large)
		sem.Release(2)
	})
}

// golang/go#63615
func TestWeightedDoneContextWinsOverFreeUnits(t *testing.T) {
	asInXSync(t, 2, func(t *testing.T, sem weighted) {
		require.NoError(t, sem.Acquire(t.Context(), 1))
		ctx, cancel := context.WithCancel(t.Context())
		canceled := make(chan struct{})
		go func() { // ends when the other call waits
			defer close(canceled)
			untilOneWaits(sem)
			cancel()
			sem.Release(1)
		}()
		assert.Equal(t, context.Canceled, sem.Acquire(ctx, 2))
		<-canceled
		assert.True(t, acquires(t, sem, 2, time.Minute), "the cancelled call still holds something")
		sem.Release(2)
		assert.Equal(t, context.Canceled, sem.Acquire(ctx, 1))
	})
}

// hammer makes goroutines use semaphores that share a limit at random, and release other portions than they acquired.
func hammer(t *testing.T, limit int64, sems ...weighted) {
	t.Helper()
	var inUse, most atomic.Int64
	seed := rand.Uint64()
	var all sync.WaitGroup
	for i, sem := range sems {
		for g := range 6 {
			random := rand.New(rand.NewPCG(seed, uint64(10*i+g)))
			all.Go(func() {
				var mine int64
				for call := range steps(27) {
					if n := random.Int64N(limit + 1); mine+n <= limit && takes(t, sem, n, random, call == 0) {
						mine += n
						now := inUse.Add(n)
						assert.LessOrEqual(t, now, limit, "seed %d", seed)
						for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
						}
					}
					back := random.Int64N(mine + 1)
					inUse.Add(-back)
					sem.Release(back)
					mine -= back
				}
				inUse.Add(-mine)
				sem.Release(mine)
			})
		}
	}
	all.Wait()
	assert.Positive(t, most.Load())
	assert.True(t, acquires(t, sems[0], limit, time.Minute), "something leaked")
	sems[0].Release(limit)
}

// takes has a short timeout: a goroutine that holds units and waits for more may wait for another one that does the same. The first
// call of a goroutine, which holds nothing, waits: all short timeouts may be over before a busy machine has an answer.
func takes(t *testing.T, sem weighted, n int64, random *rand.Rand, first bool) bool {
	switch {
	case first:
		return acquires(t, sem, n, time.Minute)
	case random.IntN(4) == 0:
		return sem.TryAcquire(n)
	}
	return acquires(t, sem, n, time.Duration(random.ExpFloat64()*float64(soon)))
}

func TestWeightedNeverHasMoreInUseThanTheLimit(t *testing.T) {
	asInXSync(t, 7, func(t *testing.T, sem weighted) { hammer(t, 7, sem) })
}

func TestWeightedInTwoProcessesNeverHasMoreInUseThanTheLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 7, time.Hour
		hammer(t, w.limit, w.weighted(), w.weighted())
	})
}

// Two handles of a name in one process each count their own units.
func TestWeightedHandlesOfOneClientShareTheLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 7
		c := w.client()
		a, b := w.weightedOn(c, w.limit), w.weightedOn(c, w.limit)
		hammer(t, w.limit, a, b)
		require.True(t, a.TryAcquire(1))
		assert.Panics(t, func() { b.Release(1) })
		a.Release(1)
	})
}

// S4: a call whose reply was lost is sent again, and counts once.
func TestWeightedLosesNoUnitToLostReplies(t *testing.T) {
	t.Parallel()
	for every := int64(2); every <= 4; every++ {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			w := onRedis(t)
			w.limit = 7
			rdb := w.connect()
			loss := &lostReplies{every: every}
			rdb.AddHook(loss)
			hammer(t, w.limit, w.weightedOn(w.clientOn(rdb, fairsem.Options{}), w.limit), w.weighted())
			assert.Positive(t, loss.lost.Load())
			assert.Zero(t, w.status(w.semaphore()).Used)
		})
	}
}

func TestReleasedPartOfAPermitIsFreeWhenReleaseReturns(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 5
		a, b, s := w.weighted(), w.weighted(), w.semaphore()
		require.True(t, a.TryAcquire(5))
		for _, n := range []int64{1, 2, 1} { // and keeps one
			require.False(t, b.TryAcquire(n))
			a.Release(n)
			require.True(t, b.TryAcquire(n))
		}
		var weights []int64
		for ticket, err := range s.Holders(t.Context()) {
			require.NoError(t, err)
			weights = append(weights, ticket.Weight)
		}
		assert.ElementsMatch(t, []int64{1, 1, 2, 1}, weights)
		a.Release(1)
		b.Release(4)
		assert.Zero(t, w.status(s).Used)
	})
}

// With a TTL of an hour the next refresh is 20 minutes away.
func TestReleasedPartOfAPermitWakesTheNextWaiterByAMessage(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 5, time.Hour
		a, s := w.weighted(), w.semaphore()
		require.NoError(t, a.Acquire(t.Context(), 5))
		first, second := w.queue(t.Context(), s, 2), w.queue(t.Context(), s, 2)
		a.Release(2)
		p := w.granted(first)
		assert.True(t, second.waits())
		a.Release(2)
		w.release(w.granted(second))
		w.release(p)
		a.Release(1)
	})
}

// loseOnServer expires the permit with that many units on the server, and returns when it has been removed.
func (w *world) loseOnServer(s *fairsem.Semaphore, units int64) {
	w.t.Helper()
	for ticket, err := range s.Holders(w.t.Context()) {
		require.NoError(w.t, err)
		if ticket.Weight == units {
			expireLease(w.t, w, ticket.ID)
		}
	}
	_ = s.Evict(w.t.Context(), "nobody:1") // it removes expired entries
}

// losses are the losses that a handle has reported.
type losses struct {
	mu    sync.Mutex
	units []int64
	err   error
}

func (l *losses) watch(sem *fairsem.Weighted) {
	sem.OnLost(func(n int64, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.units, l.err = append(l.units, n), err
	})
}

func (l *losses) reported() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.units))
}

func TestWeightedReportsLostUnitsAndReleasesThemFirst(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 6, 3*time.Second
		sem, s := w.weighted(), w.semaphore()
		var heard losses
		heard.watch(sem)
		require.True(t, sem.TryAcquire(4))
		require.True(t, sem.TryAcquire(2))
		require.NoError(t, sem.Err())
		sem.Release(1) // of the two
		w.loseOnServer(s, 4)
		w.eventually(func() bool { return sem.Err() != nil }, "the loss is not reported")
		w.eventually(func() bool { return slices.Equal(heard.reported(), []int64{4}) }, "the function is not called")
		wrong(t, sem.Err(), fairsem.ErrLost, fmt.Sprintf("%q: permit lost: it is not in Redis any more: it expired, or was removed (4 of 5 units)", w.name))
		wrong(t, heard.err, fairsem.ErrLost, "(4 units)")

		sem.Release(1)
		require.ErrorIs(t, sem.Err(), fairsem.ErrLost)
		assert.Equal(t, int64(1), w.status(s).Used, "lost units are released before held ones")
		sem.Release(3)
		require.NoError(t, sem.Err())
		assert.Equal(t, int64(1), w.status(s).Used)
		assert.Panics(t, func() { sem.Release(2) })
		sem.Release(1)
		assert.Zero(t, w.status(s).Used)
		assert.Equal(t, []int64{4}, heard.reported(), "once")
	})
}

// If a loss was not noticed before the units are released, the caller must still be notified.
func TestReleaseThatFindsItsUnitsLostReportsIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 6, time.Hour
		sem, s := w.weighted(), w.semaphore()
		var heard losses
		heard.watch(sem)
		require.True(t, sem.TryAcquire(4))
		require.True(t, sem.TryAcquire(1))
		w.loseOnServer(s, 4)
		sem.Release(4)
		w.eventually(func() bool { return slices.Equal(heard.reported(), []int64{4}) }, "the loss is not reported")
		assert.NoError(t, sem.Err(), "they are released")
		sem.OnLost(nil)
		w.loseOnServer(s, 1)
		sem.Release(1)
		assert.Equal(t, []int64{4}, heard.reported())
	})
}

func TestReleaseOfAPartThatFindsTheRestLostReportsIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 6, time.Hour
		sem, s := w.weighted(), w.semaphore()
		var heard losses
		heard.watch(sem)
		require.True(t, sem.TryAcquire(4))
		w.loseOnServer(s, 4)
		sem.Release(1)
		w.eventually(func() bool { return len(heard.reported()) == 1 }, "the loss of the rest is not reported")
		assert.Subset(t, []int64{3, 4}, heard.reported(), "a new subscription queries at once, and may find it first")
		require.ErrorIs(t, sem.Err(), fairsem.ErrLost)
		sem.Release(3)
		assert.NoError(t, sem.Err())
	})
}

// Some calls of x/sync have no context, so they must end by themselves, on the safe side.
func TestWeightedCallsWithoutAContextEndWhenRedisIsSilent(t *testing.T) {
	w := onRedis(t)
	w.limit, w.ttl = 5, 4*time.Second
	cutOff, proxy := w.network()
	sem, s := w.weightedOn(cutOff, w.limit), w.semaphore()
	var heard losses
	heard.watch(sem)
	for range 2 {
		require.NoError(t, sem.Acquire(t.Context(), 4))
		proxy.Hold()
		began := time.Now()
		assert.False(t, sem.TryAcquire(1)) // it ends
		assert.Greater(t, time.Since(began), w.ttl*8/10, "Redis may have answered")

		require.ErrorIs(t, sem.Err(), fairsem.ErrLost)
		sem.Release(1) // a lost one, without an answer
		proxy.Resume()
		sem.Release(3)
		require.NoError(t, sem.Err())
		w.eventually(func() bool { return w.status(s).Used+w.status(s).Waiting == 0 }, "something leaked")
	}
	w.eventually(func() bool { return slices.Equal(heard.reported(), []int64{4, 4}) }, "not all losses are reported")

	require.NoError(t, sem.Acquire(t.Context(), 4))
	proxy.Hold()
	sem.Release(1)
	sem.Release(3)
	proxy.Resume()
	w.eventually(func() bool { return w.status(s).Used == 0 }, "units whose release was not answered stay in use")
}

func TestWeightedAcquireReturnsErrorsThatXSyncDoesNotHave(t *testing.T) {
	w := onRedis(t)
	w.limit, w.ttl = 5, 300*time.Millisecond
	cutOff, proxy := w.network()
	proxy.Hold()
	sem := w.weightedOn(cutOff, w.limit)
	wrong(t, sem.Acquire(t.Context(), 1), fairsem.ErrUnavailable, fmt.Sprintf("%q", w.name))
	proxy.Resume()
}

// The limit is shared by all processes, and a later one may declare another. That of x/sync never changes.
func TestWeightedCallAboveTheLimitIsGrantedWhenTheLimitHasGrown(t *testing.T) {
	withAClock(t, func(t *testing.T, w clockWorld) {
		w.limit = 2
		sem := w.weighted()
		require.NoError(t, sem.Acquire(t.Context(), 1)) // first, because a declaration in flight may arrive after the larger one
		got := make(chan error, 1)
		go func() { got <- sem.Acquire(t.Context(), 4) }() // ends with the grant
		time.Sleep(time.Millisecond)                       // the newest limit counts
		larger := w.of(w.client(), 5)
		w.release(w.must(larger.Acquire(t.Context(), 1)))
		assert.NoError(t, <-got)
		assert.Equal(t, int64(5), w.status(larger).Used)
		sem.Release(5)
	})
}

func TestWeightedWaiterThatBecomesTooLargeLeavesTheQueue(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = 3
		sem, s := w.weighted(), w.semaphore()
		require.NoError(t, sem.Acquire(t.Context(), 3))
		ctx, cancel := context.WithCancel(t.Context())
		large := make(chan error, 1)
		go func() { large <- sem.Acquire(ctx, 3) }() // ends with ctx
		w.eventually(func() bool { return w.status(s).Waiting == 1 }, "the call does not queue")
		lower := w.weightedOn(w.client(), 2)
		assert.False(t, lower.TryAcquire(1))
		w.eventually(func() bool { return w.status(s).Waiting == 0 }, "it stays in the queue")
		sem.Release(3)
		assert.True(t, acquires(t, lower, 2, time.Minute), "it blocks other calls")
		assert.Empty(t, large, "it does not wait for its context")
		cancel()
		assert.Equal(t, context.Canceled, <-large)
		lower.Release(2)
	})
}

func TestCloseEndsEveryCallOfAWeightedAndItsReleasesDoNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit, w.ttl = 5, time.Hour
		c, s := w.client(), w.semaphore()
		sem := w.weightedOn(c, w.limit)
		require.NoError(t, sem.Acquire(t.Context(), 5))
		sem.Release(1)
		failed := make(chan error, 3)
		for _, n := range []int64{2, 6, math.MaxInt64} {
			go func() { failed <- sem.Acquire(t.Context(), n) }() // ends with Close
		}
		w.eventually(func() bool { return w.status(s).Waiting == 1 }, "the call does not queue")
		require.NoError(t, c.Close())
		for range 3 {
			wrong(t, <-failed, fairsem.ErrClosed, fmt.Sprintf("%q: client closed", w.name))
		}
		assert.Zero(t, w.status(s).Used)
		require.ErrorIs(t, sem.Acquire(t.Context(), 1), fairsem.ErrClosed)
		assert.False(t, sem.TryAcquire(1))
		assert.NoError(t, sem.Err(), "it was released, and not lost")
		sem.Release(1) // deferred calls still run
		sem.Release(3)
		assert.Panics(t, func() { sem.Release(1) })
	})
}

func TestInvalidWeightedIsRefused(t *testing.T) {
	t.Parallel()
	c := offlineClient(t)
	for _, n := range []int64{-1, math.MinInt64, maxUnits + 1} {
		sem, err := c.Weighted("a\nname", n)
		assert.Nil(t, sem)
		invalid(t, err, `"a\nname"`)
	}
	_, err := c.Weighted("", 1)
	invalid(t, err, "empty")
	sem, err := c.Weighted("a\nname", 1)
	require.NoError(t, err)
	for _, n := range []int64{0, 1, math.MaxInt64} {
		invalid(t, sem.Acquire(none, n), `"a\nname": invalid argument: the context is nil`)
	}
}

func TestWeightedSendsNothingIfItKnowsTheAnswer(t *testing.T) {
	t.Parallel()
	sem, err := offlineClient(t).Weighted("a", 5)
	require.NoError(t, err)
	done, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the reason"))
	for _, n := range []int64{0, 1, 9, math.MaxInt64} {
		assert.Equal(t, context.Canceled, sem.Acquire(done, n))
	}
	assert.NoError(t, sem.Acquire(t.Context(), 0))
	assert.True(t, sem.TryAcquire(0))
	assert.False(t, sem.TryAcquire(math.MaxInt64))
	sem.Release(0)
	assert.NoError(t, sem.Err())
	assert.False(t, acquires(t, sem, math.MaxInt64, soon))
}

// A file that is older than a Release contains units that were released. They must not stay in use for long, and only the remaining
// units may be restored. Without the right to INFO nobody knows that the file is old.
func TestRestartDoesNotRestoreAReleasedPart(t *testing.T) {
	for name, c := range map[string]struct {
		saved bool
		right string // of another user than the default one, until the restart
	}{
		"nothing":     {false, ""},
		"an old file": {true, ""},
		"an old file that nobody knows to be old":    {true, "-info"},
		"an old file, and the right to INFO is gone": {true, "+info"},
	} {
		t.Run(name, func(t *testing.T) {
			w, server := agedServer(t, "--user", "uninformed", "on", ">secret", "~*", "&*", "+@all", "-info")
			w.limit, w.ttl = 6, 5*time.Second
			client := w.client()
			if c.right != "" {
				require.NoError(t, w.rdb.Do(t.Context(), "ACL", "SETUSER", "uninformed", c.right).Err())
				client, _ = w.observed(w.as("uninformed", "secret")) // the name has the server of a caller with the right
			}
			sem, s := w.weightedOn(client, w.limit), w.of(client, w.limit)
			require.NoError(t, sem.Acquire(t.Context(), 5))
			if c.saved {
				require.NoError(t, w.rdb.Save(t.Context()).Err())
			}
			sem.Release(3)
			restart(t, server)
			w.eventually(func() bool {
				st := w.status(s)
				return st.Used == 2 && st.Holders == 1
			}, "it is not restored with the remaining units")
			require.NoError(t, sem.Err())
			require.NoError(t, sem.Acquire(t.Context(), 4))
			sem.Release(6)
		})
	}
}
