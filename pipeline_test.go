package fairsem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/goroutines"
	"github.com/fairsem/fairsem/internal/pipeline"
	"github.com/fairsem/fairsem/internal/protocol"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// wire is a go-redis hook that replaces the network: the test receives pipelines and replies to them.
type wire struct {
	t       *testing.T
	arrived chan *flight
	down    chan struct{} // closed: no more replies
}

// flight is a pipeline that waits for its replies.
type flight struct {
	cmds []redis.Cmder
	end  chan error
}

func (w *wire) DialHook(redis.DialHook) redis.DialHook {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("a wire has no connections")
	}
}

func (w *wire) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return errors.New("only pipelines are sent") }
}

func (w *wire) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		f := &flight{cmds, make(chan error, 1)}
		select {
		case w.arrived <- f:
		case <-w.down:
		}
		select {
		case err := <-f.end:
			return err
		case <-w.down:
			return net.ErrClosed
		}
	}
}

// next returns the next pipeline, nil if there is none. It first waits until nothing more happens without a reply.
func (w *wire) next() *flight {
	w.t.Helper()
	synctest.Wait()
	select {
	case f := <-w.arrived:
		return f
	default:
		return nil
	}
}

// carries receives the next pipeline and checks its contents.
func (w *wire) carries(what ...string) *flight {
	w.t.Helper()
	f := w.next()
	require.NotNil(w.t, f, "nothing is sent")
	require.Equal(w.t, what, f.contents())
	return f
}

func (w *wire) isIdle() {
	w.t.Helper()
	if f := w.next(); f != nil {
		w.t.Fatalf("sent: %v", f.contents())
	}
}

// contents lists the verb, the name and the tickets of each command. A minus marks those that an acquire releases.
func (f *flight) contents() (all []string) {
	for _, c := range f.cmds {
		args := c.Args()
		s := scriptOf(c)
		if s == nil {
			all = append(all, fmt.Sprint(args[0]))
			continue
		}
		_, name, _, _ := protocol.ParseKey(args[3].(string))
		text := s.Verb + " " + name + ":"
		releases := len(args)
		if s == protocol.AcquireScript {
			releases -= s.Argument(args, "released").(int)
		}
		first := 10 + args[2].(int) // the index after the arguments that all scripts have
		if slices.Contains(protocol.PlainScripts, s) {
			first = 3 + args[2].(int) + len(s.Arguments)
		}
		if slices.Contains(s.Arguments, "declared") {
			first += 4 * s.Argument(args, "declared").(int)
		}
		switch s {
		case protocol.PlainAcquireScript, protocol.PlainQueueScript, protocol.PlainTenantsAcquireScript, protocol.PlainTenantsScript:
			releases = first + s.Argument(args, "count").(int)
		}
		for i, arg := range args[first:] {
			if id, ok := arg.(string); ok {
				sign := ""
				if first+i >= releases {
					sign = "-"
				}
				text += " " + sign + strings.TrimPrefix(id, protocol.ClientOf(id)+":")
			}
		}
		all = append(all, text)
	}
	return all
}

// scriptOf returns the script that a command runs, nil if it runs none.
func scriptOf(c redis.Cmder) *protocol.Script {
	for _, s := range slices.Concat(protocol.Scripts, protocol.PlainScripts) {
		if source := fmt.Sprint(c.Args()[min(1, len(c.Args())-1)]); source == s.Hash() || source == string(s.Source(true)) {
			return s
		}
	}
	return nil
}

// grantAll replies to every acquire in the pipeline with tokens from first on, and confirms every release.
func (f *flight) grantAll(first int64) {
	for i, content := range f.contents() {
		n := len(strings.Fields(content)) - 2 // number of ids
		f.grant(i, first, n)
		first += int64(n)
	}
	f.end <- nil
}

func (f *flight) grant(i int, token int64, n int) {
	reply := []int64{1, -1, 0, 1, 0, 0, 0, 0}
	for j := range n {
		reply = append(reply, int64(protocol.Held), token+int64(j))
	}
	f.cmds[i].(protocol.Numbers).SetVal(reply)
}

// onWire runs a test of a client without a network, in a synctest bubble.
func onWire(t *testing.T, ttl time.Duration, test func(t *testing.T, c *Client, w *wire)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{t, make(chan *flight, 100), make(chan struct{})}
		rdb := redis.NewClient(&redis.Options{
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // otherwise go-redis starts goroutines
		})
		rdb.AddHook(w)
		c, err := New(rdb, Options{TTL: ttl})
		require.NoError(t, err)
		c.labelDue.Store(math.MaxInt64) // no label is sent during the test
		c.longest.Store(math.MaxInt64)
		c.hub = &stillHub{} // and no query is sent because a subscription is missing
		defer func() {
			close(w.down)
			c.scheduler.close()
			c.goroutines.Close()
			assert.NoError(t, rdb.Close())
		}()
		test(t, c, w)
	})
}

// stillHub has no subscriptions.
type stillHub struct {
	blind        atomic.Bool
	resubscribed atomic.Int64
}

func (h *stillHub) Start()       {}
func (h *stillHub) Watch(string) {}
func (h *stillHub) Blind() bool  { return h.blind.Load() }
func (h *stillHub) Resubscribe() { h.resubscribed.Add(1) }

// asks opens tickets on a name, as Acquire does.
func asks(c *Client, name string, n int, o CallOptions) []*ticket {
	return asksOf(&Semaphore{Inspector: &Inspector{client: c, name: name, spec: protocol.LimitSpec{Limit: 5}}, opts: &o}, n)
}

// A program may assign another handle to a variable that is not a pointer.
func TestTicketKeepsTheOptionsThatItsHandleHadWhenItAsked(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		base := Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 5}}}
		handle := *base.With(CallOptions{Tenant: "one"})
		asked := asksOf(&handle, 1)[0]
		w.carries("acquire a: one 1:one").grantAll(10)
		handle = *base.With(CallOptions{Tenant: "another", NoRefresh: true})
		assert.Equal(t, CallOptions{Tenant: "one"}, *asked.opts)
	})
}

// asksOf requests n permits, which leave together: else the first may leave while the others are still requested.
func asksOf(s *Semaphore, n int) (all []*ticket) {
	s.client.shared.Wake(func() int {
		for range n {
			t, err := s.client.ask(background, s, 1, true, time.Now())
			if err != nil {
				panic(err) // the client is open
			}
			all = append(all, t)
		}
		return 0
	})
	return all
}

// tokenNow returns the token of a ticket, 0 while it is not granted.
func (t *ticket) tokenNow() int64 {
	select {
	case <-t.done:
		return t.permit().Token()
	default:
		return 0
	}
}

func TestIdlePipelineSendsAtOnce(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		began := time.Now()
		for i := range 3 {
			got := asks(c, "a", 1, CallOptions{})
			w.carries(fmt.Sprintf("acquire a: %d", i+1)).grantAll(100)
			w.isIdle()
			assert.Equal(t, int64(100), got[0].tokenNow())
		}
		assert.Zero(t, time.Since(began), "it waited for more requests")
	})
}

func TestRequestsMadeWhileTwoBatchesAreInFlightShareTheNextBatch(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		first := w.carries("acquire a: 1")
		asks(c, "b", 1, CallOptions{})
		second := w.carries("acquire b: 2")
		var later []*ticket
		for _, name := range []string{"a", "b", "c", "a", "b", "c", "a"} {
			later = append(later, asks(c, name, 1, CallOptions{})...)
			w.isIdle()
		}
		second.grantAll(100)
		third := w.carries("acquire a: 3 6 9", "acquire b: 4 7", "acquire c: 5 8")
		asks(c, "d", 1, CallOptions{})
		w.isIdle() // the first is still in flight
		third.grantAll(200)
		w.carries("acquire d: 10")
		for _, ticket := range later {
			assert.NotZero(t, ticket.tokenNow())
		}
		assert.Equal(t, int64(202), later[6].tokenNow(), "the ticket is the third of its call")
		first.grantAll(300)
		w.isIdle()
	})
}

// ids counts the ids that a pipeline carries.
func (f *flight) ids() (n int) {
	for _, content := range f.contents() {
		n += len(strings.Fields(content)) - 2
	}
	return n
}

func TestOneCallCarriesABoundedNumberOfIds(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		first := w.carries("acquire a: 1")
		asks(c, "b", 1, CallOptions{})
		second := w.carries("acquire b: 2")
		all := asks(c, "c", protocol.MaxIDs+1, CallOptions{})
		first.grantAll(10)
		next := w.next()
		require.Len(t, next.cmds, 1)
		require.Equal(t, protocol.MaxIDs, next.ids())
		next.grantAll(5000)
		w.carries(fmt.Sprintf("acquire c: %d", protocol.MaxIDs+3)).grantAll(9000)
		synctest.Wait()
		assert.Equal(t, int64(5000+protocol.MaxIDs-1), all[protocol.MaxIDs-1].tokenNow())
		assert.NotZero(t, all[protocol.MaxIDs].tokenNow())

		d := asks(c, "d", 1, CallOptions{})[0]
		w.carries(fmt.Sprintf("acquire d: %d", d.seq)) // with the second, the maximum is in flight
		for _, ticket := range all[:protocol.MaxIDs/2] {
			ticket.state.leave(ticket)
		}
		more := asks(c, "c", protocol.MaxIDs/2+1, CallOptions{})
		second.grantAll(2)
		next = w.next()
		require.Len(t, next.cmds, 2)
		assert.Equal(t, protocol.MaxIDs, len(strings.Fields(next.contents()[0]))-2, "ids to release count, too")
		assert.Equal(t, fmt.Sprintf("acquire c: %d", more[protocol.MaxIDs/2].seq), next.contents()[1])
	})
}

// backlog keeps one batch in flight forever, so that batches are sent one after another. It returns a second batch, and n tickets
// that wait until that batch ends.
func (w *wire) backlog(c *Client, n int) (before *flight, all []*ticket) {
	w.t.Helper()
	asks(c, "blocked", 1, CallOptions{TTL: time.Hour})
	require.NotNil(w.t, w.next())
	asks(c, "before", 1, CallOptions{TTL: time.Hour})
	before = w.next()
	return before, asks(c, "a", n, CallOptions{})
}

// Guards against batches of everything that is queued: with 40,000 callers and a short TTL they came too late as a whole.
func TestBatchesGrowToABoundWhileTheyAreFast(t *testing.T) {
	onWire(t, minTTL, func(t *testing.T, c *Client, w *wire) {
		before, all := w.backlog(c, 10*pipeline.MaxBatchIDs)
		before.grantAll(1)
		batches, largest := 0, 0
		for f := w.next(); f != nil; f = w.next() {
			batches, largest = batches+1, max(largest, f.ids())
			f.grantAll(100)
		}
		assert.Equal(t, pipeline.MaxBatchIDs, largest)
		assert.LessOrEqual(t, batches, 15, "batches do not grow")
		for _, ticket := range all {
			require.NotZero(t, ticket.tokenNow())
		}
	})
}

func TestBatchAfterASlowOneCarriesOneCall(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]func(f *flight){
		"more than half of its timeout": func(f *flight) { time.Sleep(51 * time.Millisecond); f.grantAll(1) },
		"no reply":                      func(*flight) { time.Sleep(100 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, 300*time.Millisecond, func(t *testing.T, c *Client, w *wire) {
				before, _ := w.backlog(c, 10*pipeline.MaxBatchIDs)
				f := before
				for f.ids() < pipeline.MaxBatchIDs {
					f.grantAll(1)
					f = w.next()
					require.NotNil(t, f, "batches do not grow to their bound")
				}
				slow(f)
				assert.LessOrEqual(t, w.next().ids(), 2*protocol.MaxIDs, "one call for new tickets, and one for retries")
			})
		})
	}
}

// Guards against renewals queued behind thousands of new calls: permits were lost.
func TestRenewalsReleasesAndRetriesAreSentBeforeNewCalls(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		asks(c, "lost", 1, CallOptions{})
		w.carries("acquire lost: 1").breaks()
		held := asks(c, "held", 1, CallOptions{TTL: time.Hour})[0]
		w.carries("acquire held: 2").grantAll(10)
		asks(c, "due", 1, CallOptions{})
		w.carries("acquire due: 3").grantAll(20)
		before, _ := w.backlog(c, 4*pipeline.MaxBatchIDs)
		held.state.leave(held)
		time.Sleep(time.Second + time.Millisecond)
		before.grantAll(30)
		f := w.next()
		first := f.contents()[:3]
		slices.Sort(first)
		assert.Equal(t, []string{"acquire lost: 1", "refresh due: 3", "release held: 2"}, first)
		assert.LessOrEqual(t, f.ids(), pipeline.MaxBatchIDs)
	})
}

// A batch without a bound would take longer than its timeout.
func TestOneBatchCarriesABoundedNumberOfCallsAndTheNextOneTheRest(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		first := w.carries("acquire a: 1")
		asks(c, "b", 1, CallOptions{})
		w.carries("acquire b: 2")
		var want []string
		for i := range pipeline.MaxRequests + 3 {
			asks(c, fmt.Sprintf("c%d", i), 1, CallOptions{})
			want = append(want, fmt.Sprintf("acquire c%d: %d", i, i+3))
		}
		first.grantAll(10)
		var got []string
		for f := w.next(); f != nil; f = w.next() {
			assert.LessOrEqual(t, len(f.cmds), pipeline.MaxRequests)
			got = append(got, f.contents()...)
			f.grantAll(1000)
		}
		assert.Equal(t, want, got)
	})
}

func TestOnlyEqualKeysShareACall(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		first := w.carries("acquire a: 1")
		asks(c, "b", 1, CallOptions{})
		w.carries("acquire b: 2")
		var want []string
		for i, o := range []CallOptions{{}, {TTL: time.Minute}, {MaxQueue: 1}, {MaxQueue: 2}, {HeadStart: time.Second}} {
			asks(c, "c", 1, o)
			want = append(want, fmt.Sprintf("acquire c: %d %d", i+3, i+8))
		}
		for _, o := range []CallOptions{{}, {TTL: time.Minute, NoRefresh: true}, {MaxQueue: 1}, {MaxQueue: 2}, {HeadStart: time.Second}} {
			asks(c, "c", 1, o)
		}
		other, err := c.ask(background, &Semaphore{Inspector: &Inspector{client: c, name: "c", spec: protocol.LimitSpec{Limit: 6}}}, 1, true, time.Now())
		require.NoError(t, err)
		try, err := c.ask(background, &Semaphore{Inspector: &Inspector{client: c, name: "c", spec: protocol.LimitSpec{Limit: 5}}}, 1, false, time.Now())
		require.NoError(t, err)
		want = append(want, fmt.Sprintf("acquire c: %d", other.seq), fmt.Sprintf("acquire c: %d", try.seq))
		first.grantAll(10)
		w.carries(want...)
	})
}

// atOnce calls do while the maximum of batches is in flight, and returns the batch that carries the result.
func (w *wire) atOnce(c *Client, do func(), what ...string) *flight {
	w.t.Helper()
	a := asks(c, "busy", 1, CallOptions{})[0]
	first := w.carries(fmt.Sprintf("acquire busy: %d", a.seq))
	b := asks(c, "busy", 1, CallOptions{})[0]
	second := w.carries(fmt.Sprintf("acquire busy: %d", b.seq))
	do()
	w.isIdle()
	first.grantAll(1)
	f := w.carries(what...)
	second.grantAll(2)
	return f
}

func TestReleasesAndAcquiresShareACall(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		var held, asked []*ticket
		w.atOnce(c, func() { held = asks(c, "a", 3, CallOptions{}) }, "acquire a: 3 4 5").grantAll(10)
		leave := func(i int) { held[i].state.leave(held[i]) }
		ask := func(n int) { asked = append(asked, asks(c, "a", n, CallOptions{})...) }

		f := w.atOnce(c, func() { leave(0); ask(2); leave(1) }, "acquire a: 8 9 -3 -4")
		f.cmds[0].(protocol.Numbers).SetVal([]int64{1, -1, 0, 1, 0, 0, 0, 0, int64(protocol.Held), 0, int64(protocol.Gone), 0, int64(protocol.Held), 20, int64(protocol.Held), 21})
		f.end <- nil
		<-held[0].released
		<-held[1].released
		assert.NoError(t, held[0].releaseErr)
		assert.ErrorIs(t, held[1].releaseErr, ErrLost)
		synctest.Wait()
		assert.Equal(t, int64(20), asked[0].tokenNow())
		assert.Equal(t, int64(21), asked[1].tokenNow())

		f = w.atOnce(c, func() { ask(1); leave(2) }, "acquire a: 12 -5")
		f.grantAll(0)
		<-held[2].released
		w.isIdle()
	})
}

func TestOnlyAnAcquireUnderTheSameLimitCarriesARelease(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		held := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		other := &Semaphore{Inspector: &Inspector{client: c, name: "a", spec: protocol.LimitSpec{Limit: 6}}}
		f := w.atOnce(c, func() {
			asks(c, "b", 1, CallOptions{})
			held.state.leave(held)
			_, err := c.ask(background, other, 1, true, time.Now())
			require.NoError(t, err)
		}, "acquire b: 4", "release a: 1", "acquire a: 5")
		f.grantAll(0)
		<-held.released
	})
}

// An acquire has another lease than a tombstone, and does not report permits as expired.
func TestReleaseThatAnAcquireCannotMakeIsSentAlone(t *testing.T) {
	t.Parallel()
	for name, grants := range map[string]func(w *wire, t *ticket){
		"with a tombstone": func(w *wire, _ *ticket) {
			w.carries("acquire a: 1").breaks()
			time.Sleep(lastRetry)
			w.carries("acquire a: 1").grantAll(10)
		},
		"of a lease that has ended": func(w *wire, t *ticket) {
			w.carries("acquire a: 1").grantAll(10)
			t.hold.end(errOverdue)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
				held := asks(c, "a", 1, CallOptions{})[0]
				grants(w, held)
				f := w.atOnce(c, func() { held.state.leave(held); asks(c, "a", 1, CallOptions{}) }, "release a: 1", "acquire a: 4")
				f.grantAll(0)
				<-held.released
			})
		})
	}
}

func TestReleaseIsSentWhenTheAcquireThatCarriedItIsCanceled(t *testing.T) {
	onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
		held := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		f := w.atOnce(c, func() {
			held.state.leave(held)
			asked := asks(c, "a", 1, CallOptions{})[0]
			asked.state.leave(asked)
		}, "release a: 1")
		f.grantAll(0)
		<-held.released
		w.isIdle()
	})
}

// exchanges leaves one call in flight that releases one permit and acquires another.
func (w *wire) exchanges(c *Client) (held, asked *ticket, f *flight) {
	w.t.Helper()
	held = asks(c, "a", 1, CallOptions{})[0]
	w.carries("acquire a: 1").grantAll(10)
	f = w.atOnce(c, func() {
		held.state.leave(held)
		asked = asks(c, "a", 1, CallOptions{})[0]
	}, "acquire a: 4 -1")
	return held, asked, f
}

func TestFailedCallIsRetriedForItsReleasesToo(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		held, asked, f := w.exchanges(c)
		time.Sleep(time.Millisecond) // a call sent before the failure says nothing about the server after it
		f.breaks()
		verify := w.next()
		require.NotNil(t, verify)
		require.Contains(t, verify.contents()[0], "refresh busy: ", "the client verifies its other tickets")
		verify.grantAll(30)
		w.isIdle()
		time.Sleep(lastRetry)
		var retried []string // in one pipeline or in two
		for again := w.next(); again != nil; again = w.next() {
			for i, content := range again.contents() {
				retried = append(retried, content)
				if content == "acquire a: 4" {
					again.grant(i, 20, 1)
				} else {
					again.cmds[i].(protocol.Numbers).SetVal([]int64{1, -1, 0, 1, 0, 0, 0, 0, int64(protocol.Gone), 0})
				}
			}
			again.end <- nil
		}
		require.ElementsMatch(t, []string{"acquire a: 4", "release a: 1"}, retried)
		<-held.released
		assert.NoError(t, held.releaseErr, "the first attempt has released it")
		synctest.Wait()
		assert.Equal(t, int64(20), asked.tokenNow())
	})
}

func TestTicketCanceledBeforeItsBatchIsSentIsNotSent(t *testing.T) {
	onWire(t, time.Hour, func(_ *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		first := w.carries("acquire a: 1")
		asks(c, "b", 1, CallOptions{})
		second := w.carries("acquire b: 2")
		alone, among := asks(c, "c", 1, CallOptions{})[0], asks(c, "d", 3, CallOptions{})
		for _, ticket := range []*ticket{alone, among[1]} {
			ticket.state.leave(ticket)
		}
		first.grantAll(10)
		third := w.carries("acquire d: 4 6")
		<-alone.released
		<-among[1].released
		among[0].state.leave(among[0])
		among[2].state.leave(among[2])
		third.grantAll(20)
		fourth := w.carries("release d: 4 6") // only tickets that were sent are released
		fourth.grantAll(0)
		<-among[0].released
		second.grantAll(30)
		w.isIdle()
	})
}

func TestBatchWithoutAReplyIsWrittenOffAndReplaced(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		lost := w.carries("acquire a: 1")
		time.Sleep(time.Millisecond)
		asks(c, "b", 1, CallOptions{TTL: time.Hour}) // its timeout is 2 s
		w.carries("acquire b: 2")
		asks(c, "c", 1, CallOptions{})
		time.Sleep(time.Second - time.Millisecond - 1) // the timeout is a third of the TTL
		w.isIdle()
		time.Sleep(time.Nanosecond)
		third := w.carries("acquire c: 3")
		time.Sleep(20 * time.Millisecond)
		w.isIdle() // one more batch may be in flight, and that is the third
		lost.grantAll(666)
		w.isIdle()
		assert.Zero(t, a.tokenNow(), "a reply to a batch that was written off counts")
		third.grantAll(20)
		w.carries("acquire a: 1").grantAll(30) // a retry with the same id
		synctest.Wait()
		assert.Equal(t, int64(30), a.tokenNow())
	})
}

// A reply of Redis about one name must not count as its reply about another, whose outcome is unknown.
func TestMissingReplyIsNoRefusalWhateverRedisRepliedBefore(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		wrong := asks(c, "wrong", 1, CallOptions{})[0]
		f := w.carries("acquire wrong: 1")
		f.cmds[0].SetErr(testclient.Reply("WRONGTYPE Operation against a key holding the wrong kind of value"))
		f.end <- f.cmds[0].Err()
		<-wrong.done
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 2")
		time.Sleep(pipeline.MaxTimeout + lastRetry)
		w.carries("acquire a: 2")
		a.state.leave(a)
		time.Sleep(pipeline.MaxTimeout + lastRetry)
		f = w.carries("release a: 2")
		assert.Equal(t, time.Hour, f.lease(0), "a copy of the request would find no tombstone")
		f.grantAll(0)
		w.isIdle()
	})
}

func TestMissingLabelIsNoError(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		reply := c.shared.Send(pipeline.Command{Cmd: redis.NewStringCmd(background, "get", "label")})
		f := w.carries("get")
		f.cmds[0].SetErr(redis.Nil)
		f.end <- redis.Nil
		assert.NoError(t, (<-reply).Err)
		assert.NoError(t, c.shared.Failure())
	})
}

func TestWrittenOffBatchesDoNotRaiseTheNumberInFlight(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		for range 5 { // no batch gets a reply
			w.carries("acquire a: 1")
			w.isIdle()
			time.Sleep(pipeline.MaxTimeout + lastRetry)
		}
		asks(c, "b", 1, CallOptions{})
		asks(c, "c", 1, CallOptions{})
		inFlight := 0
		for f := w.next(); f != nil; f = w.next() {
			inFlight++
		}
		assert.LessOrEqual(t, inFlight, pipeline.MaxInFlight)
	})
}

func TestMissingScriptIsSentAndNothingElseIsSentAgain(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		asks(c, "a", 1, CallOptions{})
		first := w.carries("acquire a: 1")
		asks(c, "b", 1, CallOptions{})
		w.carries("acquire b: 2")
		all := slices.Concat(asks(c, "c", 2, CallOptions{}), asks(c, "d", 1, CallOptions{}), asks(c, "e", 1, CallOptions{}))
		first.grantAll(10)

		f := w.carries("acquire c: 3 4", "acquire d: 5", "acquire e: 6")
		f.grant(0, 20, 2)
		f.cmds[1].SetErr(testclient.Reply("NOSCRIPT No matching script. Please use EVAL."))
		f.grant(2, 40, 1)
		f.end <- f.cmds[1].Err()
		again := w.carries("acquire d: 5")
		assert.Equal(t, "eval", again.cmds[0].Name())
		assert.Equal(t, protocol.AcquireScript.Text(), fmt.Sprint(again.cmds[0].Args()[1]))
		assert.Equal(t, f.cmds[1].Args()[2:], again.cmds[0].Args()[2:], "the call is the same")
		assert.True(t, again.cmds[0].NoRetry())
		again.grantAll(30)
		w.isIdle()
		for i, want := range []int64{20, 21, 30, 40} {
			assert.Equal(t, want, all[i].tokenNow())
		}
	})
}

func TestMissingScriptOfASingleCallIsSentToo(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		answers := make(chan queried, 1)
		go func() { // ends with the reply
			r, err := c.query(t.Context(), "a", c.keyspace.Status("a", protocol.LimitSpec{Limit: 1}, 0, 0))
			assert.NoError(t, err)
			answers <- r
		}()
		f := w.carries("status a:")
		f.cmds[0].SetErr(testclient.Reply("NOSCRIPT"))
		f.end <- f.cmds[0].Err()
		again := w.carries("status a:")
		again.cmds[0].(protocol.Numbers).SetVal([]int64{42})
		again.end <- nil
		assert.Equal(t, queried{Response: pipeline.Response{Numbers: []int64{42}}}, <-answers)
	})
}

func TestClosedGoroutinesStartNothing(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		c.goroutines.Close()
		assert.False(t, c.goroutines.Start(goroutines.ScriptCalls, func() { t.Error("the function runs") }))
		assert.ErrorIs(t, c.shared.Ask(background, pipeline.Command{Cmd: redis.NewCmd(background, "ping")}).Err, ErrClosed)
		w.isIdle()
	})
}

func TestErrorsOfRedisAreTransientOrNot(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.SharedServer(t).Addr(), MaxRetries: -1})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	for text, want := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":                         true,
		"READONLY You can't write against a read only replica.":                  true,
		"CLUSTERDOWN The cluster is down":                                        true,
		"TRYAGAIN Multiple keys request during rehashing of slot":                true,
		"MASTERDOWN Link with MASTER is down":                                    true,
		"ERR max number of clients reached":                                      true,
		"OOM command not allowed when used memory > 'maxmemory'.":                true,
		"NOREPLICAS Not enough good replicas to write.":                          true,
		"BUSY Redis is busy running a script.":                                   true,
		"MISCONF Redis is configured to save RDB snapshots, but it cannot":       true,
		"NOSCRIPT No matching script. Please use EVAL.":                          true,
		"MOVED 3999 127.0.0.1:6381":                                              true,
		"ASK 3999 127.0.0.1:6381":                                                true,
		"WRONGTYPE Operation against a key holding the wrong kind of value":      false,
		"NOPERM User x has no permissions to run the 'evalsha' command":          false,
		"NOAUTH Authentication required.":                                        false,
		"WRONGPASS invalid username-password pair or user is disabled.":          false,
		"FAIRSEMLAYOUT an older version of fairsem wrote these keys":             false,
		"ERR unknown command 'evalsha'":                                          false,
		"CROSSSLOT Keys in request don't hash to the same slot":                  false,
		"ERR user_script:1: Script attempted to access nonexistent global BUSY1": false,
	} {
		err := rdb.Eval(background, "return redis.error_reply(ARGV[1])", nil, text).Err()
		require.ErrorContains(t, err, text)
		for _, err := range []error{err, fmt.Errorf("wrapped: %w", err), wrap("acquire", "a", err)} {
			assert.True(t, failure.Refused(err), "%v is a reply of Redis", err)
			assert.Equal(t, want, failure.Transient(err), "%v", err)
		}
	}
}

func TestErrorsOfTheNetworkAreTransientAndSayNothingAboutTheOutcome(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, net.ErrClosed, context.DeadlineExceeded, failure.ErrNoAnswer, protocol.ErrReply,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}, redis.ErrPoolTimeout, errors.Join(failure.ErrNoAnswer, io.EOF),
		fmt.Errorf("%w; before that: %w", failure.ErrNoAnswer, io.EOF),
		fmt.Errorf("%w; before that: %w", failure.ErrNoAnswer, testclient.Reply("WRONGTYPE Operation against a key holding the wrong kind of value")),
		fmt.Errorf("%w; before that: %w", failure.ErrNoAnswer, testclient.Reply("NOPERM User x has no permissions to run the 'evalsha' command")),
		fmt.Errorf("%w; before that: %w", failure.ErrNoAnswer, testclient.Reply("LOADING Redis is loading the dataset in memory")),
	} {
		assert.True(t, failure.Transient(err), "%v", err)
		assert.False(t, failure.Refused(err), "%v", err)
	}
	assert.False(t, failure.Transient(redis.ErrClosed), "its owner closed the client of go-redis for good")
	assert.False(t, failure.Transient(fmt.Errorf("wrapped: %w", redis.ErrClosed)))
}

// Two batches of a process can be in flight at once, and Redis may execute the second one first.
func TestLabelIsDeletedOnlyAfterItWasSet(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		c.labelDue.Store(0)
		c.announce(time.Now(), 0)
		set := w.carries("set")
		deleted := make(chan struct{})
		go func() { // ends with the replies below; the test waits for it
			defer close(deleted)
			c.withdraw(t.Context())
		}()
		w.isIdle()
		set.end <- nil
		w.carries("del").end <- nil
		<-deleted
	})
}

// The label was left for three of the longest TTLs in use.
func TestCloseDeletesTheLabelThoughReleasesWereNotConfirmed(t *testing.T) {
	onWire(t, time.Second, func(t *testing.T, c *Client, w *wire) {
		c.labelDue.Store(0)
		c.announce(time.Now(), time.Hour)
		w.carries("set").end <- nil
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		require.NoError(t, a.await(background, time.Time{}))
		closed := make(chan error, 1)
		go func() { closed <- c.releaseAll(c.everyState()) }() // which Close waits for; ends below
		w.carries("release a: 1")
		time.Sleep(2 * time.Second) // the lease is over
		last := w.next()
		for ; last != nil && !slices.Equal(last.contents(), []string{"del"}); last = w.next() { // meanwhile both are tried again
			if slices.Equal(last.contents(), []string{"set"}) {
				last.end <- nil
			}
		}
		require.NotNil(t, last, "the label is left")
		last.end <- nil
		require.ErrorIs(t, <-closed, ErrUnavailable)
	})
}

// Guards against a deferred Release that delays a handler for a whole TTL.
func TestReleaseWaitsForASecondAndContinuesInTheBackground(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").grantAll(10)
		require.NoError(t, a.await(background, time.Time{}))
		began := time.Now()
		err := a.permit().Release(background)
		assert.Equal(t, releaseWait, time.Since(began))
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorContains(t, err, "in the background")
		w.carries("release a: 1")
		time.Sleep(pipeline.MaxTimeout) // the batch is written off, and the call is sent again
		w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Held), 0)
		require.NoError(t, a.permit().Release(background))
	})
}

// If every operation had a reply, a call that ends in the queue does not show that Redis is unavailable.
func TestCallThatEndsInTheQueueDoesNotBlameRedis(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, w *wire) {
		a := asks(c, "a", 1, CallOptions{})[0]
		w.carries("acquire a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 5)
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		err := a.await(ctx, time.Time{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrUnavailable)
		w.carries("release a: 1").answers(1, -1, 0, 1, int64(protocol.Waiting), 0)
	})
}

// A renewal in flight at the end of a call does not show that Redis is unavailable, unless it has lasted too long.
func TestCallThatEndsDuringARenewalDoesNotBlameRedis(t *testing.T) {
	onWire(t, 3*time.Second, func(t *testing.T, c *Client, w *wire) {
		for silence, blames := range map[time.Duration]bool{pipeline.MinTimeout - 1: false, pipeline.MinTimeout: true} {
			a := asks(c, fmt.Sprint(silence), 1, CallOptions{})[0]
			w.next().answers(1, -1, 0, 1, int64(protocol.Waiting), 5)
			ctx, cancel := context.WithTimeout(background, time.Second+silence)
			err := a.await(ctx, time.Time{}) // a third of the TTL comes first
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, blames, errors.Is(err, ErrUnavailable), "after a silence of %v", silence)
			for f := w.next(); f != nil; f = w.next() {
				f.answers(1, -1, 0, 1, int64(protocol.Gone), 0)
			}
		}
	})
}

func TestTimeoutIsAThirdOfTheShortestTTL(t *testing.T) {
	onWire(t, time.Hour, func(t *testing.T, c *Client, _ *wire) {
		for _, test := range []struct {
			ttls []time.Duration
			want time.Duration
		}{
			{[]time.Duration{3 * time.Second}, time.Second},
			{[]time.Duration{maxTTL}, pipeline.MaxTimeout},
			{[]time.Duration{maxTTL, 900 * time.Millisecond, 10 * time.Second}, 300 * time.Millisecond},
		} {
			r := &request{state: c.newState("a"), key: requestKey{script: protocol.RefreshScript}}
			for _, ttl := range test.ttls {
				r.tickets = append(r.tickets, &ticket{ttl: ttl, opts: &CallOptions{}})
			}
			_, timeout, wanted := r.Prepare(c.clock.Now())
			assert.True(t, wanted)
			assert.Equal(t, test.want, timeout, "%v", test.ttls)
		}
	})
}

// halfCluster wraps a client and has one of the methods of a cluster.
type halfCluster struct{ redis.UniversalClient }

func (halfCluster) MasterForKey(context.Context, string) (*redis.Client, error) {
	panic("it is one server")
}

// With WaitReplicas its calls went to the node of a key.
func TestTypeWithoutAllMethodsOfAClusterIsOneServer(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	c, err := New(halfCluster{rdb}, Options{WaitReplicas: 1})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	assert.Nil(t, c.pipelineOf("a").Primary)
	assert.Same(t, c.pipelineOf("a"), c.pipelineOf("b"))
}
