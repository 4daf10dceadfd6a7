package fairsem

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/internal/protocol"
)

// The events that close the channel of Permit.Wanted, and those that do not.

// says ends a pipeline of one script call with a number of waiters, and with the results.
func (f *flight) says(waiters int64, results ...int64) {
	f.cmds[0].(protocol.Numbers).SetVal(slices.Concat([]int64{1, -1, 0, 1, 0, 0, 0, waiters}, results))
	f.end <- nil
	synctest.Wait()
}

// renews receives the next renewal of t.
func (w *wire) renews(t *ticket) *flight {
	w.t.Helper()
	time.Sleep(t.ttl / 3)
	return w.carries("refresh a: 1")
}

const stillHeld = int64(protocol.Held)

func TestWantedIsClosedByTheFirstRenewalThatFindsAWaiter(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		p := holder(t, c, w, CallOptions{})
		wanted := p.Wanted()
		w.renews(p.ticket).says(0, stillHeld, 0)
		assert.False(t, isClosed(wanted), "no call waits")
		w.renews(p.ticket).says(2, stillHeld, 0)
		assert.True(t, isClosed(wanted))
		w.renews(p.ticket).says(1, stillHeld, 0)
		w.renews(p.ticket).says(0, stillHeld, 0)
		assert.True(t, isClosed(p.Wanted()), "it is opened again")
		p.leave()
		w.carries("release a: 1").says(0, stillHeld, 0)
		assert.True(t, isClosed(p.Wanted()), "it is opened again by the release")
	})
}

func TestAnswersToOtherCallsCloseTheWantedOfEveryHolderOfTheName(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		p := holder(t, c, w, CallOptions{NoRefresh: true})
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 2").grantAll(20)
		w.isIdle()
		asks(c, "b", 1, CallOptions{})
		w.carries("acquire b: 3").says(1, int64(protocol.Waiting), 30)
		wanted := p.Wanted()
		assert.False(t, isClosed(wanted), "a call waits for another name")
		time.Sleep(time.Second)
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 4").says(1, int64(protocol.Waiting), 40)
		assert.True(t, isClosed(wanted))
	})
}

// Else a holder that has waited would be told of its own wait.
func TestAnswerFromBeforeTheGrantDoesNotCloseWanted(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").says(1, int64(protocol.Waiting), 10)
		f := w.renews(a)
		time.Sleep(time.Millisecond)
		c.woken("a", 1, []protocol.Grant{{Seq: 1, Position: 10, Token: 20}})
		w.isIdle()
		wanted := a.permit().Wanted()
		f.says(1, int64(protocol.Waiting), 10)
		assert.False(t, isClosed(wanted))
		w.renews(a).says(1, stillHeld, 20)
		assert.True(t, isClosed(wanted))
	})
}

func TestWantedThatIsOpenAtTheEndOfThePermitStaysOpen(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		before := holder(t, c, w, CallOptions{})
		b := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 2").grantAll(20)
		w.isIdle()
		wanted, after := before.Wanted(), b.permit()
		f := w.atOnce(c, func() {
			before.leave()
			after.leave()
		}, "release a: 1 2")
		never := after.Wanted()
		f.says(1, stillHeld, 0, stillHeld, 0)
		assert.False(t, isClosed(wanted), "it was asked for before the end")
		assert.False(t, isClosed(never), "it was asked for after the end")
		assert.Empty(t, b.state.listeners)
	})
}

func TestConcurrentCallsOfWantedReturnOneChannel(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		p := holder(t, c, w, CallOptions{})
		var all sync.WaitGroup
		var channels [10]<-chan struct{}
		for i := range channels {
			all.Go(func() {
				channels[i] = p.Wanted()
				<-channels[i]
			})
		}
		w.renews(p.ticket).says(1, stillHeld, 0)
		all.Wait()
		for _, one := range channels {
			assert.Equal(t, channels[0], one)
		}
	})
}

// Not parallel: the allocations of other tests would count.
func TestWaitersCostAHolderThatDoesNotAskForWantedNoAllocation(t *testing.T) {
	v := &nameState{}
	v.tickets = map[int64]*ticket{1: {state: v, phase: holding}}
	sent := time.Now()
	assert.Zero(t, testing.AllocsPerRun(100, func() { v.notifyHoldersLocked(1, sent) }))
	assert.Nil(t, v.listeners)
	assert.Nil(t, v.tickets[1].wanted)
}
