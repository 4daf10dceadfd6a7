package pipeline

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// holding is a pipeline whose holds last until the test ends them.
type holding struct {
	*Pipeline
	yielding chan struct{} // a value ends a yield

	mu      sync.Mutex
	batches []int                 // how many commands each has
	block   map[int]chan struct{} // by the number of the batch: its answer comes when the channel is closed
}

func newHolding(t *testing.T) *holding {
	t.Helper()
	h := &holding{yielding: make(chan struct{}), block: make(map[int]chan struct{})}
	h.Pipeline = newTestPipeline(t, func(cmds []redis.Cmder) error {
		h.mu.Lock()
		h.batches = append(h.batches, len(cmds))
		wait := h.block[len(h.batches)]
		h.mu.Unlock()
		if wait != nil {
			<-wait
		}
		return nil
	})
	h.Yield = func() { <-h.yielding }
	return h
}

// sent returns the sizes of all batches once nothing more happens.
func (h *holding) sent() []int {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.batches)
}

// endHold lets the hold that lasts end.
func (h *holding) endHold() {
	for range 2 {
		h.yielding <- struct{}{}
	}
}

// wakes returns a request of some ids whose answer wakes so many callers.
func wakes(callers, ids int) *order {
	o := newOrder(ids, MaxTimeout)
	o.wakes = callers
	return o
}

func (h *holding) queue(ids int) { h.Queue(newOrder(ids, MaxTimeout), false) }

func TestCallersThatAnAnswerWokeShareTheNextBatch(t *testing.T) {
	t.Parallel()
	for _, woken := range []int{minWoken, maxWoken} {
		t.Run(fmt.Sprint(woken), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHolding(t)
				h.Queue(wakes(woken, 1), false)
				for range woken {
					require.Equal(t, []int{1}, h.sent(), "a batch leaves before all callers have called")
					h.queue(1)
				}
				h.endHold()
				assert.Equal(t, []int{1, woken}, h.sent())
			})
		})
	}
}

// The first caller may run while others are being woken.
func TestNoBatchLeavesWhileCallersAreBeingWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		last := wakes(0, 1)
		last.done = make(chan Response)
		h.block[1] = make(chan struct{})
		h.queue(1)
		require.Equal(t, []int{1}, h.sent())
		h.block[2] = make(chan struct{})
		h.Queue(wakes(1, 1), false)
		require.Equal(t, []int{1, 1}, h.sent())
		h.Queue(wakes(1, 1), false)
		h.Queue(last, false)
		close(h.block[1])
		require.Equal(t, []int{1, 1, 2}, h.sent(), "it wakes its second caller")
		h.queue(1)
		require.Len(t, h.sent(), 3)
		h.queue(1)
		<-last.done // one caller is too few for a hold
		assert.Equal(t, []int{1, 1, 2, 2}, h.sent())
		close(h.block[2])
	})
}

func TestCallersThatAMessageWokeShareTheNextBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		h.Wake(func() int {
			h.queue(1)
			require.Empty(t, h.sent(), "a batch leaves while callers are being woken")
			return 2
		})
		require.Empty(t, h.sent())
		h.queue(1)
		h.endHold()
		assert.Equal(t, []int{2}, h.sent())
	})
}

func TestNothingIsHeldForOneCallerOrForManyOrForABigBatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ woken, ids int }{{0, 1}, {1, 1}, {maxWoken + 1, 1}, {2, maxWoken + 1}} {
		t.Run(fmt.Sprintf("%d of %d ids", test.woken, test.ids), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHolding(t)
				h.Queue(wakes(test.woken, test.ids), false)
				h.sent()
				h.queue(1)
				assert.Equal(t, []int{1, 1}, h.sent(), "after an answer")
				if !holdsFor(test.woken) {
					h.Wake(func() int {
						h.queue(1)
						return test.woken
					})
					assert.Equal(t, []int{1, 1, 1}, h.sent(), "after a message")
				}
			})
		})
	}
}

// A caller that has run meanwhile need not wait until all of a big batch has been handed out.
func TestBigBatchIsHandedOutWithoutAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		o := wakes(2, maxWoken+1)
		o.done = make(chan Response)
		h.Queue(o, false)
		require.Equal(t, []int{1}, h.sent(), "its caller is being woken")
		h.queue(1)
		assert.Equal(t, []int{1, 1}, h.sent())
		<-o.done
	})
}

// A hold would be too late for a lease that is about to end.
func TestUrgentRequestLeavesDuringAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		h.block[1] = make(chan struct{}) // all but one batch are in flight for long
		for range MaxInFlight - 1 {
			h.queue(1)
			h.sent()
		}
		h.Queue(wakes(2, 1), false)
		before := h.sent()
		h.queue(1)
		require.Equal(t, before, h.sent(), "it is held")
		h.Queue(newOrder(1, MaxTimeout), true)
		assert.Equal(t, append(before, 2), h.sent(), "what was held shares its batch")
		h.endHold()
		close(h.block[1])
		assert.Len(t, h.sent(), len(before)+1)
	})
}

func TestUrgentRequestThatWaitedLeavesWhenAHoldBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		h.block[1], h.block[2] = make(chan struct{}), make(chan struct{})
		h.Queue(wakes(2, 1), false)
		h.sent()
		h.queue(1)
		h.sent()
		h.Queue(newOrder(1, MaxTimeout), true)
		require.Equal(t, []int{1, 1}, h.sent())
		close(h.block[1])
		assert.Equal(t, []int{1, 1, 1}, h.sent())
		h.endHold()
		close(h.block[2])
	})
}

func TestAnswerToAnotherBatchDoesNotEndAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		h.block[1] = make(chan struct{})
		h.queue(maxWoken + 1)
		h.sent()
		h.Wake(func() int { return 2 })
		h.queue(1)
		close(h.block[1])
		require.Equal(t, []int{1}, h.sent())
		h.endHold()
		assert.Equal(t, []int{1, 1}, h.sent())
	})
}

func TestHoldEndsThoughNobodyCallsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		h.Queue(wakes(2, 1), false)
		h.endHold()
		h.Wake(func() int { return 2 })
		h.endHold()
		require.Equal(t, []int{1}, h.sent())
		h.queue(1)
		assert.Equal(t, []int{1, 1}, h.sent())
		h.Pipeline.mu.Lock()
		defer h.Pipeline.mu.Unlock()
		assert.Zero(t, h.inFlight)
		assert.Zero(t, h.holds)
	})
}

// Guards against callers that wait for a hold in a process that is busy with other things.
func TestHoldThatLastsTooLongIsIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		h.Queue(wakes(2, 1), false)
		h.sent()
		time.Sleep(maxHold - 1)
		h.Wake(func() int { return 2 }) // does not prolong it
		h.queue(1)
		require.Equal(t, []int{1}, h.sent())
		time.Sleep(time.Nanosecond)
		h.queue(1)
		assert.Equal(t, []int{1, 2}, h.sent())
		h.endHold()
		h.endHold()
	})
}

// The batch that holds can be the only one that is not stuck.
func TestBatchThatIsWrittenOffDuringAHoldLeavesItsPlaceToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHolding(t)
		h.block[1] = make(chan struct{})
		h.Queue(newOrder(1, MinTimeout), false)
		h.sent()
		time.Sleep(MinTimeout - maxHold/2)
		h.Queue(wakes(2, 1), false)
		h.sent()
		time.Sleep(maxHold / 2)
		h.queue(1)
		require.Equal(t, []int{1, 1}, h.sent(), "the hold lasts")
		h.endHold()
		require.Equal(t, []int{1, 1, 1}, h.sent())
		close(h.block[1])
		h.sent()
		h.Pipeline.mu.Lock()
		defer h.Pipeline.mu.Unlock()
		assert.Zero(t, h.inFlight)
		assert.Zero(t, h.holds)
	})
}
