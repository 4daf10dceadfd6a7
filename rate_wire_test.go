package fairsem

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// How a client handles replies about a rate limit.

// asksRate opens tickets on a name with a rate limit of 5.
func asksRate(c *Client, name string, n int, per time.Duration) []*ticket {
	return asksOf(&Semaphore{Inspector: &Inspector{client: c, name: name, spec: protocol.LimitSpec{Limit: 5, Window: per}}}, n)
}

// The released unit may have been granted again: the caller must not rely on it.
func TestGrantOfARateThatWasReleasedMeanwhileDoesNotCount(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asksRate(c, "a", 1, time.Minute)[0]
		w.carries("acquire a: 1").grantAll(10)
		<-a.done
		a.state.leave(a) // as Close does
		w.carries("release a: 1").grantAll(0)
		<-a.released
		require.NoError(t, a.hold.ended(), "only await reports it")
		require.ErrorIs(t, a.await(background, time.Time{}), errPositionLost)
	})
}

// Redis that stands still may execute the acquire when it goes on, and the grant would count for the window.
func TestAcquireOfARateWithoutAnAnswerIsReleasedForAsLongAsItsGrantWouldCount(t *testing.T) {
	t.Parallel()
	for what, per := range map[string]time.Duration{"the window": time.Second, "a minute": 24 * time.Hour} {
		t.Run(what, func(t *testing.T) {
			const ttl = 3 * time.Second
			onWire(t, ttl, func(t *testing.T, c *Client, w *wire) {
				a := asksRate(c, "a", 1, per)[0]
				f := w.carries("acquire a: 1")
				a.state.leave(a)
				began, most := time.Now(), ttl+min(per, longestDoubt)
				for time.Since(began) < most-lastRetry {
					f.breaks()
					time.Sleep(lastRetry)
					f = w.carries("release a: 1")
				}
				<-a.released
				require.ErrorIs(t, a.releaseErr, ErrUnavailable)
				assert.Equal(t, most, time.Since(began))
			})
		})
	}
}

func TestGrantOfARateIsRemovedAndNeverReleased(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asksRate(c, "a", 1, time.Minute)[0]
		w.carries("acquire a: 1").grantAll(10)
		require.NoError(t, a.await(background, time.Time{}))
		<-a.released
		time.Sleep(maxTTL)
		w.isIdle()
	})
}

// declares returns the limit that the i-th call declares.
func (f *flight) declares(i int) any { return f.argument(i, "spec") }

// One call of the wrong kind must not take permits or positions from other calls.
func TestCallOfTheOtherKindDoesNotAffectTheTicketsOfAName(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 10)
		mistake := asksRate(c, "a", 1, time.Minute)[0]
		f := w.carries("acquire a: 2")
		f.cmds[0].SetErr(testclient.Reply("FAIRSEMKIND the name is that of a semaphore"))
		f.end <- f.cmds[0].Err()
		require.ErrorContains(t, mistake.await(background, time.Time{}), "FAIRSEMKIND")
		time.Sleep(time.Second + time.Millisecond)
		f = w.carries("refresh a: 1")
		assert.Equal(t, int64(5), f.declares(0), "its own handle declares this limit")
		f.answers(1, -1, 0, 1, int64(protocol.Held), 0)
		a.state.leave(a)
		f = w.carries("release a: 1")
		assert.Equal(t, int64(5), f.declares(0))
		f.answers(1, -1, 0, 1, int64(protocol.Held), 0)
		<-a.released
	})
}

// Where no message arrives, a grant may be over before its process polls, and that of the next waiter, too: none of them waits in Redis, so
// no turn is forecast.
func TestWaitersOfARateWhoseGrantsAreOverAreFoundOneAfterTheOther(t *testing.T) {
	onWire(t, maxTTL, func(t *testing.T, c *Client, w *wire) {
		all := asksRate(c, "a", 3, 100*time.Millisecond)
		gone, waiting := int64(protocol.Gone), int64(protocol.Waiting)
		w.carries("acquire a: 1 2 3").answers(1, 100, 0, 1, waiting, 50, waiting, 51, waiting, 52)
		time.Sleep(100 * time.Millisecond)
		for i, query := range []string{"refresh a: 1", "refresh a: 2", "refresh a: 3"} {
			w.carries(query).answers(1, -1, 0, 1, gone, 0)
			<-all[i].done
			require.ErrorIs(t, all[i].err, errPositionLost)
		}
		w.isIdle()
	})
}

// A waiter polls when its turn comes, however long the window is. It does not wait much longer, because a change may come earlier.
func TestWaiterOfARatePollsWhenItsTurnComes(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ per, next, want time.Duration }{
		"soon, of an hour":          {time.Hour, 50 * time.Millisecond, 50 * time.Millisecond},
		"at once, of a month":       {maxWindow, 0, 5 * time.Millisecond},
		"in a while, of an hour":    {time.Hour, 20 * time.Minute, 20 * time.Minute},
		"in weeks, of a minute":     {time.Minute, 1000 * time.Hour, time.Minute},
		"in an hour, of an instant": {time.Millisecond, time.Hour, time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			onWire(t, maxTTL, func(_ *testing.T, client *Client, w *wire) {
				asksRate(client, "a", 1, c.per)
				w.carries("acquire a: 1").answers(1, c.next.Milliseconds(), 0, 1, int64(protocol.Waiting), 50)
				time.Sleep(c.want - time.Millisecond)
				w.isIdle()
				time.Sleep(time.Millisecond)
				w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 60)
			})
		})
	}
}
