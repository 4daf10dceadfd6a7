package fairsem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/clock"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// The requests of a client when a permit is released in parts.

// holds returns a granted ticket with the given units.
func holds(c *Client, w *wire, units int64) *ticket {
	w.t.Helper()
	t, err := c.ask(background, &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 9}}}, units, true, time.Now())
	require.NoError(w.t, err)
	w.carries("acquire a: 1").grantAll(10)
	<-t.done
	return t
}

// kept returns the units that one ticket keeps, according to the call.
func (f *flight) kept() any {
	args := f.cmds[0].Args()
	return args[len(args)-1]
}

func (f *flight) isHeld(epoch int64) { f.answers(1, -1, 0, epoch, int64(protocol.Held), 10) }
func (f *flight) isGone(epoch int64) { f.answers(1, -1, 0, epoch, int64(protocol.Gone), 0) }

func TestPartsReleasedWhileACallIsInFlightShareTheNextCall(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 9)
		first := a.state.reduce(a, 1)
		f := w.carries("reduce a: 1")
		assert.Equal(t, int64(8), f.kept())
		second, third := a.state.reduce(a, 2), a.state.reduce(a, 3)
		w.isIdle()
		assert.False(t, isClosed(first))
		f.isHeld(1)
		assert.True(t, isClosed(first))
		assert.False(t, isClosed(second) || isClosed(third), "no call has released them")
		f = w.carries("reduce a: 1")
		assert.Equal(t, int64(3), f.kept())
		assert.Equal(t, int64(3), a.permit().Weight())
		f.isHeld(1)
		assert.True(t, isClosed(second) && isClosed(third))
		w.isIdle()
	})
}

func TestPartsOfManyPermitsShareACall(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 5)
		b, err := c.ask(background, &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 9}}}, 4, true, time.Now())
		require.NoError(t, err)
		w.carries("acquire a: 2").grantAll(20)
		<-b.done
		w.atOnce(c, func() {
			a.state.reduce(a, 1)
			b.state.reduce(b, 1)
		}, "reduce a: 1 2")
	})
}

// Neither the release of a part nor its reply renews the rest.
func TestReduceDoesNotExtendTheTrustWindow(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 5)
		time.Sleep(900 * time.Millisecond)
		before := a.hold.remaining()
		a.state.reduce(a, 1)
		w.carries("reduce a: 1").isHeld(1)
		assert.Equal(t, before, a.hold.remaining())
		time.Sleep(100*time.Millisecond + 1)
		w.carries("refresh a: 1").isHeld(1)
		assert.Greater(t, a.hold.remaining(), before)
	})
}

// A permit has one operation in flight at a time. A renewal must be sent in time however many parts are released.
func TestDueRenewalIsSentBeforeMoreParts(t *testing.T) {
	onWire(t, 9*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 9)
		time.Sleep(2500 * time.Millisecond)
		a.state.reduce(a, 1)
		f := w.carries("reduce a: 1")
		a.state.reduce(a, 1)
		time.Sleep(501 * time.Millisecond)
		w.isIdle()
		f.isHeld(1)
		w.carries("refresh a: 1").isHeld(1)
		f = w.carries("reduce a: 1")
		assert.Equal(t, int64(7), f.kept())
		f.isHeld(1)
		w.isIdle()
	})
}

// Its loss was reported with the next renewal, and with NoRefresh not before its lease ended.
func TestEvictionWhoseMessageOvertakesTheAnswerToAReduceIsReported(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 5)
		a.state.reduce(a, 2)
		f := w.carries("reduce a: 1")
		c.woken("a", 1, []protocol.Grant{grantAt(1, 10, 0)})
		f.isHeld(1)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		assert.ErrorIs(t, context.Cause(a.permit().Context()), ErrEvicted)
	})
}

func TestReduceWhoseAnswerIsLostIsSentAgain(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 5)
		reduced := a.state.reduce(a, 2)
		for range 3 {
			f := w.carries("reduce a: 1")
			assert.Equal(t, int64(3), f.kept())
			f.breaks()
			assert.False(t, isClosed(reduced))
			time.Sleep(lastRetry)
		}
		w.carries("reduce a: 1").isHeld(1)
		assert.True(t, isClosed(reduced))
		w.isIdle()
	})
}

// The permit is as valid as before, and the reason for the refusal may disappear.
func TestRefusedReduceEndsNoPermit(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 5)
		a.state.reduce(a, 2)
		f := w.carries("reduce a: 1")
		f.cmds[0].SetErr(testclient.Reply("NOPERM this user has no permissions"))
		f.end <- f.cmds[0].Err()
		time.Sleep(lastRetry)
		assert.NoError(t, a.permit().Context().Err())
		w.carries("reduce a: 1").isHeld(1)
		w.isIdle()
	})
}

func TestReduceOfAPermitMissingInRedisReportsTheLoss(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 5)
		reduced := a.state.reduce(a, 2)
		w.carries("reduce a: 1").isGone(1)
		assert.ErrorIs(t, context.Cause(a.permit().Context()), ErrLost)
		assert.True(t, isClosed(a.released))
		assert.False(t, isClosed(reduced))
		a.state.reduce(a, 1)
		w.isIdle()
	})
}

func TestPartOfAReleasedPermitIsNotSent(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 5)
		w.atOnce(c, func() {
			a.state.reduce(a, 2)
			a.permit().leave()
		}, "release a: 1").isHeld(1)
		assert.True(t, isClosed(a.released))
	})
}

// After a restart a permit is restored with the units that it has now, not with those that were acquired.
func TestRestoreSendsTheRemainingUnits(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		for name, send := range map[string]func(a *ticket) string{
			"by a renewal": func(*ticket) string { time.Sleep(time.Second + time.Millisecond); return "refresh a: 1" },
			"by a reduce":  func(a *ticket) string { a.state.reduce(a, 1); return "reduce a: 1" },
		} {
			a := holds(c, w, 9)
			a.state.reduce(a, 2)
			w.carries("reduce a: 1").isHeld(1)
			w.carries(send(a)).isGone(2)
			f := w.carries("restore a: 1")
			assert.Equal(t, a.permit().Weight(), f.kept(), name)
			f.isHeld(2)
			w.carries("reduce a: 1").isHeld(2) // Redis may have restored it with more units
			w.isIdle()
			a.permit().leave()
			w.carries("release a: 1").isHeld(2)
			c.lastSeq.Store(0)
			a.state.epoch = 0
		}
	})
}

// A file saved before the reduce has more units than the permit holds.
func TestPartsAreSentAgainInANewEpoch(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 9)
		a.state.reduce(a, 2)
		w.carries("reduce a: 1").isHeld(1)
		time.Sleep(time.Second + time.Millisecond)
		w.carries("refresh a: 1").isHeld(2)
		f := w.carries("reduce a: 1")
		assert.Equal(t, int64(7), f.kept())
		f.isHeld(2)
		w.isIdle()
	})
}

func TestWeightedReleasesWholePermitsWherePossible(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		held []int64
		n    int64
		want string // "of" marks a part of a permit
	}{
		{[]int64{5, 3, 1}, 3, "3"},
		{[]int64{5, 3, 1}, 4, "3, 1"},
		{[]int64{5, 3, 1}, 9, "5, 3, 1"},
		{[]int64{5, 3, 1}, 2, "1, 1 of 3"},
		{[]int64{5, 3}, 2, "2 of 3"},
		{[]int64{1, 1, 1, 7}, 3, "1, 1, 1"},
		{[]int64{4, 4, 9}, 10, "9, 1 of 4"},
		{[]int64{protocol.MaxUnits}, 1, fmt.Sprintf("1 of %d", int64(protocol.MaxUnits))},
	} {
		w := &Weighted{held: make(heldPermits)}
		now := clock.New()
		for _, n := range c.held {
			p := &Permit{ticket: &ticket{weight: n, values: background}}
			p.ticket.hold.begin(now, time.Now(), time.Now(), window{sent: now.Now(), ttl: time.Hour})
			w.hold(p)
		}
		var got []string
		for _, g := range w.deduct(c.n) {
			text := fmt.Sprint(g.units)
			if g.part {
				text += fmt.Sprint(" of ", g.permit.ticket.weight)
			}
			got = append(got, text)
		}
		assert.Equal(t, c.want, strings.Join(got, ", "), "%d of %v", c.n, c.held)
	}
}

// A process that was stopped and continues detects the loss itself, before a tick does.
func TestWeightedChecksTheClock(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		sem := &Weighted{sem: &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 9}}}, held: make(heldPermits)}
		lost := make(chan int64, 2)
		sem.OnLost(func(n int64, err error) {
			assert.ErrorIs(t, err, ErrLost)
			lost <- n
		})
		for _, check := range []func(){
			func() { assert.ErrorIs(t, sem.Err(), ErrLost) },
			func() { sem.Release(1) },
		} {
			a := holds(c, w, 5)
			sem.hold(a.permit())
			assert.NoError(t, sem.Err())
			a.hold.renew(window{})
			check()
			w.isIdle()
			assert.Equal(t, int64(5), <-lost)
			sem.Release(sem.total)
			assert.NoError(t, sem.Err())
			a.permit().leave()
			w.carries("release a: 1").isHeld(1)
			c.lastSeq.Store(0)
		}
		assert.Empty(t, lost)
	})
}

// A goroutine may be delayed for any time between the grant and the moment when Weighted counts the units.
func TestWeightedReportsUnitsLostBeforeTheyWereCounted(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		sem := &Weighted{sem: &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 9}}}, held: make(heldPermits)}
		lost := make(chan int64, 2)
		sem.OnLost(func(n int64, _ error) { lost <- n })
		a := holds(c, w, 5)
		a.hold.renew(window{})
		require.Error(t, a.permit().Context().Err())
		sem.hold(a.permit())
		assert.Equal(t, int64(5), <-lost)
		assert.ErrorIs(t, sem.Err(), ErrLost)
		sem.Release(5)
		assert.NoError(t, sem.Err())
		synctest.Wait()
		assert.Empty(t, lost)
	})
}

// holdsMany returns a handle that holds n permits of one unit each, which are not renewed.
func holdsMany(c *Client, w *wire, n int) (sem *Weighted, held []*ticket) {
	w.t.Helper()
	sem = &Weighted{sem: &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}}, held: make(heldPermits)}
	w.atOnce(c, func() { held = asks(c, "a", n, CallOptions{NoRefresh: true}) }, w.acquires("a", 3, n)).grantAll(10)
	synctest.Wait()
	for _, t := range held {
		sem.hold(t.permit())
	}
	return sem, held
}

// acquires returns the result of flight.contents for one acquire of n tickets.
func (*wire) acquires(name string, first, n int) string {
	text := "acquire " + name + ":"
	for i := range n {
		text += fmt.Sprint(" ", first+i)
	}
	return text
}

// Guards against one goroutine for each lost permit: 30,000 of them took half a second to report the loss.
func TestWeightedReportsManyLossesFromOneGoroutineAndTogether(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		sem, held := holdsMany(c, w, protocol.MaxIDs)
		var inside, calls, units int64
		sem.OnLost(func(n int64, err error) {
			inside++ // the race detector also detects a second goroutine
			assert.Equal(t, int64(1), inside)
			calls, units = calls+1, units+n
			assert.ErrorContains(t, err, fmt.Sprintf("%d units", n))
			time.Sleep(time.Millisecond)
			inside--
		})
		for _, t := range held {
			t.hold.end(ErrLost)
			synctest.Wait() // the function was called and has not returned
		}
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, int64(protocol.MaxIDs), units)
		assert.LessOrEqual(t, calls, int64(2), "losses during a call are reported together in the next one")
		assert.ErrorContains(t, sem.Err(), fmt.Sprintf("%d of %d units", protocol.MaxIDs, protocol.MaxIDs))
		sem.Release(protocol.MaxIDs)
		assert.NoError(t, sem.Err())
	})
}

func TestWeightedReportsEachLostUnitOnceEvenIfAReleaseRacesWithTheLoss(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		sem, held := holdsMany(c, w, protocol.MaxIDs)
		var reported atomic.Int64
		sem.OnLost(func(n int64, _ error) { reported.Add(n) })
		var all sync.WaitGroup
		all.Go(func() {
			for i, t := range held {
				if i%3 > 0 {
					t.hold.renew(window{})
					t.hold.lost()
				}
			}
		})
		for range 2 {
			all.Go(func() {
				for range protocol.MaxIDs / 2 {
					sem.Release(1)
				}
			})
		}
		finished := make(chan struct{})
		go func() { all.Wait(); close(finished) }() // ends with the releases
		for running := true; running; {
			if f := w.next(); f != nil {
				f.grantAll(0)
			}
			select {
			case <-finished:
				running = false
			default:
			}
		}
		synctest.Wait()
		lost := int64(0)
		for _, t := range held {
			if errors.Is(t.hold.ended(), ErrLost) {
				lost++
			}
		}
		assert.Equal(t, lost, reported.Load())
		assert.Positive(t, lost)
		assert.NoError(t, sem.Err())
		assert.Panics(t, func() { sem.Release(1) })
	})
}

func TestClosedGoroutinesHaveReportedEveryLoss(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		sem, held := holdsMany(c, w, 2)
		gate, entered, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var reported int64
		sem.OnLost(func(n int64, _ error) {
			reported += n
			if reported == 1 {
				close(entered)
				<-gate
			}
		})
		held[0].hold.end(ErrLost)
		<-entered
		held[1].hold.end(ErrLost)
		go func() { c.goroutines.Close(); close(closed) }() // ends with the gate
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned while the function was running")
		default:
		}
		close(gate)
		<-closed
		assert.Equal(t, int64(2), reported)
		assert.NoError(t, hanging(c.goroutines))
	})
}

func TestGoroutineThatDoesNotEndIsNamed(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 1") // it never returns
		c.goroutines.Close()
		err := hanging(c.goroutines)
		require.ErrorIs(t, err, ErrUnavailable)
		assert.ErrorContains(t, err, "still running after 5s: script calls (go-redis")
	})
}

func TestFunctionGivenToOnLostThatDoesNotReturnIsNoOutage(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, _ *wire) {
		gate := make(chan struct{})
		defer close(gate)
		require.True(t, c.goroutines.Start(goroutines.LossReports, func() { <-gate }))
		c.goroutines.Close()
		err := hanging(c.goroutines)
		require.EqualError(t, err, "fairsem: close: a function given to OnLost has not returned after 5s")
		assert.NotErrorIs(t, err, ErrUnavailable)
	})
}

// A process whose lease expired by its own clock releases it before Redis detects that. The release carries a flag for this.
func TestLeaseThatEndsInItsProcessIsReleasedAsExpired(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		late := asks(c, "a", 1, CallOptions{NoRefresh: true, TTL: time.Second})[0]
		w.carries("acquire a: 1").grantAll(10)
		synctest.Wait()
		<-late.permit().Context().Done()
		f := w.carries("release a: 1")
		assert.Equal(t, []any{time.Duration(0), true}, []any{f.lease(0), f.argument(0, "overdue")})
		f.grantAll(0)

		early := asks(c, "a", 1, CallOptions{NoRefresh: true, TTL: time.Second})[0]
		w.carries("acquire a: 2").grantAll(20)
		synctest.Wait()
		early.state.leave(early)
		f = w.carries("release a: 2")
		assert.Zero(t, f.lease(0))
		f.grantAll(0)
		w.isIdle()
	})
}
