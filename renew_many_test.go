package fairsem

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
)

// One call of a plain script renews what would take several full ones.

// waitersOf returns waiters of this process beside one holder, on a plain name whose deadlines are far away.
func (w *wire) waitersOf(c *Client, n int) (holder *ticket, waiters []*ticket) {
	w.t.Helper()
	holder, waiters = learns(c, w, protocol.NotPlain), asks(c, "a", n, CallOptions{})
	for f := w.next(); f != nil; f = w.next() {
		f.waits(protocol.NotPlain) // so that the others are asked for in full, too
	}
	for _, t := range waiters {
		require.Equal(w.t, waiting, t.phase)
	}
	holder.state.mu.Lock()
	defer holder.state.mu.Unlock()
	holder.state.fastPath.plain = protocol.PlainWithQueue
	return holder, waiters
}

// waits replies to each call of a pipeline that the first ticket holds, and all others wait, at the position that is 1000 plus their
// sequence number.
func (f *flight) waits(plain protocol.Plain) {
	for _, cmd := range f.cmds {
		reply := []int64{1, -1, 0, 1, 0, 0, int64(plain), 1}
		for _, arg := range cmd.Args() {
			switch seq := seqOf(arg); seq {
			case 0: // it is no id
			case 1:
				reply = append(reply, int64(protocol.Held), 0)
			default:
				reply = append(reply, int64(protocol.Waiting), 1000+seq)
			}
		}
		cmd.(protocol.Numbers).SetVal(reply)
	}
	f.end <- nil
}

// seqOf returns the sequence number of an id among the arguments of a call, 0 if it is none.
func seqOf(arg any) int64 {
	text, _ := arg.(string)
	_, last, _ := strings.Cut(text, ":")
	seq, _ := strconv.ParseInt(last, 10, 64)
	return seq
}

// renewsMany receives a plain renewal of so many tickets, of which some hold.
func (w *wire) renewsMany(n, holding int) *flight {
	w.t.Helper()
	f := w.next()
	require.NotNil(w.t, f, "nothing is sent")
	require.Len(w.t, f.cmds, 1)
	require.Equal(w.t, protocol.PlainRefreshScript, scriptOf(f.cmds[0]))
	require.Equal(w.t, []int{n, holding}, []int{f.ids(), f.argument(0, "holding").(int)})
	return f
}

func TestManyWaitersAreRenewedInOneCallWithTheHolders(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		const n = 3 * protocol.MaxIDs
		holder, waiters := w.waitersOf(c, n)
		for range 5 { // longer than a TTL, so that the leases would be over
			time.Sleep(20 * time.Second)
			f := w.renewsMany(1+n, 1)
			assert.Equal(t, []any{int64(1), int64(1), time.Minute.Milliseconds()}, f.cmds[0].Args()[11:14], "the epoch, the declaration and the lease")
			f.plainly(-1, n, int64(protocol.PlainWithQueue))
			w.isIdle()
		}
		require.NoError(t, holder.permit().Context().Err())
		for _, waiter := range waiters {
			assert.Equal(t, waiting, waiter.phase)
			assert.Equal(t, 1000+waiter.seq, waiter.position, "a renewal does not repeat the position")
		}
	})
}

func TestFewWaitersAreRenewedInFull(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		w.waitersOf(c, protocol.MaxIDs-1)
		time.Sleep(20 * time.Second)
		f := w.next()
		require.Len(t, f.cmds, 1)
		assert.Equal(t, protocol.RefreshScript, scriptOf(f.cmds[0]))
		assert.Equal(t, protocol.MaxIDs, f.ids())
	})
}

// A message to a waiter may be lost, and its lease may have ended.
func TestWhatIsNotRenewedWithManyIsQueriedInFull(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		const n = protocol.MaxIDs
		holder, waiters := w.waitersOf(c, n)
		held := holder.permit()
		time.Sleep(20 * time.Second)
		f := w.renewsMany(1+n, 1)
		ids := f.cmds[0].Args()[15:]
		f.plainly(-1, n, int64(protocol.PlainWithQueue), 1, 2, 1+n)
		granted, still := seqOf(ids[1]), seqOf(ids[n])
		f = w.carries(fmt.Sprintf("refresh a: 1 %d %d", granted, still))
		f.answers(1, -1, 0, 1, int64(protocol.Gone), 0, int64(protocol.Held), 77, int64(protocol.Waiting), 1000+still)
		require.ErrorIs(t, context.Cause(held.Context()), ErrLost)
		for _, waiter := range waiters {
			if waiter.seq == granted {
				assert.Equal(t, int64(77), waiter.tokenNow())
			} else {
				assert.Equal(t, waiting, waiter.phase)
			}
		}
	})
}

// A full script gets no more than it may: it removes and grants, too.
func TestManyRenewalsThatAreDeclinedAreSentInFullInParts(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		const n = 2 * protocol.MaxIDs
		_, waiters := w.waitersOf(c, n)
		for range 2 {
			time.Sleep(20 * time.Second)
			w.renewsMany(1+n, 1).plainly(0)
			var renewed []int
			for f := w.next(); f != nil; f = w.next() {
				for _, content := range f.contents() {
					ids, isRefresh := strings.CutPrefix(content, "refresh a: ")
					require.True(t, isRefresh, content)
					renewed = append(renewed, len(strings.Fields(ids)))
				}
				f.waits(protocol.PlainWithQueue)
			}
			slices.Sort(renewed)
			assert.Equal(t, []int{1, protocol.MaxIDs, protocol.MaxIDs}, renewed)
		}
		for _, waiter := range waiters {
			assert.Equal(t, waiting, waiter.phase)
		}
		time.Sleep(20 * time.Second)
		w.renewsMany(1+n, 1).plainly(0)
		for f := w.next(); f != nil; f = w.next() {
			f.waits(protocol.PlainWithQueue)
		}
		time.Sleep(20 * time.Second)
		assert.Equal(t, protocol.RefreshScript, scriptOf(w.next().cmds[0]), "it was in vain too often")
	})
}

// Where batches take long, a large call would be late as a whole.
func TestManyAreNotRenewedInOneCallWhileAnswersAreSlow(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		w.waitersOf(c, 2*protocol.MaxIDs)
		asks(c, "a", 1, CallOptions{})
		f := w.next()
		time.Sleep(pipeline.MaxTimeout * 3 / 4)
		f.plainly(-1, 1+2*protocol.MaxIDs, int64(protocol.PlainWithQueue), 0, 5000)
		time.Sleep(20 * time.Second)
		calls := 0
		for f := w.next(); f != nil; f = w.next() {
			for _, cmd := range f.cmds {
				assert.Equal(t, protocol.RefreshScript, scriptOf(cmd))
			}
			calls += len(f.cmds)
			f.waits(protocol.PlainWithQueue)
		}
		assert.Equal(t, 3, calls, "of at most 150 ids each")
	})
}
