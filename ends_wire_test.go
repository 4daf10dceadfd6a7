package fairsem

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/testclient"
)

// How calls and the code of callers end where time, and the order of requests, are exact.

// Other requests left Redis less than half of the call, but Redis has not said no.
func TestCallThatEndsWithoutAnAnswerSaysSoHoweverLateItWasSent(t *testing.T) {
	t.Parallel()
	limiter := func(c *Client) *Limiter {
		return newLimiter(&Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5, Window: time.Second}}})
	}
	const wait = 90 * time.Millisecond
	o := CallOptions{MaxWait: wait}
	for what, call := range map[string]func(ctx context.Context, c *Client) error{
		"MaxWait of Acquire": func(_ context.Context, c *Client) error { return (<-acquires(background, c, o)).err },
		"MaxWait of Allow": func(_ context.Context, c *Client) error {
			_, err := limiter(c).With(o).Allow(background, 1)
			return err
		},
		"ctx of Acquire": func(ctx context.Context, c *Client) error { return (<-acquires(ctx, c, CallOptions{})).err },
		"ctx of Wait":    func(ctx context.Context, c *Client) error { return limiter(c).Wait(ctx, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
				before, _ := w.backlog(c, 0)
				ended := make(chan error, 1)
				ctx, cancel := context.WithTimeout(background, wait)
				defer cancel()
				go func() { ended <- call(ctx, c) }() // ends with MaxWait or ctx
				w.isIdle()
				time.Sleep(60 * time.Millisecond)
				before.grantAll(1)
				w.carries("acquire a: 3")
				assert.ErrorIs(t, <-ended, ErrUnavailable)
			})
		})
	}
}

// A refused connection fails at once.
func TestReleaseIsTriedAgainWithABackoffHoweverLongRedisHasNotAnswered(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		var tries atomic.Int64
		go func() { // ends with the test
			for {
				select {
				case f := <-w.arrived:
					tries.Add(1)
					f.end <- io.EOF
				case <-w.down:
					return
				}
			}
		}()
		require.ErrorIs(t, (<-acquires(background, c, CallOptions{})).err, ErrUnavailable) // after a TTL; its release goes on for another
		tries.Store(0)
		time.Sleep(2 * time.Second)
		assert.Positive(t, tries.Load())
		assert.LessOrEqual(t, tries.Load(), int64(2*time.Second/(lastRetry/2))+1)
	})
}

// lists starts a List, and returns the channel of its error.
func lists(ctx context.Context, c *Client) <-chan error {
	ended := make(chan error, 1)
	go func() { // ends with the List
		var last error
		for _, err := range c.List(ctx) {
			last = err
		}
		ended <- last
	}()
	return ended
}

// pauses starts a List that has a name, and pauses there until goOn is closed.
func (w *wire) pauses(ctx context.Context, c *Client) (goOn chan struct{}, ended <-chan error) {
	goOn = make(chan struct{})
	paused, end := make(chan struct{}), make(chan error, 1)
	go func() { // ends with the List
		var last error
		for _, err := range c.List(ctx) {
			if last = err; err == nil {
				close(paused)
				<-goOn
			}
		}
		end <- last
	}()
	page := w.carries("time", "scan", "time")
	page.cmds[1].(*redis.ScanCmd).SetVal([]string{c.keyspace.Key("a", protocol.Meta)}, 7)
	page.end <- nil
	<-paused
	return goOn, end
}

// The page that could not be read is there before the context ends.
func TestListSaysThatItsContextHasEndedWhateverHasFailedBefore(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		ctx, cancel := context.WithCancelCause(background)
		goOn, ended := w.pauses(ctx, c)
		w.carries("time", "scan", "time").end <- errors.New("i/o timeout")
		synctest.Wait()
		cancel(io.EOF)
		close(goOn)
		err := <-ended
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, io.EOF)
		require.ErrorIs(t, err, ErrUnavailable)
	})
}

func TestCloseEndsAListThatPauses(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		goOn, ended := w.pauses(background, c)
		w.carries("time", "scan", "time").end <- nil
		synctest.Wait()
		began := time.Now()
		c.goroutines.Close()
		assert.Equal(t, began, time.Now(), "it waited for the List")
		close(goOn)
		require.ErrorIs(t, <-ended, ErrClosed)
	})
}

// go-redis may be waiting for a silent server without end.
func TestListEndsWhenRedisHasNotAnsweredForATTL(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		began, ended := time.Now(), lists(background, c)
		w.carries("time", "scan", "time")
		require.ErrorIs(t, <-ended, ErrUnavailable)
		assert.Equal(t, 3*time.Second, time.Since(began))
	})
}

// A reader of a response whose permit was lost took the io.EOF of Redis's connection for the end of that response.
func TestReasonOfALossIsNotInTheChainOfItsError(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 10)
		<-a.done
		ctx := a.permit().Context()
		for ctx.Err() == nil {
			select {
			case f := <-w.arrived:
				f.end <- io.EOF
			case <-ctx.Done():
			}
		}
		for _, err := range []error{context.Cause(ctx), a.permit().Release(background)} {
			require.ErrorIs(t, err, ErrLost)
			require.NotErrorIs(t, err, io.EOF)
			require.ErrorContains(t, err, "permit lost: no answer in time: EOF")
		}
	})
}

func TestCloseSaysWhyRedisHasNotConfirmedTheReleases(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 10)
		closed := make(chan error, 1)
		go func() { closed <- c.releaseAll(c.everyState()) }()
		for {
			select {
			case f := <-w.arrived:
				f.end <- io.EOF
				continue
			case err := <-closed:
				require.ErrorIs(t, err, ErrUnavailable)
				require.ErrorIs(t, err, io.EOF)
			}
			break
		}
	})
}

// Before the expired entries are removed Redis answers a call with "not yet", and the call asks again.
func TestCallThatRedisHasAnsweredIsNotToldOfSilenceWhileItAsksAgain(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asked := acquires(background, c, CallOptions{MaxWait: 90 * time.Millisecond})
		for began := time.Now(); time.Since(began) < 80*time.Millisecond; { // of the bubble
			w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Early), 0)
			time.Sleep(5 * time.Millisecond) // the pause before it asks again is shorter
		}
		w.carries("acquire a: 1") // which is not answered
		err := (<-asked).err
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NotErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, errNotYet)
	})
}

func TestListOfADoneContextReturnsItsCauseAndSendsNothing(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		ctx, cancel := context.WithCancelCause(background)
		cancel(io.EOF)
		err := <-lists(ctx, c)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, io.EOF)
		require.NotErrorIs(t, err, ErrUnavailable, "nothing was asked")
		w.isIdle()
	})
}

// The context of an errgroup ends with the error of another call.
func TestAllowFailsWithADoneContextWhateverTheCause(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		l, err := c.Limiter("a", 5, time.Second)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(background)
		cancel(ErrNotAcquired)
		_, err = l.Allow(ctx, 1)
		require.ErrorIs(t, err, context.Canceled)
		w.isIdle()
	})
}

// V4: neither the answer nor the release that follows delays it.
func TestAcquireReturnsAtOnceWhenItsContextEnds(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		ctx, cancel := context.WithCancel(background)
		done := acquires(ctx, c, CallOptions{})
		asked, ended := w.carries("acquire a: 1"), time.Now()
		cancel()
		require.ErrorIs(t, (<-done).err, context.Canceled)
		assert.Equal(t, ended, time.Now())
		asked.answers(1, -1, 0, 1, int64(protocol.Waiting), 5)
		w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 0)
	})
}

func TestWeightedWaitsForALimitToGrowUntilMaxWaitAndReportsItOnce(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		reported := recordEvents(c)
		sem, err := c.Weighted("a", 5)
		require.NoError(t, err)
		for _, n := range []int64{6, protocol.MaxUnits + 1} {
			asked, ended := time.Now(), make(chan error, 1)
			go func() { ended <- sem.With(CallOptions{MaxWait: 2500 * time.Millisecond}).Acquire(background, n) }()
			for f := w.next(); time.Since(asked) < 2500*time.Millisecond; f = w.next() {
				if f != nil {
					f.says(0, int64(protocol.TooBig), 0)
				}
				time.Sleep(100 * time.Millisecond)
			}
			err := <-ended
			require.ErrorIs(t, err, ErrNotAcquired)
			require.NotErrorIs(t, err, ErrExceedsLimit)
			assert.Equal(t, 2500*time.Millisecond, time.Since(asked))
		}
		assert.Equal(t, []string{`NotAcquired fairsem: acquire "a": not acquired: MaxWait has passed`}, reported(), "the second call asks nothing")
	})
}

// Of several channels that are ready, select chooses any.
func TestReleaseOfAWeightedThatWasConfirmedIsNotReportedAsUnanswered(t *testing.T) {
	t.Parallel()
	enough, confirmed := make(chan struct{}), make(chan struct{})
	close(enough)
	close(confirmed)
	whole := partialRelease{permit: &Permit{ticket: &ticket{released: confirmed}}}
	part := partialRelease{permit: &Permit{ticket: &ticket{released: make(chan struct{})}}, part: true, taken: confirmed}
	wait := releases{ctx: background, over: enough, began: time.Now()}
	for range 100 {
		for _, p := range []partialRelease{whole, part} {
			require.NoError(t, wait.of(p.permit.ticket, p.taken))
		}
	}
}

// Close ended between the refusal of a release and its report.
func TestCloseReturnsAfterAReleaseThatIsUnderWayHasBeenReported(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		reported := recordEvents(c)
		sem, err := c.Weighted("a", 5)
		require.NoError(t, err)
		go func() { // ends with removeUnanswered
			assert.NoError(t, sem.Acquire(background, 1))
			sem.Release(1)
		}()
		w.carries("acquire a: 1").grantAll(10)
		w.carries("release a: 1")
		for _, v := range c.everyState() {
			v.removeUnanswered() // so the Release ends
		}
		c.events.close()
		assert.Contains(t, reported(), "Unreturned release fairsem: Redis unavailable: no answer from Redis for 5s: no answer in time")
	})
}

// handler is a slog.Handler whose second record is a mistake of its own.
type handler struct {
	slog.Handler
	asked atomic.Int64
}

func (h *handler) Enabled(context.Context, slog.Level) bool {
	if h.asked.Add(1) == 2 {
		panic("a mistake")
	}
	return false
}

// net/http goes on after a panic.
func TestAcquireAllLeavesNothingBehindAfterAPanic(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		c.events = newEvents(nil, slog.New(&handler{}), c.goroutines)
		ended := make(chan any, 1)
		go func() { // ends with the first answer
			defer func() { ended <- recover() }()
			_, _ = AcquireAll(background, requestOf(c, "a", CallOptions{}), requestOf(c, "b", CallOptions{}))
		}()
		w.carries("acquire a: 1").grantAll(10)
		assert.Equal(t, "a mistake", <-ended)
		w.carries("release a: 1").grantAll(0)
	})
}

// FailNow of a test ends the goroutine in which it is called.
func TestEventsGoOnAfterAnObserverHasEndedItsGoroutine(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, _ *wire) {
		var seen atomic.Int64
		c.events = newEvents(func(Event) { seen.Add(1); runtime.Goexit() }, nil, c.goroutines)
		for range 3 {
			c.events.disconnected("channel", "", nil)
		}
		c.events.await()
		c.events.disconnected("channel", "", nil)
		c.events.await()
		assert.Equal(t, int64(4), seen.Load())
		c.goroutines.Close()
		assert.Empty(t, c.goroutines.Hanging())
	})
}

func TestCloseReturnsThoughTheObserverEndsItsGoroutine(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, _ *wire) {
		var seen atomic.Int64
		c.events = newEvents(func(Event) { seen.Add(1); runtime.Goexit() }, nil, c.goroutines)
		c.goroutines.Close()
		for range 3 {
			c.events.disconnected("channel", "", nil) // as for a subscription that Close abandons
		}
		returned := false
		var caller sync.WaitGroup
		caller.Go(func() { c.events.close(); returned = true })
		caller.Wait()
		assert.True(t, returned)
		assert.Equal(t, int64(3), seen.Load())
	})
}

func TestLossesAreReportedAfterOnLostHasEndedItsGoroutine(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		sem, err := c.Weighted("a", 5)
		require.NoError(t, err)
		sem = sem.With(CallOptions{NoRefresh: true, TTL: 3 * time.Second})
		calls := 0
		sem.OnLost(func(int64, error) { calls++; runtime.Goexit() })
		for i := range 2 {
			go func() { _ = sem.Acquire(background, 1) }() // ends with the answer
			w.next().grantAll(int64(10 + i))
			for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if f := w.next(); f != nil {
					f.grantAll(0) // confirms the release of the lost permit
				}
			}
			synctest.Wait()
			assert.Equal(t, i+1, calls)
		}
		c.goroutines.Close()
		assert.Empty(t, c.goroutines.Hanging())
	})
}

// A call with a TTL of its own is renewed less often than the label would have to be.
func TestLabelLivesForThreeOfTheLongestLeasesOfTheCalls(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		lives := func(o CallOptions) (all []any) { // in ms
			asks(c, "a", 1, o)
			for f := w.next(); f != nil; f = w.next() {
				for i, content := range f.contents() {
					if content == "set" {
						all = append(all, f.cmds[i].Args()[4])
					} else {
						f.grant(i, 1, 1)
					}
				}
				f.end <- nil
			}
			return all
		}
		c.labelDue.Store(0)
		c.longest.Store(int64(3 * time.Second))
		assert.Equal(t, []any{int64(9_000)}, lives(CallOptions{}))
		assert.Empty(t, lives(CallOptions{}), "it was just set")
		assert.Equal(t, []any{int64(3 * 3_600_000)}, lives(CallOptions{TTL: time.Hour}))
		assert.Empty(t, lives(CallOptions{}), "it was just set")
		time.Sleep(3 * time.Second)
		assert.Equal(t, []any{int64(3 * 3_600_000)}, lives(CallOptions{}))
	})
}

// S8. Redis lost the permit before it was released. Nobody else had its units, unless Redis has granted any since.
func TestReleaseAfterALossIsAnErrorIfAnotherMayHaveHadAllUnits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, inForce, granted int64
		o                       CallOptions
		err                     error
	}{
		"nothing was granted":              {1, 0, 0, CallOptions{}, nil},
		"a grant of all units":             {1, 1, 1, CallOptions{}, ErrLost},
		"a grant of some units":            {2, 2, 1, CallOptions{}, nil},
		"a grant of all units, of some":    {2, 2, protocol.MaxUnits, CallOptions{}, ErrLost},
		"a grant that may have its number": {2, 2, 2, CallOptions{Numbered: true}, ErrLost},
		"a grant that cannot have it":      {2, 2, 1, CallOptions{Numbered: true}, nil},
		"all units of a lower limit":       {5, 1, 1, CallOptions{}, ErrLost}, // another declares it, or it was set by hand
		"some units of a higher limit":     {2, 3, 1, CallOptions{}, nil},
		"all units, and the limit rose":    {1, 3, 1, CallOptions{}, ErrLost}, // before or after the grant
		"all units, and it is paused":      {1, 0, 1, CallOptions{}, ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, time.Hour, func(t *testing.T, client *Client, w *wire) {
				asked := asksOf(&Semaphore{Inspector: &Inspector{client: client, name: "a", spec: protocol.LimitSpec{Limit: c.limit}}, opts: &c.o}, 1)[0]
				granted := []int64{1, -1, 0, 1, int64(protocol.Held), 10}
				if c.o.Numbered {
					granted = append(granted, 10, -1, 0)
				}
				w.next().answers(granted...)
				released := make(chan error, 1)
				go func() { released <- asked.permit().Release(background) }() // ends with the answer
				w.next().answersInForce(c.inForce, 1, -1, 0, 100, int64(protocol.Gone), c.granted)
				assert.ErrorIs(t, <-released, c.err)
			})
		})
	}
}

// Whoever had more than the limit was replaced by any grant, too.
func TestOneThatHadAllUnitsOrMoreWasReplaced(t *testing.T) {
	t.Parallel()
	for limit, replaced := range map[int64]bool{0: false, 2: true, 3: true, 4: false} { // 0: it is not known
		a := answer{Result: protocol.Result{State: protocol.Gone, Number: 1}, limit: limit}
		assert.Equal(t, replaced, a.isReplaced(&ticket{weight: 3, spec: protocol.LimitSpec{Limit: 9}}), limit)
	}
}

// S8. A permit is released while it is queried after a loss of state, or restored. What that answers is older than the release, and says
// neither that another has had its lock nor, of an old file in which it waits still, that it was lost.
func TestReleaseDuringAQueryAfterALossSaysWhatBecameOfThePermit(t *testing.T) {
	t.Parallel()
	const refresh, restore = "refresh a: 1", "restore a: 1"
	gone, waiting, early := int64(protocol.Gone), int64(protocol.Waiting), int64(protocol.Early)
	for name, c := range map[string]struct {
		call            string
		answer, release [2]int64 // state and number
		err             error
	}{
		"another had the lock":             {refresh, [2]int64{gone, 0}, [2]int64{gone, 1}, ErrLost},
		"nobody had the lock":              {refresh, [2]int64{gone, 0}, [2]int64{gone, 0}, nil},
		"it waits in an old file":          {refresh, [2]int64{waiting, 20}, [2]int64{waiting, 0}, nil},
		"it waited, and another had it":    {refresh, [2]int64{waiting, 20}, [2]int64{gone, 1}, ErrLost},
		"it is not restored":               {restore, [2]int64{gone, 0}, [2]int64{gone, 1}, ErrLost},
		"it could have been restored soon": {restore, [2]int64{early, 0}, [2]int64{gone, 1}, ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, 3*time.Second, func(t *testing.T, client *Client, w *wire) {
				lock := &Semaphore{Inspector: &Inspector{client: client, name: "a", spec: protocol.LimitSpec{Limit: 1}}, opts: new(CallOptions)}
				asked := asksOf(lock, 1)[0]
				w.carries("acquire a: 1").answers(1, -1, 0, 1, waiting, 20)
				client.woken("a", 1, []protocol.Grant{{Seq: 1, Position: 20, Token: 30}})
				p := asked.permit()
				time.Sleep(time.Second)
				f := w.carries(refresh)
				if c.call == restore {
					f.answers(1, -1, 0, 100, gone, 0)
					f = w.carries(restore)
				}
				released := make(chan error, 1)
				go func() { released <- p.Release(background) }() // ends with the answer
				w.isIdle()
				f.answers(append([]int64{1, -1, 0, 100}, c.answer[:]...)...)
				w.carries("release a: 1").answersInForce(1, append([]int64{1, -1, 0, 100}, c.release[:]...)...)
				assert.ErrorIs(t, <-released, c.err)
			})
		})
	}
}

// What Redis has lost may be in the old file of the next server, so its release is not done with an answer that it is missing.
func TestReleaseOfAPermitThatRedisHasLostIsSentAgainAfterARefusal(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := holds(c, w, 1)
		time.Sleep(time.Second + time.Millisecond)
		f := w.carries("refresh a: 1")
		a.permit().leave()
		w.isIdle()
		f.isGone(2)
		f = w.carries("release a: 1")
		f.cmds[0].SetErr(testclient.Reply("OOM command not allowed when used memory > 'maxmemory'."))
		f.end <- f.cmds[0].Err()
		time.Sleep(lastRetry)
		assert.False(t, isClosed(a.released))
		w.carries("release a: 1").isHeld(2)
		assert.True(t, a.isReleased())
	})
}

// OnLost may take a lock that the caller of Close has.
func TestCloseDoesNotWaitForAnOnLostThatAReleaseCalls(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		recordEvents(c)
		sem, err := c.Weighted("a", 5)
		require.NoError(t, err)
		notified, closed := make(chan struct{}), make(chan struct{})
		sem.OnLost(func(int64, error) { close(notified); <-closed })
		go func() { // ends with close
			assert.NoError(t, sem.Acquire(background, 1))
			sem.Release(1)
		}()
		w.carries("acquire a: 1").grantAll(10)
		w.carries("release a: 1").isGone(1)
		<-notified
		assert.True(t, c.events.calls.TryLock(), "Close waits for it")
		close(closed)
	})
}
