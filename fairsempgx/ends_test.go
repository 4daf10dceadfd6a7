package fairsempgx_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/fairsempgx"
	"github.com/fairsem/fairsem/internal/redistest"
)

// Calls, connections and pools that end at an awkward moment.

// silence has the first host of a config accept, and never answer.
func (w *world) silence(c *pgxpool.Config) {
	w.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts
	require.NoError(w, err)
	w.Cleanup(func() { _ = silent.Close() })
	c.ConnConfig.Host, c.ConnConfig.Port = "127.0.0.1", uint16(silent.Addr().(*net.TCPAddr).Port)
}

// The end of the wait for the first host was the deadline of its Close, too, and the second was dialled beside it without a permit.
func TestConnectionToASecondHostHoldsAUnit(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := w.config(1)
	c.ConnConfig.Fallbacks = []*pgconn.FallbackConfig{{Host: c.ConnConfig.Host, Port: c.ConnConfig.Port}}
	w.silence(c)
	c.ConnConfig.ConnectTimeout = time.Second
	require.NoError(t, fairsempgx.Configure(c, s))
	p := w.open(c)
	var conn *pgxpool.Conn
	w.Eventually(func() bool { // a second may not be enough for the other host either
		var err error
		conn, err = p.Acquire(t.Context())
		return err == nil
	}, "there is no connection")
	defer conn.Release()
	assert.Equal(t, int64(1), w.Status(s).Used)
	w.Evict(s)
	w.Eventually(func() bool { return w.sessions() == 0 }, "it outlives its permit")
}

// lateAddr is a connection whose address is known late: pgx asks for it when it dials to cancel a query.
type lateAddr struct {
	net.Conn
	known chan struct{}
}

func (c lateAddr) RemoteAddr() net.Addr {
	<-c.known
	return c.Conn.RemoteAddr()
}

// pgx also requests to cancel what a server does that breaks off a handshake, while it dials the next host. That took a unit, or that of
// the next host, whose connection then had none.
func TestRequestToCancelAHandshakeNeedsNoUnit(t *testing.T) {
	breaks, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = breaks.Close() })
	go func() { // ends with the listener
		for {
			c, err := breaks.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1024))
			_ = c.Close()
		}
	}()
	for name, least := range map[string]int32{"for a call": 0, "in the background": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.Semaphore(2)
			c := w.config(2)
			c.MinConns = least
			c.ConnConfig.Fallbacks = []*pgconn.FallbackConfig{{Host: c.ConnConfig.Host, Port: c.ConnConfig.Port}}
			c.ConnConfig.Host, c.ConnConfig.Port = "127.0.0.1", uint16(breaks.Addr().(*net.TCPAddr).Port)
			open := c.ConnConfig.DialFunc
			var dials atomic.Int32
			second, canceled := make(chan struct{}), make(chan struct{})
			c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
				switch dials.Add(1) {
				case 1:
					inner, err := open(ctx, network, address)
					return lateAddr{inner, second}, err
				case 2:
					close(second)
					<-canceled
					return open(ctx, network, address)
				case 3:
					close(canceled)
				}
				return nil, net.ErrClosed
			}
			require.NoError(t, fairsempgx.Configure(c, s))
			p := w.open(c)
			w.Eventually(func() bool { return least == 0 || p.Stat().IdleConns() == 1 }, "pgxpool opens no connection by itself")
			for range 2 {
				_, err := p.Exec(t.Context(), "SELECT 1")
				require.NoError(t, err)
			}
			assert.EqualValues(t, 3, dials.Load())
			assert.Equal(t, int64(1), w.Status(s).Granted)
		})
	}
}

// Close waited for five seconds for a server that had not answered, and so did the call, or the dial of the next host. That server may
// just be slow.
func TestCallThatNoServerAnswersFailsWhileItsUnitIsHeldForTheSession(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := w.config(1)
	w.silence(c)
	c.ConnConfig.ConnectTimeout = 100 * time.Millisecond
	require.NoError(t, fairsempgx.Configure(c, s))
	_, err := w.open(c).Exec(t.Context(), "SELECT 1")
	require.Error(t, err)
	for range 20 { // a release that was on its way would be counted
		assert.Equal(t, int64(1), w.Status(s).Used)
	}
	w.EventuallyUsed(s, 0)
}

// beforeTaking is a context whose function pgxpool calls right before it takes an idle connection.
type beforeTaking struct {
	context.Context
	f func()
}

func (c beforeTaking) Done() <-chan struct{} {
	c.f()
	return c.Context.Done()
}

// A check of pgxpool takes idle connections for a moment, and returns them without a word. A call that found none waited until its
// context ended for the permit of the connection that was idle again.
func TestCallWhoseIdleConnectionWasTakenForAMomentIsServed(t *testing.T) {
	w := newWorld(t)
	c := w.config(2)
	var taken []*pgxpool.Conn
	c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
		for _, conn := range taken {
			conn.Release() // as the check does: no dial waits yet
		}
		return nil
	}
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(1)))
	p := w.open(c)
	w.take(p).Release()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := p.Acquire(beforeTaking{ctx, sync.OnceFunc(func() { taken = p.AcquireAllIdle(ctx) })})
	require.NoError(t, err)
	got.Release()
	assert.Len(t, taken, 1)
}

// observed returns the semaphore of a client, and a channel that gets a value for each of its events that is one of those.
func observed(w *world, is func(fairsem.Event) bool) (s *fairsem.Semaphore, seen <-chan struct{}) {
	w.Helper()
	all := make(chan struct{}, 100)
	s, err := w.Observed(func(e fairsem.Event) {
		if is(e) {
			all <- struct{}{}
		}
	}).Semaphore(w.LimitName, 1)
	require.NoError(w, err)
	return s, all
}

func isEnd(e fairsem.Event) bool {
	switch e.(type) {
	case fairsem.LostEvent, fairsem.ReleasedEvent:
		return true
	}
	return false
}

func isRefusal(e fairsem.Event) bool {
	_, is := e.(fairsem.NotAcquiredEvent)
	return is
}

// With KeepOpen the connection would be one without a unit.
func TestPermitThatIsLostRightBeforeTheDialIsNotUsed(t *testing.T) {
	w := newWorld(t)
	s, ended := observed(w, isEnd)
	c := w.config(1)
	evict := sync.OnceFunc(func() {
		for held, err := range s.Holders(t.Context()) {
			if assert.NoError(t, err) {
				_ = s.Evict(t.Context(), held.ID) // on a busy machine the pool has released it by now
			}
		}
		<-ended
	})
	c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { evict(); return nil }
	require.NoError(t, fairsempgx.Options{OnLost: fairsemnet.KeepOpen}.Configure(c, s))
	w.take(w.open(c))
	assert.Equal(t, int64(1), w.Status(s).Used)
}

// Only with a call this package learned of the pool.
func TestIdleConnectionsOfAPoolWithoutCallsAreClosedWhenAnotherProcessWaits(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	c := w.config(10)
	c.MinIdleConns = 2
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(2)))
	a := w.open(c)
	w.Eventually(func() bool { return a.Stat().IdleConns() == 2 }, "there are no MinIdleConns")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := w.pool(w.Semaphore(2), 10).Acquire(ctx)
	require.NoError(t, err)
	got.Release()
}

// As with a pool that shares nothing: a handler that needs a second connection would keep Close from ending.
func TestCallOnAClosedPoolFailsWhileConnectionsAreOpen(t *testing.T) {
	for how, keep := range map[string]func(c *pgxpool.Conn) (end func()){
		"in use": func(c *pgxpool.Conn) func() { return c.Release },
		"hijacked": func(c *pgxpool.Conn) func() {
			mine := c.Hijack()
			return func() { _ = mine.Close(context.Background()) }
		},
	} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			p := w.pool(w.Semaphore(1), 2)
			c, err := p.Acquire(t.Context())
			require.NoError(t, err)
			end := keep(c)
			closed := make(chan struct{})
			go func() { p.Close(); close(closed) }() // ends with c
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = p.Acquire(ctx)
			require.Error(t, err)
			assert.NoError(t, ctx.Err(), "the call waits")
			end()
			<-closed
		})
	}
}

func TestClosedPoolDoesNotWaitForARedisThatHangs(t *testing.T) {
	w := newWorld(t)
	server := redistest.NewServer(t)
	w.Redis, w.TTL = server.Addr(), 5*time.Minute
	c := w.config(2)
	c.MinIdleConns = 1
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(1)))
	require.NoError(t, server.Pause())
	defer func() { assert.NoError(t, server.Resume()) }()
	p := w.open(c)
	w.Eventually(func() bool { return p.Stat().ConstructingConns() > 0 }, "the pool dials nothing")
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(40 * time.Second): // a minute, when it waits for Redis
		t.Error("it waits for Redis")
		<-closed
	}
}

// A connection whose session ends slowly is being closed, and no other is to be closed for it.
func TestConnectionThatIsBeingClosedIsNotClosedTwice(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	c := w.config(4)
	ended := endSlowly(c)
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(4)))
	a := w.open(c)
	defer close(ended)
	var all []*pgxpool.Conn
	for range 4 {
		all = append(all, w.take(a))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := w.Semaphore(4)
	for range 2 {
		go func() { _, _ = s.Acquire(ctx, 1) }() // ends with ctx
	}
	all[0].Release()
	all[1].Release()
	w.Eventually(func() bool { return a.Stat().TotalConns() == 2 }, "nothing is closed for the other process")
	pid := all[2].Conn().PgConn().PID()
	all[2].Release()
	query, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	for range 300 { // several looks at the parts of all
		var now uint32
		require.NoError(t, a.QueryRow(query, "SELECT pg_backend_pid() FROM pg_sleep(0.005)").Scan(&now))
		require.Equal(t, pid, now, "another connection was closed, and a new one dialled")
	}
}

func TestFullQueueDoesNotFailACallThatADialServes(t *testing.T) {
	w := newWorld(t)
	w.TTL = time.Hour // after a third of it the pool would close its connection for the call of another process
	s, refused := observed(w, isRefusal)
	c := w.config(10)
	open, goOn := c.ConnConfig.DialFunc, make(chan struct{})
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		<-goOn
		return open(ctx, network, address)
	}
	require.NoError(t, fairsempgx.Configure(c, s.With(fairsem.CallOptions{MaxQueue: 1})))
	p := w.open(c)
	ended := make(chan error, 2)
	query := func() { // ends when the dial goes on
		_, err := p.Exec(t.Context(), "SELECT 1")
		ended <- err
	}
	go query()
	w.EventuallyUsed(s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	other, left := w.Semaphore(1), make(chan error, 1)
	go func() { // ends with ctx, or when the pool gives its connection up: an answer to it may bring the message that another waits
		p, err := other.Acquire(ctx, 1)
		if err == nil {
			err = p.Release(ctx)
		}
		left <- err
	}()
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the queue is not full")
	go query()
	<-refused
	close(goOn)
	for range cap(ended) {
		assert.NoError(t, <-ended)
	}
	cancel()
	if err := <-left; err != nil {
		assert.ErrorIs(t, err, context.Canceled)
	}
}
