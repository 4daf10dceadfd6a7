package fairsem

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/internal/protocol"
)

var withNumbers = CallOptions{Numbered: true}

// A message that does not have the numbers, forged or of another version, grants nothing yet.
func TestGrantWithoutNumbersIsConfirmedFirst(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, withNumbers)[0]
		w.carries("acquire a: 1#").answers(1, -1, 0, 1, int64(protocol.Waiting), 5)
		c.woken("a", 1, []protocol.Grant{grantAt(1, 5, 50)})
		f := w.carries("refresh a: 1#")
		assert.False(t, a.isDone())
		assert.Equal(t, false, f.knows(0))
		f.answers(1, -1, 0, 1, int64(protocol.Held), 50, 50, -1, 3)
		assert.Equal(t, []any{int64(50), []int64{3}}, []any{a.permit().Token(), a.permit().Numbers()})
	})
}

func TestMessageWithNumbersGrantsAtOnce(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		tickets := asks(c, "a", 2, withNumbers)
		w.carries("acquire a: 1# 2#").answers(1, -1, 0, 1, int64(protocol.Waiting), 5, int64(protocol.Waiting), 6)
		g := grantAt(1, 5, 50)
		g.Numbers = []int64{7}
		c.woken("a", 1, []protocol.Grant{g})
		assert.Equal(t, []int64{7}, tickets[0].permit().Numbers())
		tickets[0].state.leave(tickets[0])
		w.carries("release a: 1#").answers(1, -1, 0, 1, int64(protocol.Held), 0, 2, 6, 60, 60, -1, 7)
		assert.Equal(t, []int64{7}, tickets[1].permit().Numbers())
	})
}

// Guards against a holder that relies on its numbers although a server that had lost its grant has granted it others.
func TestPermitThatWasGrantedAgainWithOtherNumbersIsLost(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, withNumbers)[0]
		w.carries("acquire a: 1#").answers(1, -1, 0, 1, int64(protocol.Held), 50, 50, -1, 3)
		ctx := a.permit().Context()
		time.Sleep(time.Millisecond)
		c.verifyAll()
		f := w.carries("refresh a: 1#")
		assert.Equal(t, true, f.knows(0))
		f.answers(1, -1, 0, 100, int64(protocol.Held), 0)                             // from a new epoch, which the client did not know of
		w.carries("restore a: 1# 3").answers(1, -1, 0, 100, int64(protocol.Held), 60) // says which grant it is
		assert.ErrorIs(t, context.Cause(ctx), ErrLost)
		w.carries("release a: 1#").answers(1, -1, 0, 100, int64(protocol.Held), 0)
		synctest.Wait()
	})
}

func TestPermitWhoseNumbersAreConfirmedStays(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, withNumbers)[0]
		w.carries("acquire a: 1#").answers(1, -1, 0, 1, int64(protocol.Held), 50, 50, -1, 3)
		ctx := a.permit().Context()
		time.Sleep(time.Millisecond)
		c.verifyAll()
		w.carries("refresh a: 1#").answers(1, -1, 0, 100, int64(protocol.Held), 0)
		w.carries("restore a: 1# 3").answers(1, -1, 0, 100, int64(protocol.Held), 50)
		assert.NoError(t, ctx.Err())
		w.isIdle()
	})
}

// Where the key of the numbers was deleted, a grant has none, and the call tries again.
func TestGrantWithoutNumbersIsGivenUp(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, withNumbers)[0]
		w.carries("acquire a: 1#").answers(1, -1, 0, 1, int64(protocol.Held), 50)
		w.carries("release a: 1#").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		assert.ErrorIs(t, a.err, errPositionLost)
	})
}

// A call carries only as many units with numbers as take Redis as long as the ids that it may carry.
func TestRequestHasRoomForWhatItsUnitsWithNumbersCost(t *testing.T) {
	t.Parallel()
	var tickets []*ticket
	for _, units := range []int64{protocol.MaxNumbers, 200, 1, 1} {
		tickets = append(tickets, &ticket{weight: units, opts: &CallOptions{Numbered: true}})
	}
	r := &request{}
	assert.Equal(t, 1, r.room(tickets, protocol.MaxIDs), "125 and 1 of 150, and 25 and 1 more are too many")
	r.add(requestKey{script: protocol.AcquireScript}, tickets[:1])
	assert.Equal(t, 0, r.room(tickets[1:], protocol.MaxIDs))
	assert.Equal(t, 2, r.room(tickets[2:], protocol.MaxIDs))
	tickets[1].opts.Numbered = false
	assert.Equal(t, 3, r.room(tickets[1:], protocol.MaxIDs), "only numbers cost more")
}
