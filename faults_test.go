package fairsem_test

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/testclient"
)

// Faults of networks, servers and rights, and lost replies.

// privately runs a test on its own server, which the test may stop or kill.
func privately(t *testing.T, args ...string) (*world, *redistest.Server) {
	t.Helper()
	t.Parallel()
	server := redistest.NewServer(t, args...)
	return newWorld(t, func(testing.TB) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: server.Addr()})
	}), server
}

// through connects through a proxy.
func (w *world) through(proxy *redistest.Proxy) redis.UniversalClient {
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: time.Second})
	w.t.Cleanup(func() { assert.NoError(w.t, rdb.Close()) })
	return rdb
}

// network returns a client on the shared server whose connections a proxy can break.
func (w *world) network() (*fairsem.Client, *redistest.Proxy) { return w.observedNetwork(nil) }

// observedNetwork is network with an observer.
func (w *world) observedNetwork(observer func(fairsem.Event)) (*fairsem.Client, *redistest.Proxy) {
	w.t.Helper()
	proxy := redistest.NewProxy(w.t, redistest.SharedServer(w.t).Addr())
	there := w.client().Inspect(w.name)
	c, err := fairsem.New(w.through(proxy), fairsem.Options{TTL: w.ttl, Observer: observer})
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		err := c.Close()
		if err == nil {
			return
		}
		// A short lease may end before the network is back and Redis has confirmed the release. The entry of a late call expires.
		assert.ErrorIs(w.t, err, fairsem.ErrUnavailable)
		w.awaitExpiry(there)
	})
	return c, proxy
}

// awaitExpiry waits until the entries of a disconnected client have expired. Its last release may have arrived when nobody waited for the
// answer: as a plain call that was declined, or as a script that the server did not know.
func (w *world) awaitExpiry(there *fairsem.Inspector) {
	w.t.Helper()
	ctx := context.Background()
	w.eventually(func() bool {
		_ = there.Evict(ctx, "nobody:1") // it removes expired entries
		return w.rdb.Exists(ctx, w.key("owner"), w.key("queue")).Val() == 0
	}, "the permits of the disconnected client do not expire")
}

// S8, S2
func TestLossIsReportedBeforeTheNextGrant(t *testing.T) {
	w := onRedis(t)
	w.ttl = 4 * time.Second
	cutOff, proxy := w.network()
	a, b := w.of(cutOff, 1), w.semaphore()
	for range 2 {
		p := w.must(a.Acquire(t.Context(), 1))
		next := w.queue(t.Context(), b, 1)
		proxy.Hold()
		q := w.granted(next)
		require.Error(t, p.Context().Err(), "two live permits for one unit")
		assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
		proxy.Resume()

		// S3: the late release of the lost permit frees nothing of the new one.
		require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
		assert.Equal(t, int64(1), w.status(b).Used)
		require.NoError(t, q.Context().Err())
		w.release(q)
	}
}

// heavy is a weight for calls whose reply is held: they need one round trip. A plain call may be declined, and its second one could not
// be sent.
const heavy = 2

// The lease began when the server granted it, however late the reply arrives.
func TestSlowReplyDoesNotMakeTheClientTrustForLonger(t *testing.T) {
	w := onRedis(t)
	w.ttl, w.limit = 3*time.Second, 2 // a busy machine takes a part of it
	slow, proxy := w.network()
	a, b := w.of(slow, 2), w.semaphore()
	for tried := 0; tried < 2; {
		first, err := a.Acquire(t.Context(), heavy)
		if errors.Is(err, fairsem.ErrUnavailable) { // this machine is so slow that the call was given up
			continue
		}
		w.release(w.must(first, err)) // afterwards no script must be loaded, nothing is to be released, and a connection is ready
		proxy.HoldReplies()
		late := acquire(t.Context(), a, heavy)
		w.eventually(func() bool { return !late.waits() || w.status(b).Used == heavy }, "the server does not grant it")
		if !late.waits() { // nor has it been sent
			require.ErrorIs(t, late.err, fairsem.ErrUnavailable)
			proxy.Resume()
			continue
		}
		next := acquire(t.Context(), b, heavy)
		w.eventually(func() bool { return w.status(b).Waiting == 1 || !next.waits() || !late.waits() }, "the call does not queue")
		if !next.waits() { // the lease of the late one was over before
			proxy.Resume()
			w.release(w.granted(next))
			if <-late.done; late.err == nil {
				w.release(late.permit)
			}
			continue
		}
		resume := time.AfterFunc(w.ttl/4, proxy.Resume) // the network is slow
		<-late.done
		resume.Stop()
		if errors.Is(late.err, fairsem.ErrUnavailable) {
			proxy.Resume()
			w.release(w.granted(next))
			continue
		}
		p := w.granted(late)
		proxy.Hold()
		q := w.granted(next)
		require.Error(t, p.Context().Err(), "two live permits for one unit")
		proxy.Resume()
		require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
		w.release(q)
		tried++
	}
}

func TestStoppedServerEndsPermitsInTimeAndExpiresThemLater(t *testing.T) {
	w, server := privately(t)
	w.ttl = 3 * time.Second // a busy machine takes a part of it
	s := w.semaphore()
	p := w.must(s.Acquire(t.Context(), 1))
	require.NoError(t, server.Pause())
	<-p.Context().Done()
	assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
	require.NoError(t, server.Resume())
	require.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
	w.release(w.must(s.Acquire(t.Context(), 1)))
}

func TestShortStallOfTheServerLosesNothing(t *testing.T) {
	w, server := privately(t)
	w.ttl = 8 * time.Second // a busy machine takes a part of it
	s := w.semaphore()
	p := w.must(s.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), s, 1)
	require.NoError(t, server.Pause())
	more := acquire(t.Context(), s, 1)
	select {
	case <-p.Context().Done():
		t.Fatal("lost")
	case <-time.After(w.ttl / 2):
	}
	require.NoError(t, server.Resume())
	w.release(p)
	w.release(w.granted(waiter))
	w.release(w.granted(more))
}

// S7
func TestNoPermitIsDeadOnArrival(t *testing.T) {
	w := onRedis(t)
	w.ttl, w.limit = 400*time.Millisecond, 2
	var d diary
	c, proxy := w.observedNetwork(d.note)
	s := w.of(c, 2)
	direct := w.semaphore()
	require.Eventually(t, func() bool { // a busy machine can take a whole TTL for it
		p, err := s.Acquire(t.Context(), heavy)
		return err == nil && p.Release(t.Context()) == nil
	}, time.Minute, time.Millisecond) // afterwards no script must be loaded
	granted := 0
	for late := 20 * time.Millisecond; late < w.ttl || granted == 0; late = (late + 50*time.Millisecond) % (2 * w.ttl) {
		w.status(s) // has a connection ready
		proxy.HoldReplies()
		slow := acquire(t.Context(), s, heavy)
		// On a busy machine the call may be given up before it is sent.
		w.eventually(func() bool { return !slow.waits() || w.status(direct).Used == heavy }, "the server does not grant it")
		resume := time.AfterFunc(late, proxy.Resume)
		<-slow.done
		proxy.Resume()
		resume.Stop()
		if slow.err != nil {
			assert.ErrorIs(t, slow.err, fairsem.ErrUnavailable)
		} else {
			proxy.Hold()
			<-slow.permit.Context().Done()
			ended := time.Now()
			isIt := func(e fairsem.GrantedEvent) bool { return e.ID == slow.permit.ID() }
			var grants []fairsem.GrantedEvent
			w.eventually(func() bool { grants = reported[fairsem.GrantedEvent](&d); return slices.ContainsFunc(grants, isIt) }, "the grant is not reported")
			at := grants[slices.IndexFunc(grants, isIt)].At // a busy machine can return to the caller later
			assert.GreaterOrEqual(t, ended.Sub(at), w.ttl/10-time.Millisecond, "a reply that was %v late", late)
			granted++
			proxy.Resume()
			assert.ErrorIs(t, givenBack(t.Context(), slow.permit), fairsem.ErrLost)
		}
		w.eventually(func() bool { return w.status(direct).Used == 0 }, "it is not released")
	}
	w.ttl = 10 * time.Second
	w.release(w.must(w.semaphore().Acquire(t.Context(), heavy))) // removes what has expired
}

// V4
func TestAcquireReturnsOnceItsContextHasEndedInABlackHole(t *testing.T) {
	w := onRedis(t)
	w.ttl = time.Hour // a call that waits for an answer hangs
	c, proxy := w.network()
	s := w.of(c, 1)
	holder := w.must(s.Acquire(t.Context(), 1))
	for i := range 9 {
		ctx, cancel := context.WithCancel(t.Context())
		var waiter *call
		if i%3 == 0 {
			waiter = w.queueFromOutside(ctx, s)
			proxy.Hold()
		} else {
			proxy.Hold()
			waiter = acquire(ctx, s, 1)
		}
		cancel()
		<-waiter.done
		require.ErrorIs(t, waiter.err, context.Canceled)
		proxy.Resume()
	}
	w.release(holder)
	w.eventually(func() bool { return w.status(s).Waiting == 0 }, "a position in the queue is left behind")
}

// queueFromOutside is queue for a client whose network may still be catching up.
func (w *world) queueFromOutside(ctx context.Context, s *fairsem.Semaphore) *call {
	w.t.Helper()
	inLine := func() int64 { return w.rdb.ZCard(w.t.Context(), w.key("queue")).Val() }
	w.eventually(func() bool { return inLine() == 0 }, "the queue does not become empty")
	c := acquire(ctx, s, 1)
	w.eventually(func() bool { return inLine() == 1 }, "the call does not queue")
	return c
}

// The other half of V2: if every message is lost, the renewals find the grants.
func TestWithoutMessagesWaitersAreGrantedByTheirRefresh(t *testing.T) {
	w := onRedis(t)
	w.ttl = 4 * time.Second // a third of it has to pass, and on a busy machine no lease must end before
	s := w.of(w.clientOn(deaf{w.connect().(*redis.Client)}, fairsem.Options{TTL: w.ttl}), 1)
	other := w.semaphore()
	for range 3 {
		p := w.must(other.Acquire(t.Context(), 1))
		waiter := w.queue(t.Context(), s, 1)
		w.release(p)
		w.release(w.granted(waiter))
	}
}

// The call was forgotten when its repetition was refused: its unit stayed taken for a TTL, and nothing said so.
func TestAcquireWhoseAnswerWasLostIsReleasedThoughItsRepetitionWasRefused(t *testing.T) {
	w, server := privately(t)
	w.ttl = time.Hour
	var password atomic.Value
	rotate := func(to string) {
		require.NoError(t, w.rdb.Do(t.Context(), "ACL", "SETUSER", "app", "on", "resetpass", ">"+to, "~*", "&*", "+@all").Err())
	}
	rotate("old")
	password.Store("old")
	proxy := redistest.NewProxy(t, server.Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), PoolSize: 1, CredentialsProvider: func() (string, string) {
		return "app", password.Load().(string)
	}})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	s := w.of(w.clientOn(rdb, fairsem.Options{TTL: w.ttl}), 1)
	for _, text := range fairsem.ScriptTexts() { // else the answer that is lost may be that a script is not known
		require.NoError(t, w.rdb.ScriptLoad(t.Context(), text).Err())
	}
	w.release(w.must(s.Acquire(t.Context(), 1))) // on a server that was just started it waits
	w.eventually(func() bool {                   // a second open connection would have the repetition answered
		var open []string
		for line := range strings.Lines(w.rdb.Do(t.Context(), "CLIENT", "LIST", "TYPE", "normal").Val().(string)) {
			if strings.Contains(line, " user=app ") {
				open = append(open, strings.TrimPrefix(strings.Fields(line)[0], "id="))
			}
		}
		for _, id := range open[min(1, len(open)):] { // go-redis dials ahead, even with a pool of one
			require.NoError(t, w.rdb.Do(t.Context(), "CLIENT", "KILL", "ID", id).Err())
		}
		w.release(w.must(s.Acquire(t.Context(), 1)))
		return len(open) == 1
	}, "it has no single connection")
	rotate("new") // connections that are open stay so
	proxy.LoseReply(1, false)
	_, err := s.Acquire(t.Context(), 1)
	require.ErrorContains(t, err, "WRONGPASS")
	assert.Equal(t, int64(1), w.rdb.ZCard(t.Context(), w.key("owner")).Val())
	password.Store("new")
	w.eventually(func() bool { return w.rdb.ZCard(t.Context(), w.key("owner")).Val() == 0 }, "its unit stays taken")
}

// deaf subscribes to a channel without messages.
type deaf struct{ *redis.Client }

func (d deaf) Subscribe(ctx context.Context, _ ...string) *redis.PubSub {
	return d.Client.Subscribe(ctx, "fairsem-test:silence")
}

// go-redis does not notice that a subscription is dead when its connection stays open.
func TestDeadSubscriptionIsNoticedAndRenewed(t *testing.T) {
	w := onRedis(t)
	w.ttl = 4 * time.Second // a third of it has to pass, and on a busy machine no lease must end before
	line := &deadLine{}
	ears := redis.NewClient(&redis.Options{Addr: redistest.SharedServer(t).Addr(), Dialer: line.dial})
	t.Cleanup(func() { assert.NoError(t, ears.Close()) })
	s := w.of(w.clientOn(split{w.connect().(*redis.Client), ears}, fairsem.Options{TTL: w.ttl}), 1)
	other := w.semaphore()

	p := w.must(other.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), s, 1)
	w.eventually(func() bool { return line.dials.Load() == 1 }, "it does not subscribe")
	line.dead.Store(1) // all connections up to the first
	w.release(p)
	w.release(w.granted(waiter))
	w.eventually(func() bool { return line.dials.Load() == 2 }, "it does not subscribe again")
}

// split subscribes with a separate client.
type split struct {
	*redis.Client
	ears *redis.Client
}

func (s split) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return s.ears.Subscribe(ctx, channels...)
}

// deadLine makes connections from which nothing arrives once they are marked as dead.
type deadLine struct {
	dials atomic.Int64
	dead  atomic.Int64
}

func (d *deadLine) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &deadConn{conn, d, d.dials.Add(1)}, err
}

type deadConn struct {
	net.Conn
	line   *deadLine
	number int64
}

func (c *deadConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || c.line.dead.Load() < c.number {
			return n, err
		}
	}
}

// S4: a script whose reply is lost has run, and is sent again.
func TestLostRepliesGrantNothingTwiceAndLeakNothing(t *testing.T) {
	t.Parallel()
	for every := int64(1); every <= 4; every++ {
		t.Run(string('0'+rune(every)), func(t *testing.T) {
			w := onRedis(t)
			w.limit = 5
			rdb := w.connect().(*redis.Client)
			loss := &lostReplies{every: every + 1}
			rdb.AddHook(loss)
			s := w.of(w.clientOn(rdb, fairsem.Options{}), w.limit)
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					for range 5 {
						p, err := s.Acquire(t.Context(), int64(1+i%3))
						if assert.NoError(t, err) {
							assert.NoError(t, givenBack(t.Context(), p))
						}
					}
				})
			}
			all.Wait()
			require.Positive(t, loss.lost.Load())
			st := w.status(w.semaphore())
			assert.Zero(t, st.Used)
			assert.Zero(t, st.Waiting)
		})
	}
}

// lostReplies is a go-redis hook that executes pipelines and loses the reply of every nth. After the next pipeline it delivers the
// commands of the lost one again, as a slow network does.
type lostReplies struct {
	testclient.Hook
	every int64
	count atomic.Int64
	lost  atomic.Int64

	mu   sync.Mutex
	late [][]any
}

func (l *lostReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if l.count.Add(1)%l.every == 0 {
			l.lost.Add(1)
			for _, c := range cmds {
				l.remember(c.Args())
				c.SetErr(io.EOF)
			}
			return io.EOF
		}
		var late []redis.Cmder
		for _, args := range l.forget() {
			late = append(late, redis.NewCmd(ctx, args...))
		}
		if len(late) > 0 {
			_ = next(ctx, late) // these replies are not read
		}
		return err
	}
}

func (l *lostReplies) remember(args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = append(l.late, args)
}

func (l *lostReplies) forget() [][]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := l.late
	l.late = nil
	return late
}

// S4: a copy of an acquire that arrives after its release must not be granted.
func TestAcquireThatArrivesAfterItsReleaseIsNotGranted(t *testing.T) {
	w := onRedis(t)
	rdb := w.connect().(*redis.Client)
	straggler := &straggler{}
	rdb.AddHook(straggler)
	s := w.of(w.clientOn(rdb, fairsem.Options{}), 1)
	p := w.must(s.Acquire(t.Context(), 1)) // the first delivery is held, the second succeeds
	w.release(p)
	straggler.arrive(t, w)
	assert.Zero(t, w.status(s).Used)
}

// straggler holds the first pipeline with a script and reports a broken connection.
type straggler struct {
	testclient.Hook
	mu   sync.Mutex
	held [][]any
}

// arrive delivers the held pipeline.
func (s *straggler) arrive(t *testing.T, w *world) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.held)
	for _, args := range s.held {
		require.NoError(t, w.rdb.Do(t.Context(), args...).Err())
	}
}

func (s *straggler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" || !s.take(cmds) {
			return next(ctx, cmds)
		}
		for _, c := range cmds {
			c.SetErr(io.EOF)
		}
		return io.EOF
	}
}

// take holds the commands, unless it already holds some.
func (s *straggler) take(cmds []redis.Cmder) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		return false
	}
	for _, c := range cmds {
		s.held = append(s.held, copyOf(c))
	}
	return true
}

// S11, V5
func TestNothingIsGrantedWithoutAServerAndAllWorksAgainWithOne(t *testing.T) {
	w, server := privately(t)
	w.ttl = 2 * time.Second
	s := w.semaphore()
	require.NoError(t, server.Kill())
	patience := fairsem.CallOptions{TTL: 10 * time.Second} // go-redis takes half a second to report that it cannot connect, and longer on a busy machine
	_, err := s.With(patience).Acquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	var refused *net.OpError
	require.ErrorAs(t, err, &refused, "the cause is wrapped")
	require.ErrorContains(t, err, "no answer from Redis for 10s")
	_, err = s.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	_, err = s.Status(t.Context())
	require.ErrorIs(t, err, fairsem.ErrUnavailable)

	patient := w.of(w.clientOn(w.connect(), fairsem.Options{TTL: time.Hour}), 1) // a renewal would come too late
	waiter := acquire(t.Context(), patient, 1)
	require.NoError(t, server.Restart())
	w.release(w.granted(waiter))
}

func TestReleaseThatCannotReachRedisReturnsErrUnavailable(t *testing.T) {
	w, server := privately(t)
	w.ttl = 6 * time.Second // a stall must not end the lease before the release
	s := w.semaphore()
	p := w.must(s.Acquire(t.Context(), 1))
	require.NoError(t, server.Pause())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Release(ctx), context.DeadlineExceeded)
	require.Error(t, p.Context().Err())
	require.ErrorIs(t, p.Release(t.Context()), fairsem.ErrUnavailable)
	require.NoError(t, server.Resume())
	w.release(w.must(s.Acquire(t.Context(), 1))) // it has expired, or was released
}

// line returns the ids of the waiters.
func (w *world) line(s *fairsem.Semaphore) []string {
	w.t.Helper()
	var ids []string
	for ticket, err := range s.Waiters(w.t.Context()) {
		require.NoError(w.t, err)
		ids = append(ids, ticket.ID)
	}
	return ids
}

// A waiter that was not renewed for a TTL has lost its position, and Acquire queues again.
func TestWaiterWhoseLeaseExpiredJoinsTheEndOfTheQueue(t *testing.T) {
	w := onRedis(t)
	w.ttl = 6 * time.Second
	s, other := w.semaphore(), w.semaphore()
	holder := w.must(other.Acquire(t.Context(), 1))
	first, second := w.queue(t.Context(), s, 1), w.queue(t.Context(), other, 1)
	head := w.line(s)[0]
	require.NoError(t, w.rdb.ZAdd(t.Context(), w.key("timeout"), redis.Z{Score: 1, Member: head}).Err())
	w.eventually(func() bool {
		line := w.line(s)
		return len(line) == 2 && !slices.Contains(line, head)
	}, "it does not queue again")
	w.release(holder)
	w.release(w.granted(second))
	w.release(w.granted(first))
}

func TestPermitDeletedOnTheServerIsReportedAsLost(t *testing.T) {
	w := onRedis(t)
	w.ttl = 6 * time.Second
	s := w.semaphore()
	p := w.must(s.Acquire(t.Context(), 1))
	w.takeAway(p.ID())
	<-p.Context().Done()
	assert.ErrorIs(t, context.Cause(p.Context()), fairsem.ErrLost)
	assert.ErrorIs(t, givenBack(t.Context(), p), fairsem.ErrLost)
}

func TestDoReportsALossThatItsFunctionDidNotSee(t *testing.T) {
	w := onRedis(t)
	w.ttl = 3 * time.Second // a busy machine takes a part of it
	s := w.semaphore()
	err := s.Do(t.Context(), 1, func(ctx context.Context) error {
		require.NoError(t, w.rdb.Del(ctx, w.key("owner"), w.key("timeout")).Err())
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), fairsem.ErrLost)
		return nil
	})
	require.ErrorIs(t, err, fairsem.ErrLost)
}

// S10: OOM
func TestFullServerRefusesNewCallsAndGrantsWhatIsReleasedToWaiters(t *testing.T) {
	w, _ := privately(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	w.ttl, w.limit = 6*time.Second, 3 // renewed every 2 s
	s := w.semaphore()
	p := w.must(s.Acquire(t.Context(), 2))
	first, second := w.queue(t.Context(), s, 2), w.queue(t.Context(), s, 2)
	big := strings.Repeat("x", 1<<16)
	var err error
	for i := 0; err == nil; i++ {
		err = w.rdb.RPush(t.Context(), "filler", big).Err()
	}
	require.True(t, failure.Begins(err, "OOM"), err)
	require.NoError(t, w.rdb.ConfigSet(t.Context(), "maxmemory", "3mb").Err()) // far less than is in use
	asksInVain := func(lease time.Duration) error {
		_, err := s.With(fairsem.CallOptions{TTL: lease}).Acquire(t.Context(), 1)
		assert.ErrorIs(t, err, fairsem.ErrUnavailable)
		return err
	}
	before, tries, refused := w.sent("evalsha"), int64(0), make(chan error, 1)
	go func() { refused <- asksInVain(2 * time.Second) }() // ends after 2 s
	for err = nil; err == nil; {
		select {
		case err = <-refused:
		default:
			_, try := s.TryAcquire(t.Context(), 1) // a full server answers that, as others wait
			assert.ErrorIs(t, try, fairsem.ErrNotAcquired)
			tries++
		}
	}
	require.True(t, failure.Begins(err, "OOM"), err)
	assert.Positive(t, tries)
	assert.Less(t, w.sent("evalsha")-before-tries, int64(60), "each answer to another call made the client ask again at once")
	require.Regexp(t, noUsableAnswer("2s", "OOM"), err.Error())
	deadline := func() float64 { return w.rdb.ZScore(t.Context(), w.key("timeout"), p.ID()).Val() }
	for range 2 {
		before := deadline()
		w.eventually(func() bool {
			_ = asksInVain(500 * time.Millisecond) // it is checked there
			return deadline() > before
		}, "a full server renews")
	}
	require.NoError(t, p.Context().Err())
	require.NoError(t, s.SetLimit(t.Context(), 4))
	q := w.granted(first)
	assert.True(t, second.waits())
	w.release(p)
	w.release(w.granted(second))
	w.release(q)
	require.True(t, redis.IsOOMError(w.rdb.RPush(t.Context(), "filler", "x").Err()), "it was full until here")
	require.NoError(t, w.rdb.Del(t.Context(), "filler").Err())
	require.NoError(t, s.ResetLimit(t.Context()))
	w.release(w.must(s.Acquire(t.Context(), 3)))
}

// sent returns how often a command was sent to a single server.
func (w *world) sent(command string) int64 {
	w.t.Helper()
	stats := w.rdb.Info(w.t.Context(), "commandstats").Val()
	found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(stats)
	require.NotNil(w.t, found, stats)
	n, err := strconv.ParseInt(found[1], 10, 64)
	require.NoError(w.t, err)
	return n
}

// noUsableAnswer matches what is said of a server that has refused every try, the last of which it may not have answered yet.
func noUsableAnswer(span, reply string) string {
	return "(no usable answer from Redis for " + span + ": |no answer from Redis for " + span + ": no answer in time; before that: )" + reply
}

func TestReadOnlyReplicaGrantsNothing(t *testing.T) {
	w, primary := privately(t)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	replica := redistest.NewServer(t, "--replicaof", host, port)
	rdb := redis.NewClient(&redis.Options{Addr: replica.Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	s := w.of(w.clientOn(rdb, fairsem.Options{TTL: 3 * time.Second}), 1)
	_, err = s.Acquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	assert.True(t, failure.Begins(err, "READONLY"), err)
	assert.Regexp(t, noUsableAnswer("3s", "READONLY"), err.Error()) // as Redis 7 says it
	_, err = s.Status(t.Context())
	assert.NoError(t, err)
}

func TestMissingRightIsAnErrorAtOnceThatNamesTheListOfRights(t *testing.T) {
	w, _ := privately(t)
	// All rights that are needed, except ZADD.
	require.NoError(t, w.rdb.Do(t.Context(), "acl", "setuser", "limited", "on", ">secret", "~fairsem:*", "resetchannels", "&fairsem:*", "-@all",
		"+evalsha", "+eval", "+hello", "+ping", "+time", "+hmget", "+hset", "+hget", "+hdel", "+hlen", "+zcard", "+zcount", "+pttl", "+get", "+set", "+zrange",
		"+zmscore", "+pexpireat", "+subscribe").Err())
	w.ttl = time.Hour // no retry hides it
	s := w.of(w.clientOn(w.as("limited", "secret"), fairsem.Options{TTL: w.ttl}), 1)
	_, err := s.Acquire(t.Context(), 1)
	require.Error(t, err)
	assert.ErrorContains(t, err, "rights that docs/operations.md lists")
	assert.NotContains(t, err.Error(), "secret")
	assert.Zero(t, w.status(w.semaphore()).Used)
}

// as connects with another user.
func (w *world) as(user, password string) redis.UniversalClient {
	opts := *w.rdb.(*redis.Client).Options()
	opts.Username, opts.Password = user, password
	rdb := redis.NewClient(&opts)
	w.t.Cleanup(func() { assert.NoError(w.t, rdb.Close()) })
	return rdb
}

func TestAcquireWaitsForABusyServer(t *testing.T) {
	w, server := privately(t)
	require.NoError(t, w.rdb.ConfigSet(t.Context(), "lua-time-limit", "1").Err())
	s := w.semaphore()
	spin := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { assert.NoError(t, spin.Close()) })
	var spinning sync.WaitGroup
	spinning.Go(func() { _ = spin.Eval(context.WithoutCancel(t.Context()), "while true do end", nil).Err() })
	w.eventually(func() bool { return redis.HasErrorPrefix(w.rdb.Ping(t.Context()).Err(), "BUSY") }, "it is not busy")
	waiter := acquire(t.Context(), s, 1)
	w.eventually(func() bool { return w.rdb.ScriptKill(t.Context()).Err() == nil }, "it stays busy")
	spinning.Wait()
	w.release(w.granted(waiter))
}

func TestConnectionsKilledByTheServerLoseNothing(t *testing.T) {
	w, _ := privately(t)
	w.limit = 3
	a, b := w.semaphore(), w.semaphore()
	granted, finished := make(chan struct{}, 120), make(chan struct{})
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for range 10 {
				p, err := []*fairsem.Semaphore{a, b}[i%2].Acquire(t.Context(), int64(1+i%3))
				if assert.NoError(t, err) {
					granted <- struct{}{}
					assert.NoError(t, w.givenBack(p))
				}
			}
		})
	}
	go func() { // ends with all
		all.Wait()
		close(finished)
	}()
	var pubsub, normal int64
	for {
		select {
		case <-finished:
			assert.Positive(t, pubsub)
			assert.Positive(t, normal)
			return
		case <-granted: // an answer has arrived since the last time, however slow the machine is
			pubsub += w.rdb.ClientKillByFilter(t.Context(), "type", "pubsub").Val()
			normal += w.rdb.ClientKillByFilter(t.Context(), "type", "normal", "skipme", "yes").Val()
		}
	}
}

// The answer to a renewal can say "waiting" after a message has reported the grant.
func TestGrantRemainsWhenAnOlderAnswerComesAfterIt(t *testing.T) {
	w := onRedis(t)
	w.ttl = 6 * time.Second // a busy machine takes a part of it
	rdb := w.connect().(*redis.Client)
	slow := &heldReply{ran: make(chan struct{}), resume: make(chan struct{})}
	rdb.AddHook(slow)
	other := w.semaphore()
	holder := w.must(other.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), w.of(w.clientOn(rdb, fairsem.Options{TTL: w.ttl}), 1), 1)
	slow.armed.Store(true)
	<-slow.ran // a refresh
	w.release(holder)
	p := w.granted(waiter)
	close(slow.resume)
	next := w.queue(t.Context(), other, 1)
	w.eventually(func() bool { return w.status(other).OldestWait > w.ttl+time.Second }, "time stands still")
	require.NoError(t, p.Context().Err(), "it is not renewed")
	w.release(p)
	w.release(w.granted(next))
}

// heldReply is a go-redis hook that holds the reply of one pipeline. It waits for one in which the server knows all scripts: else it would
// hold no answer, but what has the client send the text.
type heldReply struct {
	testclient.Hook
	armed       atomic.Bool
	ran, resume chan struct{}
}

func (h *heldReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if runsScript(cmds) && !unknownScript(cmds) && h.armed.CompareAndSwap(true, false) {
			close(h.ran)
			<-h.resume
		}
		return err
	}
}

// runsScript tells a call from a label, which may be sent at any time.
func runsScript(cmds []redis.Cmder) bool {
	return slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") })
}

func unknownScript(cmds []redis.Cmder) bool {
	return slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") })
}

func TestReleaseDuringCloseOfAClientThatCannotReachRedisEnds(t *testing.T) {
	w, server := privately(t)
	c, err := fairsem.New(w.connect(), fairsem.Options{TTL: time.Hour})
	require.NoError(t, err)
	p := w.must(w.of(c, 1).Acquire(t.Context(), 1))
	require.NoError(t, server.Pause())
	released := make(chan error)
	go func() { released <- p.Release(context.WithoutCancel(t.Context())) }() // ends with Close
	require.ErrorIs(t, c.Close(), fairsem.ErrUnavailable)
	require.ErrorIs(t, <-released, fairsem.ErrUnavailable)
	require.NoError(t, server.Resume())
	require.NoError(t, w.rdb.Del(t.Context(), w.key("owner"), w.key("timeout")).Err())
}

// go-redis without a ReadTimeout waits for a silent server for ever, and Close waited for go-redis.
func TestCloseReturnsAnErrorIfGoRedisDoesNotReturn(t *testing.T) {
	w := onRedis(t)
	proxy := redistest.NewProxy(t, redistest.SharedServer(t).Addr())
	rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr(), ReadTimeout: -1})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	c, err := fairsem.New(rdb, fairsem.Options{TTL: w.ttl})
	require.NoError(t, err)
	w.must(w.of(c, 1).Acquire(t.Context(), 1))
	proxy.Hold()
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }() // ends with Close
	select {
	case err := <-closed:
		require.ErrorIs(t, err, fairsem.ErrUnavailable)
		assert.ErrorContains(t, err, "script calls")
		assert.ErrorContains(t, err, "ReadTimeout in each attempt")
	case <-time.After(time.Minute):
		t.Error("Close hangs")
	}
	proxy.Resume() // and go-redis returns
	w.release(w.must(w.semaphore().Acquire(t.Context(), 1)))
}
