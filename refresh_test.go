package fairsem

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/clock"
)

func TestWindowEndsAMarginBeforeTheLease(t *testing.T) {
	t.Parallel()
	sent := clock.Instant{Time: time.Now(), Asleep: time.Minute}
	for _, c := range []struct{ ttl, margin, due time.Duration }{
		{minTTL, 10 * time.Millisecond, 33333333 * time.Nanosecond},
		{900 * time.Millisecond, 90 * time.Millisecond, 300 * time.Millisecond},
		{defaultTTL, time.Second, 3333333333 * time.Nanosecond},
		{maxTTL, 144 * time.Minute, 8 * time.Hour},
	} {
		w := window{sent: sent, ttl: c.ttl}
		assert.Equal(t, c.margin, w.margin(), "margin of %v", c.ttl)
		assert.Equal(t, c.ttl-c.margin, w.end(time.Minute).Sub(sent.Time), "end of %v", c.ttl)
		assert.Equal(t, c.due, w.due(time.Minute).Sub(sent.Time), "due of %v", c.ttl)
	}
}

func TestWindowHasTimeForThreeTriesWhateverTheTTL(t *testing.T) {
	t.Parallel()
	sent := clock.Instant{Time: time.Now(), Asleep: 0}
	for range 1000 {
		w := window{sent: sent, ttl: minTTL + rand.N(maxTTL-minTTL+1)}
		first := w.due(0).Sub(sent.Time)
		third := w.due(0).Add(first).Add(first / 2)
		require.True(t, third.Before(w.end(0)), "due %v, end %v", first, w.end(0).Sub(sent.Time))
		require.True(t, w.end(0).Before(sent.Add(w.ttl)), "it ends with the lease of %v", w.ttl)
	}
}

func TestWindowHasNoTimeRemainingFromItsEnd(t *testing.T) {
	t.Parallel()
	w := window{sent: clock.Instant{Time: time.Now(), Asleep: time.Minute}, ttl: time.Second}
	end := w.end(time.Minute)
	assert.Equal(t, 900*time.Millisecond, w.remaining(w.sent))
	assert.Equal(t, time.Nanosecond, w.remaining(clock.Instant{Time: end.Add(-1), Asleep: time.Minute}))
	assert.Zero(t, w.remaining(clock.Instant{Time: end, Asleep: time.Minute}))
	assert.Negative(t, w.remaining(clock.Instant{Time: end.Add(1), Asleep: time.Minute}))
	assert.Equal(t, 100*time.Millisecond, w.remaining(clock.Instant{Time: w.sent.Time, Asleep: time.Minute + 800*time.Millisecond}), "the machine was suspended")
	assert.Negative(t, window{}.remaining(w.sent), "a lease that was never confirmed is over")
}

// idleState returns a nameState without tickets: it retires at its first tick.
func idleState() *nameState {
	v := &nameState{host: &host{retired: func(*nameState) {}}}
	v.timer = timer{owner: v, index: -1}
	return v
}

func (v *nameState) ticked() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.retired
}

// The test compares the heap with a sorted list, over random changes.
func TestTimerHeapKeepsTheEarliestFirst(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var a timerHeap
	states := make([]*nameState, 20)
	for i := range states {
		states[i] = idleState()
	}
	at := make(map[*timer]time.Time) // the expected heap
	for range 2000 {
		if rand.IntN(3) == 0 && len(a) > 0 {
			first := a[0]
			for _, other := range at {
				require.False(t, other.Before(first.at), "a timer is due before the first")
			}
			require.Equal(t, at[first], first.at)
			a.remove(first)
			require.Negative(t, first.index)
			delete(at, first)
			continue
		}
		v, when := &states[rand.IntN(len(states))].timer, began.Add(rand.N(time.Hour))
		if old, ok := at[v]; !ok || when.Before(old) {
			at[v] = when
		}
		earliest := slices.MinFunc(slices.Collect(maps.Values(at)), time.Time.Compare)
		require.Equal(t, at[v].Equal(earliest), a.add(v, when), "whether the timer is the first")
		require.Len(t, a, len(at))
	}
}

func TestSchedulerTicksEachStateWhenItIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newScheduler(clock.New())
		defer k.close()
		began := time.Now()
		states := make([]*nameState, 5)
		for _, i := range []int{3, 0, 4, 1, 2} {
			states[i] = idleState()
			k.schedule(&states[i].timer, began.Add(time.Duration(i+1)*time.Minute))
		}
		for i := range states {
			time.Sleep(time.Until(began.Add(time.Duration(i+1)*time.Minute - 1)))
			synctest.Wait()
			assert.False(t, states[i].ticked(), "state %d ticked too early", i)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			assert.True(t, states[i].ticked(), "state %d did not tick when it was due", i)
		}
	})
}

func TestSchedulerTicksAtTheEarlierOfTwoTimes(t *testing.T) {
	t.Parallel()
	for _, order := range [][]time.Duration{{time.Hour, time.Second}, {time.Second, time.Hour}, {time.Hour, 0, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			k := newScheduler(clock.New())
			defer k.close()
			v := idleState()
			began, first := time.Now(), slices.Min(order)
			for _, d := range order {
				k.schedule(&v.timer, began.Add(d))
			}
			time.Sleep(first)
			synctest.Wait()
			assert.True(t, v.ticked(), "%v", order)
		})
	}
}

func TestSchedulerTicksAnOverdueStateAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newScheduler(clock.New())
		defer k.close()
		v, late := idleState(), idleState()
		k.schedule(&late.timer, time.Now().Add(time.Hour))
		synctest.Wait() // the scheduler sleeps for an hour
		k.schedule(&v.timer, time.Now().Add(-time.Hour))
		synctest.Wait()
		assert.True(t, v.ticked())
		assert.False(t, late.ticked())
	})
}

func TestSchedulerThatWasNeverNeededCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newScheduler(clock.New())
		k.close()
		k.schedule(&idleState().timer, time.Now())
		synctest.Wait()
		select {
		case <-k.stopped:
			t.Error("a goroutine was started")
		default:
		}
	})
}

func TestSchedulerCloseWaitsForTheCurrentTick(t *testing.T) {
	t.Parallel()
	k, v := newScheduler(clock.New()), idleState()
	v.mu.Lock() // the tick cannot end
	k.schedule(&v.timer, time.Now())
	require.Eventually(t, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.timers) == 0
	}, time.Minute, time.Millisecond, "no tick begins")
	ended := make(chan bool, 1)
	go func() { // ends with close
		k.close()
		select {
		case <-k.stopped:
			ended <- true
		default:
			ended <- false
		}
	}()
	<-k.stop
	for range 1000 {
		runtime.Gosched() // a close that does not wait returns now
	}
	v.mu.Unlock()
	assert.True(t, <-ended, "close returned before the goroutine ended")
	assert.True(t, v.ticked())
}
