package fairsem

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
)

// The callers that answers and messages wake, as reported to the pipeline. internal/pipeline tests its reaction.

// answers makes a request for tickets and answers it. It returns how many callers this wakes.
func answers(t *testing.T, k requestKey, tickets []*ticket, numbers ...int64) int {
	t.Helper()
	r := &request{state: tickets[0].state}
	r.add(k, tickets)
	now := tickets[0].state.host.clock.Now()
	_, _, wanted := r.Prepare(now)
	require.True(t, wanted)
	return r.Done(pipeline.Response{Numbers: append([]int64{1, -1, 0, 1, 0, 0, 0, 0}, numbers...)}, now)
}

func TestAnswerCountsTheCallersThatItWakesOfANameWithAQueue(t *testing.T) {
	t.Parallel()
	const held, waiting, refused = int64(protocol.Held), int64(protocol.Waiting), int64(protocol.Refused)
	for name, test := range map[string]struct {
		acquired []int64 // the answer to the acquire of three
		want     int
	}{
		"all are granted":               {[]int64{held, 10, held, 11, held, 12}, 0},
		"all wait":                      {[]int64{waiting, 10, waiting, 11, waiting, 12}, 0},
		"one waits":                     {[]int64{held, 10, held, 11, waiting, 12}, 2},
		"one waits, others are refused": {[]int64{refused, 0, refused, 0, waiting, 12}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
				all := asks(c, "a", 3, CallOptions{})
				w.next()
				k := requestKey{script: protocol.AcquireScript, spec: all[0].spec, params: all[0].params()}
				assert.Equal(t, test.want, answers(t, k, all, test.acquired...))
			})
		})
	}
}

func TestAnswerToAReleaseCountsThoseWhoReleasedAndThoseItGrants(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		all := asks(c, "a", 4, CallOptions{})
		w.next()
		const held, waiting = int64(protocol.Held), int64(protocol.Waiting)
		k := requestKey{script: protocol.AcquireScript, spec: all[0].spec, params: all[0].params()}
		answers(t, k, all, held, 10, held, 11, waiting, 12, waiting, 13)
		release := requestKey{script: protocol.ReleaseScript, spec: k.spec}
		for _, released := range all[:2] {
			released.busy = true // no call of its own is sent
			released.state.leave(released)
		}
		woken := answers(t, release, all[:2], held, 0, held, 0, all[2].seq, 12, 20, all[3].seq, 13, 21)
		assert.Equal(t, 4, woken, "although none waits any more")
		assert.Equal(t, int64(21), all[3].tokenNow())
	})
}

func TestAnswerCountsThePartsThatItConfirms(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		all := asks(c, "a", 2, CallOptions{})
		w.next()
		k := requestKey{script: protocol.AcquireScript, spec: all[0].spec, params: all[0].params()}
		all[0].weight = 3
		answers(t, k, all, int64(protocol.Held), 10, int64(protocol.Waiting), 11)
		all[0].busy = true
		first, second := all[0].state.reduce(all[0], 1), all[0].state.reduce(all[0], 1)
		reduce := requestKey{script: protocol.ReduceScript, spec: k.spec}
		assert.Equal(t, 2, answers(t, reduce, all[:1], int64(protocol.Held), 0))
		<-first
		<-second
	})
}

// Guards against a script call for each of the waiters whom one message grants their units.
func TestCallersThatAMessageGrantsReleaseInOneCall(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		all := asks(c, "a", 3, CallOptions{})
		reply := make([]int64, 0, 10)
		reply = append(reply, 1, -1, 0, 1)
		for i := range all {
			reply = append(reply, int64(protocol.Waiting), int64(10+i))
		}
		w.carries("acquire a: 1 2 3").answers(reply...)
		yield := make(chan struct{})
		c.shared.Yield = func() { <-yield }
		c.woken("a", 1, []protocol.Grant{{Seq: 1, Position: 10, Token: 20}, {Seq: 2, Position: 11, Token: 21}})
		for _, granted := range all[:2] {
			require.NotZero(t, granted.tokenNow())
			granted.state.leave(granted)
			w.isIdle()
		}
		close(yield)
		w.carries("release a: 1 2").grantAll(0)
	})
}

// Guards against a call for each of two callers that an answer woke.
func TestCallersThatAnAnswerWokeShareACall(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		all := asks(c, "a", 3, CallOptions{})
		f := w.next()
		require.Equal(t, []string{"acquire a: 1 2 3"}, f.contents())
		yield := make(chan struct{})
		c.shared.Yield = func() { <-yield }
		f.answers(1, -1, 0, 1, int64(protocol.Held), 10, int64(protocol.Held), 11, int64(protocol.Waiting), 12)
		for i, granted := range all[:2] {
			granted.state.leave(granted)
			w.isIdle()
			assert.Equal(t, int64(10+i), granted.tokenNow())
		}
		asks(c, "b", 1, CallOptions{})
		w.isIdle()
		close(yield)
		w.carries("release a: 1 2", fmt.Sprintf("acquire b: %d", 4))
		synctest.Wait()
	})
}
