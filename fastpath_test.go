package fairsem

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// grantsPlain grants the one id of a full call, and says that the name is plain.
func (f *flight) grantsPlain(token int64) {
	f.answers(1, -1, 0, 1, int64(protocol.Held), token)
}

// plainly replies to a plain call.
func (f *flight) plainly(numbers ...int64) {
	f.cmds[0].(protocol.Numbers).SetVal(numbers)
	f.end <- nil
	synctest.Wait()
}

// learnsPlain has a client learn that the name is plain, and that nobody waits. It returns the ticket that holds.
func learnsPlain(c *Client, w *wire) *ticket {
	w.t.Helper()
	return learns(c, w, protocol.PlainWithoutQueue)
}

func learns(c *Client, w *wire, plain protocol.Plain) *ticket {
	w.t.Helper()
	a := asks(c, "a", 1, CallOptions{})[0]
	f := w.carries("acquire a: 1")
	f.cmds[0].(protocol.Numbers).SetVal([]int64{1, -1, 0, 1, 0, 0, int64(plain), 0, int64(protocol.Held), 10})
	f.end <- nil
	w.isIdle()
	return a
}

func TestCallsArePlainOnceAReplySaysThatTheNameIs(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		a := learnsPlain(c, w)
		b := asks(c, "a", 1, CallOptions{})[0]
		f := w.carries("plain_acquire a: 2")
		args := f.cmds[0].Args()
		assert.Equal(t, []any{int64(1), int64(1), time.Minute.Milliseconds(), 1}, args[7:11], "the epoch, the declaration, the lease and the count")
		f.plainly(20)
		assert.Equal(t, int64(20), b.tokenNow())

		a.state.leave(a)
		f = w.carries("plain_release a: 1")
		next := asks(c, "a", 1, CallOptions{})
		second := w.carries("plain_acquire a: 3")
		next = append(next, asks(c, "a", 1, CallOptions{})...)
		b.state.leave(b) // shares a call with the acquire before it
		f.plainly(1)
		assert.Equal(t, removed, a.phase)
		third := w.carries("plain_acquire a: 4 -2")
		second.plainly(30)
		third.plainly(40)
		assert.Equal(t, []int64{30, 40}, []int64{next[0].tokenNow(), next[1].tokenNow()})
		assert.Equal(t, removed, b.phase)
		w.isIdle()
	})
}

// The full script answers in the same batch, even if the server has lost both scripts meanwhile.
func TestPlainCallThatIsDeclinedIsSentInFull(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		learnsPlain(c, w)
		b := asks(c, "a", 1, CallOptions{})[0]
		unknown := testclient.Reply("NOSCRIPT No matching script.")
		for _, step := range []struct {
			verb, sent string
			err        error
		}{{"plain_acquire", "evalsha", unknown}, {"plain_acquire", "eval", nil}, {"acquire", "evalsha", unknown}, {"acquire", "eval", nil}} {
			f := w.carries(step.verb + " a: 2")
			assert.Equal(t, step.sent, f.cmds[0].Args()[0])
			switch {
			case step.err != nil:
				f.cmds[0].SetErr(step.err)
				f.end <- step.err
			case step.verb == "acquire":
				f.grantsPlain(20)
			default:
				f.plainly(0)
			}
		}
		assert.Equal(t, int64(20), b.tokenNow())
		w.isIdle()
	})
}

func TestCallsAboutANameWithAQueueArePlain(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		a := learns(c, w, protocol.PlainWithQueue)
		b := asks(c, "a", 1, CallOptions{HeadStart: time.Second})[0]
		f := w.carries("plain_queue a: 2")
		args := f.cmds[0].Args()
		assert.Equal(t, []any{int64(1), int64(1), time.Minute.Milliseconds(), time.Second.Microseconds(), 1}, args[10:15],
			"the epoch, the declaration, the lease, the head start and the count")
		f.plainly(1000, 1, int64(protocol.PlainWithQueue), 0, 5_000_000)
		assert.Equal(t, []any{waiting, int64(4_000_000)}, []any{b.phase, b.position})

		a.state.leave(a)
		f = w.carries("plain_queue a: -1")
		f.plainly(-1, 0, int64(protocol.PlainWithQueue), 0, 30, 2, 4_000_000, 20)
		assert.Equal(t, removed, a.phase)
		assert.Equal(t, int64(20), b.tokenNow())

		tries := asks(c, "a", 1, CallOptions{MaxQueue: 3})
		w.carries("acquire a: 3").grantAll(40)
		w.isIdle()
		assert.Equal(t, int64(40), tries[0].tokenNow())
		w.isIdle()
	})
}

// A name whose queue begins or ends declines one call of each process.
func TestAfterOnePlainCallThatWasDeclinedOneReplySuffices(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		a := learnsPlain(c, w)
		asks(c, "a", 1, CallOptions{})
		w.carries("plain_acquire a: 2").plainly(20)
		asks(c, "a", 1, CallOptions{})
		w.carries("plain_acquire a: 3").plainly(0)
		f := w.carries("acquire a: 3")
		f.cmds[0].(protocol.Numbers).SetVal([]int64{1, 1000, 0, 1, 0, 0, int64(protocol.PlainWithQueue), 1, int64(protocol.Waiting), 30})
		f.end <- nil
		w.isIdle()
		asks(c, "a", 1, CallOptions{})
		w.carries("plain_queue a: 4").plainly(1000, 2, int64(protocol.PlainWithQueue), 0, 40)
		assert.Equal(t, protocol.PlainWithQueue, a.state.fastPath.kind())
	})
}

func TestCallsOnANameOfTenantsArePlainWhetherOrNotAnybodyWaits(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		a := learns(c, w, protocol.PlainWithTenants)
		asks(c, "a", 1, CallOptions{MaxQueue: 3, HeadStart: time.Second}) // which do not matter then
		f := w.carries("plain_tenants_acquire a: 2")
		args := f.cmds[0].Args()
		assert.Equal(t, []any{int64(1), int64(1), time.Minute.Milliseconds(), 1, 0}, args[8:13],
			"the epoch, the declaration, the lease, the count and how many tenants it declares")
		f.plainly(20)
		a.state.leave(a)
		f = w.carries("plain_tenants_release a: 1")
		next := asks(c, "a", 1, CallOptions{})[0]
		f.plainly(1)
		w.carries("plain_tenants_acquire a: 3").plainly(0) // there is no more
		f = w.carries("acquire a: 3")
		f.cmds[0].(protocol.Numbers).SetVal([]int64{1, 1000, 0, 1, 0, 0, int64(protocol.PlainWithTenantsInQueue), 1, int64(protocol.Waiting), 30})
		f.end <- nil
		w.isIdle()
		b := asks(c, "a", 1, CallOptions{})[0]
		w.carries("plain_tenants a: 4").plainly(1000, 2, int64(protocol.PlainWithTenantsInQueue), int64(protocol.Waiting), 40)
		assert.Equal(t, []phase{waiting, waiting}, []phase{next.phase, b.phase})
	})
}

// The scripts for names without waiters know one tenant.
func TestCallOfSeveralTenantsIsPlainWhereNobodyWaits(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		a := learns(c, w, protocol.PlainWithTenants)
		of := func(tenant string) *ticket { return asks(c, "a", 1, CallOptions{Tenant: tenant, MaxQueue: 3})[0] }
		x := of("x")
		first := w.carries("plain_tenants_acquire a: 2:x")
		y := of("y")
		second := w.carries("plain_tenants_acquire a: 3:y")
		of("x")
		of("y")
		first.plainly(20)
		f := w.carries("plain_tenants a: 4:x 5:y")
		args := f.cmds[0].Args()
		assert.Equal(t, []any{false, 2, 2, "x"}, args[16:20], "whether they may queue, how many they are, and their tenants")
		second.plainly(21)
		f.plainly(-1, 0, int64(protocol.PlainWithTenants), int64(protocol.Held), 22, int64(protocol.Held), 23)
		w.isIdle()
		w.atOnce(c, func() {
			a.state.leave(a)
			x.state.leave(x)
		}, "plain_tenants a: -1 -2:x").plainly(-1, 0, int64(protocol.PlainWithTenants))
		y.state.leave(y)
		w.carries("plain_tenants_release a: 3:y").plainly(1)
		w.isIdle()
	})
}

// A script that is in vain too often without waiters may work with them.
func TestPlainScriptOfTenantsThatIsOftenInVainIsNotTried(t *testing.T) {
	t.Parallel()
	var s fastPath
	reply := protocol.Reply{Plain: protocol.PlainWithTenants}
	s.learn(reply, nil)
	for range 3 {
		assert.Equal(t, protocol.PlainWithTenants, s.kind())
		s.missed(protocol.PlainTenantsAcquireScript)
		assert.Equal(t, protocol.NotPlain, s.kind(), "the call is sent in full")
		s.learn(reply, nil)
	}
	for range waitWhenDeep - 1 {
		assert.Equal(t, protocol.PlainWithTenantsInQueue, s.kind())
		s.learn(reply, protocol.PlainTenantsScript)
	}
	assert.Equal(t, protocol.PlainWithTenants, s.kind())
}

// A plain call in vain costs a second round trip, so a few in a row end them for a while.
func TestPlainScriptsThatAreOftenInVainAreNotTried(t *testing.T) {
	t.Parallel()
	without, with := protocol.PlainAcquireScript, protocol.PlainQueueScript
	var s fastPath
	s.learn(protocol.Reply{Plain: protocol.PlainWithoutQueue}, nil)
	inVain := func(script *protocol.Script, then protocol.Plain) {
		s.missed(script)
		assert.Equal(t, protocol.NotPlain, s.kind(), "the call is sent in full")
		s.learn(protocol.Reply{Plain: then}, nil)
	}
	for range 100 { // the begin and the end of a queue decline a call now and then
		inVain(without, protocol.PlainWithoutQueue)
		for range costInVain {
			assert.Equal(t, protocol.PlainWithoutQueue, s.kind())
			s.learn(protocol.Reply{Plain: protocol.PlainWithoutQueue}, without)
		}
	}
	for range 3 {
		assert.Equal(t, protocol.PlainWithoutQueue, s.kind())
		inVain(without, protocol.PlainWithoutQueue)
	}
	for range waitWhenDeep - 1 {
		assert.Equal(t, protocol.PlainWithQueue, s.kind(), "the script that knows queues may do")
		s.learn(protocol.Reply{Plain: protocol.PlainWithoutQueue}, with)
	}
	assert.Equal(t, protocol.PlainWithoutQueue, s.kind())
	for range 3 {
		inVain(with, protocol.PlainWithQueue)
	}
	for range waitWhenDeep - 1 {
		assert.Equal(t, protocol.NotPlain, s.kind())
		s.learn(protocol.Reply{Plain: protocol.PlainWithQueue}, nil)
	}
	assert.Equal(t, protocol.PlainWithQueue, s.kind())
}

// A plain script releases holders only.
func TestReleaseOfAWaiterIsNotPlain(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		learns(c, w, protocol.PlainWithQueue)
		b := asks(c, "a", 1, CallOptions{})[0]
		w.carries("plain_queue a: 2").plainly(1000, 1, int64(protocol.PlainWithQueue), 0, 30)
		assert.Equal(t, waiting, b.phase)
		b.state.leave(b)
		w.carries("release a: 2").answers(1, -1, 0, 1, int64(protocol.Waiting), 0)
		assert.Equal(t, removed, b.phase)
	})
}

// A reply that says that the name is no longer plain ends it for the next call.
func TestCallsAreFullOnceAReplySaysThatTheNameIsNotPlain(t *testing.T) {
	onWire(t, time.Minute, func(_ *testing.T, c *Client, w *wire) {
		a := learnsPlain(c, w)
		a.state.mu.Lock()
		a.state.refreshLocked(a)
		a.state.mu.Unlock()
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 10)
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 2").grantsPlain(20)
	})
}

// A ticket whose first call was not answered may be stored: a plain script would decline it.
func TestRepeatIsNotPlain(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		learnsPlain(c, w)
		asks(c, "a", 1, CallOptions{})
		w.carries("plain_acquire a: 2").breaks()
		var sent []string // the holder is renewed, too, in the same batch or in one before it
		for !slices.ContainsFunc(sent, func(call string) bool { return strings.HasSuffix(call, "acquire a: 2") }) {
			time.Sleep(lastRetry)
			if f := w.next(); f != nil {
				sent = append(sent, f.contents()...)
			}
		}
		assert.Contains(t, sent, "acquire a: 2")
	})
}

// Whatever made a plain script fail, the full one repairs it.
func TestAfterAnErrorOfAPlainScriptCallsAreFull(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		a := learnsPlain(c, w)
		asks(c, "a", 1, CallOptions{})
		f := w.carries("plain_acquire a: 2")
		assert.Equal(t, protocol.PlainWithoutQueue, a.state.fastPath.kind())
		f.cmds[0].SetErr(testclient.Reply("ERR user_script:1: broken"))
		f.end <- f.cmds[0].Err()
		synctest.Wait()
		assert.Equal(t, protocol.NotPlain, a.state.fastPath.kind())
	})
}

// The answer to a renewal must not wait for the second round trip of another call, which may never be answered.
func TestAnswerThatIsThereDoesNotWaitForACallThatIsSentAgain(t *testing.T) {
	onWire(t, time.Minute, func(t *testing.T, c *Client, w *wire) {
		learnsPlain(c, w)
		asks(c, "x", 1, CallOptions{})
		first := w.carries("acquire x: 2")
		asks(c, "y", 1, CallOptions{})
		second := w.carries("acquire y: 3")
		b, other := asks(c, "a", 1, CallOptions{})[0], asks(c, "b", 1, CallOptions{})[0]
		first.grantAll(10)
		f := w.carries("plain_acquire a: 4", "acquire b: 5")
		f.cmds[0].(protocol.Numbers).SetVal([]int64{0})
		f.grant(1, 30, 1)
		f.end <- nil
		again := w.carries("acquire a: 4")
		assert.Equal(t, int64(30), other.tokenNow())
		assert.Zero(t, b.tokenNow())
		again.grantAll(20)
		synctest.Wait()
		assert.Equal(t, int64(20), b.tokenNow())
		second.grantAll(40)
	})
}
