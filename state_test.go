package fairsem

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// How a client handles replies in an unexpected order, or with unexpected contents.

// answers ends a pipeline of one script call, not for a rate limit.
func (f *flight) answers(reply ...int64) { f.answersInForce(0, reply...) }

// answersInForce is answers to the release of a permit that is missing, with the limit in force.
func (f *flight) answersInForce(limit int64, reply ...int64) {
	f.cmds[0].(protocol.Numbers).SetVal(slices.Insert(reply, 4, limit, 0, 0, 0))
	f.end <- nil
	synctest.Wait()
}

// breaks loses the reply to a pipeline of one script call.
func (f *flight) breaks() {
	f.cmds[0].SetErr(io.EOF)
	f.end <- io.EOF
	synctest.Wait()
}

// knows returns whether the i-th refresh says that its client knows the tokens.
func (f *flight) knows(i int) any { return f.argument(i, "knows_tokens") }

// knownServers returns the servers that the i-th call lists as known.
func (f *flight) knownServers(i int) any { return f.argument(i, "knows") }

// argument returns an argument of the i-th call by its name in the script.
func (f *flight) argument(i int, name string) any {
	return scriptOf(f.cmds[i]).Argument(f.cmds[i].Args(), name)
}

// by makes the replies come from a server.
func (f *flight) by(server int64) *flight {
	for i := range f.cmds {
		reply := f.cmds[i].(protocol.Numbers).Val()
		reply[protocol.Head-3] = server
	}
	return f
}

// Guards against a grace period for every new name after a broken connection: a server that did not change has lost nothing.
func TestCallListsTheServersThatTheClientHasKnownForAGracePeriod(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		call := func(name string, server int64) any {
			asks(c, name, 1, CallOptions{})
			f := w.next()
			listed := f.knownServers(0)
			f.grant(0, 10, 1)
			f.by(server).end <- nil
			w.isIdle()
			return listed
		}
		assert.Equal(t, "", call("a", 0xabc), "it knows no server")
		assert.Equal(t, "000000000abc?", call("b", 0xabc), "it has known the server for less than a grace period")
		assert.Equal(t, protocol.UsedBefore, call("a", 0xabc), "it has used the name before")
		time.Sleep(defaultGrace + time.Millisecond)
		assert.Equal(t, "000000000abc!", call("c", 0xdef))
		assert.Equal(t, "000000000abc!,000000000def?", call("d", 0xdef), "the other may have replaced it a moment ago")
		time.Sleep(defaultGrace + time.Millisecond)
		assert.Equal(t, "000000000abc!,000000000def!", call("e", 0xdef))
	})
}

// Guards against a grant in a restored file that its waiter never received. The waiter has waited since, so the units may have been
// granted again. A grant that is newer than its last wait is valid.
func TestWaiterDoesNotTrustAnOldGrantInARestoredFile(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").answers(1, -1, 0, 10, int64(protocol.Waiting), 5)
		c.verifyAll()
		w.carries("refresh a: 1").answers(1, -1, 0, 100, int64(protocol.Waiting), 5)
		c.verifyAll()
		w.carries("refresh a: 1").answers(1, -1, 0, 200, int64(protocol.Held), 50)
		assert.Zero(t, a.tokenNow())
		f := w.carries("restore a: 1")
		assert.Equal(t, []any{0, int64(200), int64(200), int64(0), 0, false, a.id, int64(5), int64(1)}, f.cmds[0].Args()[10+len(protocol.Kinds):])
		f.answers(1, -1, 0, 200, int64(protocol.Waiting), 5)
		c.verifyAll()
		w.carries("refresh a: 1").answers(1, -1, 0, 300, int64(protocol.Held), 250)
		assert.Equal(t, int64(250), a.tokenNow())
	})
}

// Guards against trust in a permit that a new epoch has with the lease of an old file: a reduce does not renew it.
func TestReduceDoesNotConfirmAPermitInANewEpoch(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a, err := c.ask(background, &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}}, 3, true, time.Now())
		require.NoError(t, err)
		w.carries("acquire a: 1").grantAll(10)
		w.isIdle()
		a.state.reduce(a, 1)
		w.carries("reduce a: 1").answers(1, -1, 0, 2, int64(protocol.Held), 10)
		w.carries("restore a: 1").answers(1, -1, 0, 2, int64(protocol.Held), 10)
		w.carries("reduce a: 1").answers(1, -1, 0, 2, int64(protocol.Held), 10) // an old file may store a larger weight
		w.isIdle()
	})
}

// Guards against a verification that never happens: a call that failed for good had left its backoff behind.
func TestVerifyingGoesOnAfterACallThatFailedForGood(t *testing.T) {
	onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 1").grantAll(10)
		b := asks(c, "a", 1, CallOptions{})[0]
		f := w.carries("acquire a: 2")
		f.cmds[0].SetErr(testclient.Reply("FAIRSEMKIND the name is that of a semaphore"))
		f.end <- f.cmds[0].Err()
		<-b.done
		time.Sleep(time.Minute)
		w.isIdle()
		c.verifyAll()
		time.Sleep(lastRetry)
		w.carries("refresh a: 1")
	})
}

// Guards against a waiter that is restored as a holder because it received a grant that was then lost.
func TestWaiterWhoseGrantWasLostIsRestoredAsAWaiter(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{NoRefresh: true})
		w.carries("acquire a: 1").answers(1, -1, 0, 10, int64(protocol.Waiting), 5)
		c.woken("a", 10, []protocol.Grant{grantAt(1, 5, 50)}) // the client confirms it first, because its lease begins with the answer
		w.carries("refresh a: 1").answers(1, -1, 0, 100, int64(protocol.Waiting), 5)
		c.verifyAll()
		w.carries("refresh a: 1").answers(1, -1, 0, 200, int64(protocol.Gone), 0)
		f := w.carries("restore a: 1")
		assert.Equal(t, []any{0, int64(200)}, []any{f.argument(0, "holder_count"), f.argument(0, "missed_in")}, "no holder is restored")
	})
}

// A query of each name first took twice as long: with thousands of them the grace period ended meanwhile.
func TestOnceAnotherServerHasAnsweredOtherNamesAreRestoredWithoutAQuery(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		for _, name := range []string{"a", "b", "c"} {
			asks(c, name, 1, CallOptions{})
			f := w.next()
			f.grant(0, 10, 1)
			f.by(1).end <- nil
			w.isIdle()
		}
		answer := func(what string, server, epoch int64, state protocol.State, number int64) *flight {
			c.verify(strings.Fields(what)[1][:1])
			f := w.carries(what)
			f.cmds[0].(protocol.Numbers).SetVal([]int64{1, -1, 0, epoch, 0, 0, 0, 0, int64(state), number})
			f.by(server).end <- nil
			synctest.Wait()
			return f
		}
		answer("refresh a: 1", 1, 10, protocol.Held, 10)
		answer("refresh a: 1", 2, 20, protocol.Gone, 0)
		w.carries("restore a: 1").answers(1, -1, 0, 20, int64(protocol.Held), 10)
		f := answer("restore b: 2", 2, 21, protocol.Held, 10)
		assert.Equal(t, []any{int64(1), int64(1)}, []any{f.argument(0, "missed_in"), f.argument(0, "confirmed_in")}, "the new epoch is not known")
		answer("refresh b: 2", 2, 21, protocol.Held, 10)

		c.verify("c")
		f = w.carries("restore c: 3")
		f.cmds[0].SetErr(testclient.Reply("OOM command not allowed when used memory > 'maxmemory'."))
		f.end <- f.cmds[0].Err()
		time.Sleep(lastRetry)
		f = w.carries("refresh c: 3") // a full server renews what it has
		f.cmds[0].(protocol.Numbers).SetVal([]int64{1, -1, 0, 22, 0, 0, 0, 0, int64(protocol.Held), 0})
		f.by(2).end <- nil
		w.isIdle()
	})
}

// The queries of a name with many tickets are queued together.
func TestQueriesThatWaitToBeSentBecomeRestoresInANewEpoch(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 2, CallOptions{})
		w.carries("acquire a: 1 2").grantAll(10)
		w.isIdle()
		v := c.stateInUse("a")
		v.mu.Lock()
		v.noteEpochLocked(20, time.Now().Add(time.Millisecond))
		v.mu.Unlock()
		f := w.next()
		require.NotNil(t, f)
		require.Contains(t, [][]string{{"restore a: 1 2"}, {"restore a: 2 1"}}, f.contents())
		assert.Equal(t, []any{int64(20), f.argument(0, "confirmed_in")}, []any{f.argument(0, "missed_in"), int64(1)})
	})
}

// Guards against a permit that continues although its restore failed, without a notification to its holder.
func TestPermitWhoseRestoreIsRefusedEndsWithItsLease(t *testing.T) {
	onWire(t, 10*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		synctest.Wait()
		ctx := a.permit().Context()
		c.verifyAll()
		w.carries("refresh a: 1").answers(1, -1, 0, 100, int64(protocol.Gone), 0)
		f := w.carries("restore a: 1")
		for range 12 * time.Second / lastRetry { // the holder does not check its context, which would detect the loss
			if f != nil {
				f.cmds[0].SetErr(testclient.Reply("NOPERM this user has no permissions"))
				f.end <- f.cmds[0].Err()
			}
			time.Sleep(lastRetry)
			f = w.next()
		}
		select {
		case <-ctx.Done():
			assert.ErrorIs(t, context.Cause(ctx), ErrLost)
		default:
			t.Error("the holder was not notified")
		}
	})
}

// Two batches are in flight at once, so the reply to the earlier call can come later.
func TestLateReplyDoesNotRestoreAnOldEpoch(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		asks(c, "a", 1, CallOptions{})
		early := w.carries("acquire a: 2")
		time.Sleep(time.Millisecond)
		c.verifyAll()
		w.carries("refresh a: 1").answers(1, -1, 0, 100, int64(protocol.Held), 0)
		early.answers(1, -1, 0, 1, int64(protocol.Waiting), 20)
		a.state.mu.Lock()
		defer a.state.mu.Unlock()
		assert.Equal(t, int64(100), a.state.epoch)
	})
}

// The message of its grant may be among those that were lost.
func TestWaiterWhoseAcquireWasInFlightDuringAGapIsQueriedAtOnce(t *testing.T) {
	onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		f := w.carries("acquire a: 1")
		c.gap()
		f.answers(1, -1, 0, 1, int64(protocol.Waiting), 50)
		w.carries("refresh a: 1")
	})
}

// The earlier call may have seen a lease end soon that was renewed before the later one.
func TestNextPollComesWhenTheReplyToTheLaterCallSays(t *testing.T) {
	onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		early := w.carries("acquire a: 1")
		time.Sleep(time.Millisecond)
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 2").answers(1, time.Minute.Milliseconds(), 0, 1, int64(protocol.Waiting), 60)
		early.answers(1, time.Second.Milliseconds(), 0, 1, int64(protocol.Waiting), 50)
		time.Sleep(2 * time.Second)
		w.isIdle()
		time.Sleep(time.Minute)
		w.carries("refresh a:")
	})
}

func TestSmallestGracePeriodCausesNoBusyLoop(t *testing.T) {
	onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
		c.grace = 1
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 1").grantAll(10)
		w.isIdle()
		c.hub.(*stillHub).blind.Store(true)
		c.verifyAll()
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		w.isIdle()
		time.Sleep(firstRetry)
		w.carries("refresh a: 1")
	})
}

// A script that hangs also makes Redis refuse subscriptions, and the server may be killed next. So that error must not count as lasting.
func TestOnlyAMissingRightIsForbidden(t *testing.T) {
	t.Parallel()
	for err, lasting := range map[error]bool{testclient.Reply("BUSY Redis is busy running a script"): false, testclient.Reply("LOADING Redis is loading the dataset in memory"): false, io.EOF: false, testclient.Reply("NOPERM"): true} {
		assert.Equal(t, lasting, failure.Forbidden(err), "%v", err)
	}
}

func TestNumberOfRememberedServersIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &servers{knownFor: time.Millisecond, firstSeen: make(map[int64]time.Time)}
		for server := range int64(2 * maxServers) {
			s.add(1 + server)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Millisecond)
		known := strings.Split(s.known(), ",")
		assert.Len(t, known, maxServers)
		assert.Contains(t, known, "000000000080!", "the latest server")
	})
}

// Guards against a restart that a holder does not notice because it has no subscription.
func TestClientWithoutASubscriptionPollsWithinTheGracePeriod(t *testing.T) {
	onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 1").grantAll(10)
		time.Sleep(time.Minute)
		w.isIdle()
		c.hub.(*stillHub).blind.Store(true)
		c.verifyAll()
		for range 3 {
			w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
			w.isIdle()
			time.Sleep(defaultGrace/3 + time.Millisecond)
		}
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		c.hub.(*stillHub).blind.Store(false)
		time.Sleep(time.Minute)
		w.isIdle()
	})
}

// The queries right after a connection broke often fail once.
func TestClientWithoutASubscriptionPollsOnAfterAQueryThatFailed(t *testing.T) {
	onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{NoRefresh: true})
		w.carries("acquire a: 1").grantAll(10)
		time.Sleep(time.Second)
		c.hub.(*stillHub).blind.Store(true)
		c.verifyAll()
		w.carries("refresh a: 1").breaks()
		time.Sleep(lastRetry)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		time.Sleep(defaultGrace / 3)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
	})
}

// A holder that never renews has no other reason to ask.
func TestQueryOfAHolderThatAMessageCausedIsRepeatedIfItFails(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{NoRefresh: true})[0]
		w.carries("acquire a: 1").grantAll(10)
		w.isIdle()
		c.woken("a", 1, []protocol.Grant{grantAt(1, 10, 0)}) // evicted
		f := w.carries("refresh a: 1")
		f.cmds[0].SetErr(testclient.Reply("BUSY Redis is busy running a script"))
		f.end <- f.cmds[0].Err()
		time.Sleep(lastRetry)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		assert.ErrorIs(t, context.Cause(a.permit().Context()), ErrEvicted)
	})
}

// Each name has a pipeline of its own there: with one dead node every new name would have all others verified.
func TestConnectionThatBreaksIsADoubtAboutEveryNameOnlyIfItHasWorked(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		c.keyspace.Cluster = true
		for _, name := range []string{"a", "b"} {
			asks(c, name, 1, CallOptions{NoRefresh: true})
			w.next().grantAll(10)
		}
		time.Sleep(time.Second)
		verified := func(name string) (all []string) {
			asks(c, name, 1, CallOptions{})
			for range 2 { // the second time all is answered, or tried again
				for f := w.next(); f != nil; f = w.next() {
					all = append(all, f.contents()...)
					f.breaks()
				}
				time.Sleep(lastRetry)
			}
			return all
		}
		all := verified("new")
		assert.Contains(t, all, "acquire new: 3")
		assert.NotContains(t, all, "refresh a: 1")
		all = verified("a")
		assert.Contains(t, all, "refresh a: 1")
		assert.Contains(t, all, "refresh b: 2")
	})
}

// After a planned failover the old server lives on for a while, and with it the subscription there, to which nobody sends messages.
func TestServerThatAnswersAfterAnotherIsSubscribedTo(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		h := c.hub.(*stillHub)
		answers := func(server int64) {
			asks(c, "a", 1, CallOptions{})
			f := w.next()
			f.grant(0, 10, 1)
			f.by(server).end <- nil
			w.isIdle()
		}
		for _, by := range []struct{ server, subscriptions int64 }{{1, 0}, {1, 0}, {2, 1}, {2, 1}, {1, 1}, {3, 2}} {
			answers(by.server)
			assert.Equal(t, by.subscriptions, h.resubscribed.Load(), "%+v", by)
		}
		c.gap()    // the subscription broke, too, and is there again
		answers(0) // as a plain script does, on whatever server
		answers(4)
		assert.Equal(t, int64(2), h.resubscribed.Load(), "it is to the new one already")
		c.gap()
		w.isIdle()
		time.Sleep(freshSubscription)
		answers(5)
		assert.Equal(t, int64(3), h.resubscribed.Load(), "no server has answered since it was established, so it may be to any")
		for server := range int64(maxServers) {
			time.Sleep(2 * time.Second)
			answers(6 + server)
		}
		assert.Equal(t, int64(3+maxServers), h.resubscribed.Load(), "in a long life there are many")
		for server := range int64(3 * maxServers) {
			answers(100 + server%(maxServers+1))
		}
		assert.LessOrEqual(t, h.resubscribed.Load(), int64(3+2*maxServers), "but so many at once are behind a proxy")
	})
}

// A permit was held, or a position kept, for a TTL that no call knew of.
func TestReleaseOfACallThatGaveUpIsSentAgainIfItIsRefused(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]protocol.State{"holder": protocol.Held, "waiter": protocol.Waiting} {
		t.Run(name, func(t *testing.T) {
			onWire(t, 30*time.Second, func(t *testing.T, c *Client, w *wire) {
				a := asks(c, "a", 1, CallOptions{})[0]
				f := w.carries("acquire a: 1")
				assert.ErrorContains(t, a.state.leaveUngranted(a), "no answer")
				f.answers(1, -1, 0, 1, int64(state), 10)
				f = w.carries("release a: 1")
				f.cmds[0].SetErr(testclient.Reply("READONLY You can't write against a read only replica."))
				f.end <- f.cmds[0].Err()
				time.Sleep(lastRetry)
				w.carries("release a: 1").answers(1, -1, 0, 1, int64(state), 0)
				w.isIdle()
				assert.True(t, a.isReleased())
			})
		})
	}
}

// If the token needed another query, a permit could end between the two replies.
func TestRefreshReturnsTheTokenOfAGrantedWaiter(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 50)
		time.Sleep(time.Second + time.Millisecond)
		f := w.carries("refresh a: 1")
		assert.Equal(t, false, f.knows(0))
		f.answers(1, -1, 0, 1, int64(protocol.Held), 60)
		assert.Equal(t, int64(60), a.tokenNow())
		time.Sleep(time.Second + time.Millisecond)
		f = w.carries("refresh a: 1")
		assert.Equal(t, true, f.knows(0), "it holds")
		f.answers(1, -1, 0, 1, int64(protocol.Held), 0)
		assert.Equal(t, int64(60), a.permit().Token())
		assert.NoError(t, a.permit().Context().Err())
	})
}

func TestRefreshOfHoldersAndWaitersRequestsTokens(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		w.atOnce(c, func() { asks(c, "a", 2, CallOptions{}) }, "acquire a: 3 4").
			answers(1, -1, 0, 1, int64(protocol.Held), 40, int64(protocol.Waiting), 50)
		time.Sleep(time.Second + time.Millisecond)
		refreshes := 0 // in one pipeline or in two
		for f := w.next(); f != nil; f = w.next() {
			for i, content := range f.contents() {
				assert.Equal(t, strings.HasPrefix(content, "refresh busy"), f.knows(i), "%s: whether all its tickets hold", content)
				refreshes++
			}
		}
		assert.Equal(t, 2, refreshes)
	})
}

func TestReleaseOfALostPermitReportsTheLossHoweverItIsDetected(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		synctest.Wait()
		time.Sleep(time.Second + time.Millisecond)
		f := w.carries("refresh a: 1")
		released := make(chan error, 1)
		go func() { released <- a.permit().Release(background) }() // ends with the reply
		synctest.Wait()
		f.answers(1, -1, 0, 1, int64(protocol.Gone), 0)
		require.ErrorIs(t, <-released, ErrLost)
	})
}

// An applied release with a tombstone leaves behind what an eviction does.
func TestReleaseThatMayHaveBeenAppliedBeforeReportsNoEviction(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		<-a.done
		a.state.leave(a)
		w.carries("release a: 1").breaks()
		time.Sleep(lastRetry)
		w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Evicted), 0)
		<-a.released
		assert.NoError(t, a.releaseErr)
	})
}

// Redis may have refused the call because of the acquire, and part of the call may have been executed.
func TestReleaseIsRetriedAloneWhenTheAcquireThatCarriedItIsRefused(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		held, asked, f := w.exchanges(c)
		f.cmds[0].SetErr(testclient.Reply("WRONGTYPE of the counter"))
		f.end <- f.cmds[0].Err()
		<-asked.done
		assert.ErrorContains(t, asked.err, "WRONGTYPE")
		time.Sleep(lastRetry)
		w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Gone), 0)
		<-held.released
		assert.NoError(t, held.releaseErr, "the refused call may have released it")
		w.isIdle()
	})
}

// lease returns the lease that the i-th call grants or renews. For a release it is that of the tombstone, which refuses late copies of
// earlier operations.
func (f *flight) lease(i int) time.Duration {
	return time.Duration(f.argument(i, "lease").(int64)) * time.Millisecond
}

func TestReleaseLeavesATombstoneWhileACopyMayBeInFlight(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(c *Client, w *wire) *ticket{
		"canceled, then refused": func(c *Client, w *wire) *ticket {
			a := asks(c, "a", 1, CallOptions{})[0]
			w.carries("acquire a: 1").breaks()
			time.Sleep(lastRetry)
			f := w.carries("acquire a: 1")
			a.state.leave(a)
			f.answers(1, -1, 0, 1, int64(protocol.Refused), 0)
			return a
		},
		"lost": func(c *Client, w *wire) *ticket {
			a := asks(c, "a", 1, CallOptions{})[0]
			w.carries("acquire a: 1").grantAll(10)
			time.Sleep(time.Second + time.Millisecond)
			w.carries("refresh a: 1").breaks()
			time.Sleep(lastRetry)
			w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Gone), 0)
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
				a := last(c, w)
				f := w.carries("release a: 1")
				assert.Equal(t, []any{3 * time.Second, name == "lost"}, []any{f.lease(0), f.argument(0, "overdue")})
				f.answers(1, -1, 0, 1, int64(protocol.Gone), 0)
				<-a.released
			})
		})
	}
}

// A program that can read the queue can forge a message with the true position; the next renewal detects it.
func TestGrantThatRedisDoesNotConfirmEndsWithTheNextRenewal(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 50)
		c.woken("a", 1, []protocol.Grant{grantAt(a.seq, 50, 60)})
		<-a.done
		require.NoError(t, a.permit().Context().Err())
		time.Sleep(time.Second + time.Millisecond)
		w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 50)
		assert.ErrorIs(t, context.Cause(a.permit().Context()), ErrLost)
		w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 0)
		<-a.released
	})
}

// S11: a grant by a call about other tickets may be on no replica yet.
func TestGrantByMessageWaitsForReplicasToo(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		c.replicas, c.shared.Replicas = 1, 1
		acked := func(what string, replicas int64, reply ...int64) {
			f := w.carries(what, "wait")
			f.cmds[1].(interface{ SetVal(n int64) }).SetVal(replicas)
			f.answers(reply...)
		}
		a := asks(c, "a", 1, CallOptions{})[0]
		acked("acquire a: 1", 1, 1, -1, 0, 1, int64(protocol.Waiting), 50)
		c.woken("a", 1, []protocol.Grant{grantAt(a.seq, 50, 60)})
		synctest.Wait()
		acked("refresh a: 1", 0, 1, -1, 0, 1, int64(protocol.Held), 60)
		assert.False(t, a.isDone(), "no replica has it")
		time.Sleep(lastRetry)
		acked("refresh a: 1", 1, 1, -1, 0, 1, int64(protocol.Held), 60)
		<-a.done
		assert.NoError(t, a.err)
		assert.Equal(t, int64(60), a.permit().Token())
	})
}

func TestForgottenDeclarationIsNotLearnedWithoutItsAge(t *testing.T) {
	t.Parallel()
	d := declarations{began: time.Now()}
	d.learn("a", protocol.LimitSpec{Limit: 5}, 0)
	d.learn("a", protocol.LimitSpec{Limit: 6}, 1234)
	for _, limit := range []int64{5, 6} {
		declared := d.declare("a", protocol.LimitSpec{Limit: limit})
		assert.True(t, declared.Since == 0 && time.Since(declared.First) < time.Minute, "limit %d: %+v", limit, declared)
	}
}

func TestCloseWithoutRedisReportsThatNothingWasReleased(t *testing.T) {
	t.Parallel()
	direct := testclient.Settled(t)
	rdb := redis.NewClient(&redis.Options{Addr: direct.Options().Addr})
	c, err := New(rdb, Options{Prefix: "fairsem-test-" + uuid.NewString()})
	require.NoError(t, err)
	s, err := c.Semaphore("name", 1)
	require.NoError(t, err)
	_, err = s.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, rdb.Close())
	err = c.Close()
	require.ErrorIs(t, err, ErrUnavailable)
	assert.ErrorIs(t, err, redis.ErrClosed)
	keys := c.keyspace.Keys("name")
	assert.Equal(t, int64(1), direct.ZCard(t.Context(), keys[0]).Val())
	assert.NoError(t, direct.Del(t.Context(), keys[:]...).Err())
}

// verifiesUnrenewed returns a permit that is never renewed, and has waited. A second later a broken connection makes the client verify it.
func (w *wire) verifiesUnrenewed(c *Client) *Permit {
	w.t.Helper()
	a := asks(c, "a", 1, CallOptions{NoRefresh: true})[0]
	w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 5)
	c.woken("a", 1, []protocol.Grant{{Seq: 1, Position: 5, Token: 10}})
	w.carries("refresh a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 10)
	time.Sleep(time.Second)
	c.verifyAll()
	return a.permit()
}

// restoresUnrenewed is verifiesUnrenewed with the restore of the permit, which is in a state in a new epoch.
func (w *wire) restoresUnrenewed(c *Client, state protocol.State) (*Permit, *flight) {
	w.t.Helper()
	p := w.verifiesUnrenewed(c)
	w.carries("refresh a: 1").answers(1, -1, 0, 2, int64(state), 10)
	return p, w.carries("restore a: 1")
}

// A nameState that has no tickets to renew still verifies its permits.
func TestPermitThatIsNeverRenewedIsRestoredForTheRestOfItsLease(t *testing.T) {
	t.Parallel()
	for _, state := range []protocol.State{protocol.Gone, protocol.Waiting} {
		t.Run(stateNames[state], func(t *testing.T) {
			onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
				p, f := w.restoresUnrenewed(c, state)
				assert.Equal(t, 2010*time.Millisecond, f.lease(0))
				f.answers(1, -1, 0, 2, int64(protocol.Held), 10)
				require.NoError(t, p.Context().Err())
				w.isIdle()
			})
		})
	}
}

// An old file has it with the deadline of a waiter. Calls of many such permits are shared, so the rest is rounded up.
func TestPermitThatIsNeverRenewedIsStoredForTheRestOfItsLeaseWhenItIsVerified(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		p := w.verifiesUnrenewed(c)
		f := w.carries("refresh a: 1")
		assert.Equal(t, 2010*time.Millisecond, f.lease(0))
		f.answers(1, -1, 0, 2, int64(protocol.Held), 10)
		w.isIdle()
		time.Sleep(1700 * time.Millisecond) // nine tenths of the TTL, from the grant on
		assert.ErrorIs(t, context.Cause(p.Context()), ErrLost)
	})
}

func TestRestoreDoesNotExtendAPermitThatIsNeverRenewed(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		p, f := w.restoresUnrenewed(c, protocol.Gone)
		f.answers(1, -1, 0, 2, int64(protocol.Held), 10)
		require.NoError(t, p.Context().Err())
		time.Sleep(1700 * time.Millisecond) // nine tenths of the TTL, from the grant on
		assert.ErrorIs(t, context.Cause(p.Context()), ErrLost)
	})
}

// Guards against a waiter that rejects its grant because it received the same grant before, too late to use it. The waiters behind it
// are granted already.
func TestGrantThatCameTooLateIsTrustedAfterAnotherQuery(t *testing.T) {
	onWire(t, minTTL, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").answers(1, -1, 0, 10, int64(protocol.Waiting), 5)
		c.verifyAll()
		f := w.carries("refresh a: 1")
		time.Sleep(9 * minTTL / 10)
		f.answers(1, -1, 0, 100, int64(protocol.Held), 50)
		assert.Zero(t, a.tokenNow(), "its lease is nearly over")
		w.carries("refresh a: 1").answers(1, -1, 0, 100, int64(protocol.Held), 50)
		assert.Equal(t, int64(50), a.tokenNow())
	})
}

// Guards against the restore of an evicted waiter: the reply shows the state of a TTL ago, and tombstones last no longer than that.
func TestLateReplyAboutAGrantInAnOldFileCausesAnotherQuery(t *testing.T) {
	onWire(t, minTTL, func(_ *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 1").answers(1, -1, 0, 10, int64(protocol.Waiting), 5)
		c.verifyAll()
		w.carries("refresh a: 1").answers(1, -1, 0, 100, int64(protocol.Waiting), 5)
		c.verifyAll()
		late := w.carries("refresh a: 1")
		time.Sleep(minTTL * 95 / 100)
		late.answers(1, -1, 0, 200, int64(protocol.Held), 50)
		w.carries("refresh a: 1").answers(1, -1, 0, 200, int64(protocol.Held), 50)
		w.carries("restore a: 1")
	})
}

// countingHub counts the calls of Watch.
type countingHub struct {
	stillHub
	watched int
}

func (h *countingHub) Watch(string) { h.watched++ }

// A primary that took over may die at once, too. At its first answer go-redis may still know the old one.
func TestServerIsWatchedOnceASecondAndWithEachAnswerAfterItChanged(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		h := &countingHub{}
		c.hub, c.keyspace.Cluster = h, true
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 1").grantAll(10)
		w.isIdle()
		answer := func(epoch int64) {
			c.verifyAll()
			for f := w.next(); f != nil; f = w.next() {
				f.answers(1, -1, 0, epoch, int64(protocol.Held), 10)
			}
		}
		time.Sleep(time.Second)
		answer(1)
		assert.Equal(t, 2, h.watched)
		answer(1)
		assert.Equal(t, 2, h.watched, "less than a second after that")
		time.Sleep(100 * time.Millisecond)
		answer(2)
		assert.Greater(t, h.watched, 2, "another server has answered")
		before := h.watched
		answer(2)
		assert.Greater(t, h.watched, before)
		time.Sleep(time.Second)
		answer(2)
		before = h.watched
		answer(2)
		assert.Equal(t, before, h.watched)
	})
}
