package fairsempgx_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/tracelog"
	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/fairsempgx"
)

func TestConnectionHoldsAUnitUntilItsSessionHasEnded(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(3)
	p := w.pool(s, 10)
	a, b := w.take(p), w.take(p)
	assert.Equal(t, int64(2), w.Status(s).Used)
	a.Release()
	b.Release()
	assert.Equal(t, int64(2), w.Status(s).Used, "idle connections are open")
	p.Close()
	assert.Zero(t, w.sessions())
	w.EventuallyUsed(s, 0)
}

// slowEnd is a connection whose peer ends the session late. Like that of many a DialFunc it has no CloseWrite.
type slowEnd struct {
	net.Conn
	ended chan struct{}
}

func (c slowEnd) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		<-c.ended
	}
	return n, err
}

// slowHalf is one that has it.
type slowHalf struct{ slowEnd }

func (c slowHalf) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// wrapDials has a pool use the connections that wrap returns.
func wrapDials(c *pgxpool.Config, wrap func(net.Conn) net.Conn) {
	open := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := open(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wrap(inner), nil
	}
}

// endSlowly has the peers of a pool end their sessions only when the returned channel is closed.
func endSlowly(c *pgxpool.Config) (ended chan struct{}) {
	ended = make(chan struct{})
	wrapDials(c, func(inner net.Conn) net.Conn { return slowHalf{slowEnd{inner, ended}} })
	return ended
}

// The server frees the slot only then.
func TestUnitIsHeldUntilTheServerHasEndedTheSession(t *testing.T) {
	for how, wrap := range map[string]func(slowEnd) net.Conn{
		"CloseWrite": func(c slowEnd) net.Conn { return slowHalf{c} },
		"Terminate":  func(c slowEnd) net.Conn { return c },
	} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			s := w.Semaphore(1)
			c := w.config(1)
			ended := make(chan struct{})
			wrapDials(c, func(inner net.Conn) net.Conn { return wrap(slowEnd{inner, ended}) })
			require.NoError(t, fairsempgx.Configure(c, s))
			p := w.open(c)
			w.take(p).Release()
			p.Reset()
			w.Eventually(func() bool { return w.sessions() == 0 }, "the session is not ended")
			for range 20 { // a release that was on its way would be counted
				assert.Equal(t, int64(1), w.Status(s).Used)
			}
			close(ended)
			w.EventuallyUsed(s, 0)
		})
	}
}

// lastError is a connection that keeps the last error of Read, and has no CloseWrite.
type lastError struct {
	net.Conn
	err atomic.Pointer[error]
}

func (c *lastError) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.err.Store(&err)
	}
	return n, err
}

// pgx sends no Terminate where a handshake fails.
func TestServerEndsAFailedHandshakeOnAConnectionWithoutCloseWrite(t *testing.T) {
	w := newWorld(t)
	c, err := pgxpool.ParseConfig(w.server.URL() + "&sslmode=prefer&application_name=twice")
	require.NoError(t, err)
	var all []*lastError
	wrapDials(c, func(inner net.Conn) net.Conn {
		all = append(all, &lastError{Conn: inner})
		return all[len(all)-1]
	})
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(1)))
	w.take(w.open(c))
	require.Len(t, all, 2, "the first connection was refused")
	ended := all[0].err.Load()
	require.NotNil(t, ended, "nothing waits for the server")
	assert.NotErrorIs(t, *ended, os.ErrDeadlineExceeded)
}

// The deadline that pgx sets on a connection then ended the wait for the server, too.
func TestCloseEndsWithItsContextAndTheUnitIsHeldUntilTheSessionHasEnded(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c, err := w.pool(s, 1).Acquire(t.Context())
	require.NoError(t, err)
	mine := c.Hijack()
	pid := mine.PgConn().PID()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = w.during(func(sleep string) error { // its session notices nothing before it is terminated
		mine.PgConn().Frontend().SendQuery(&pgproto3.Query{String: sleep})
		return mine.PgConn().Frontend().Flush()
	}, cancel)
	_ = mine.Close(ctx) // pgx ignores the error
	for range 20 {      // a release that was on its way would be counted
		assert.Equal(t, int64(1), w.Status(s).Used)
	}
	_, err = w.admin.Exec(t.Context(), "SELECT pg_terminate_backend($1)", pid)
	require.NoError(t, err)
	w.EventuallyUsed(s, 0)
}

func TestCallGetsTheConnectionThatAnotherCallReleases(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := w.config(10)
	var dials atomic.Int64 // NewConnsCount has the pool's questions whether it was closed, too
	open := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return open(ctx, network, address)
	}
	require.NoError(t, fairsempgx.Configure(c, s))
	p := w.open(c)
	first := w.take(p)
	pid := first.Conn().PgConn().PID()
	next := make(chan uint32, 3)
	for range cap(next) {
		go func() { // ends when it had the connection
			c, err := p.Acquire(t.Context())
			if assert.NoError(t, err) {
				next <- c.Conn().PgConn().PID()
				c.Release()
			}
		}()
	}
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "no call waits")
	first.Release()
	for range cap(next) {
		assert.Equal(t, pid, <-next)
	}
	assert.Equal(t, int64(1), dials.Load())
}

func TestIdleConnectionsAreClosedWhenAnotherProcessWaits(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	w.idleAreClosed(w.Semaphore(4), w.Semaphore(4))
}

func TestIdleConnectionsAreClosedWhenAnotherPoolOfTheProcessWaits(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	s := w.Semaphore(4)
	w.idleAreClosed(s, s)
}

// idleAreClosed checks that one pool closes all of its four connections for another.
func (w *world) idleAreClosed(one, other *fairsem.Semaphore) {
	w.Helper()
	a, b := w.pool(one, 10), w.pool(other, 10)
	var all []*pgxpool.Conn
	for range 4 {
		all = append(all, w.take(a))
	}
	for _, c := range all {
		c.Release()
	}
	for range 4 {
		w.take(b)
	}
	w.Eventually(func() bool { return a.Stat().TotalConns() == 0 }, "what nobody uses stays")
}

func TestConnectionThatIsNeverIdleIsClosedWhenAnotherProcessHasLess(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	a, b := w.pool(w.Semaphore(4), 4), w.pool(w.Semaphore(4), 4)
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for range 6 {
		busy.Go(func() {
			for ctx.Err() == nil {
				_, err := a.Exec(t.Context(), "SELECT 1")
				assert.NoError(t, err)
			}
		})
	}
	w.Eventually(func() bool { return a.Stat().TotalConns() == 4 }, "the pool does not grow")
	w.take(b)
	w.take(b)
	cancel()
	busy.Wait()
	w.Eventually(func() bool { return a.Stat().TotalConns() <= 2 }, "the pool still has more than its part")
}

func TestMinConnsStayWhenAnotherProcessWaits(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	s := w.Semaphore(3)
	c := w.config(10)
	c.MinConns = 2
	require.NoError(t, fairsempgx.Configure(c, s))
	a := w.open(c)
	w.Eventually(func() bool { return a.Stat().IdleConns() == 2 }, "there are no MinConns")
	w.take(a).Release() // from here on the pool is known
	b := w.pool(w.Semaphore(3), 10)
	w.take(b)
	ctx, cancel := context.WithTimeout(t.Context(), 2*w.TTL)
	defer cancel()
	_, err := b.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, int32(2), a.Stat().TotalConns())
}

// No call gets released units then, and closed connections cannot be opened again.
func TestNothingIsClosedForOthersWhileTheNameIsPaused(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	s := w.Semaphore(4)
	c := w.config(2)
	var closes atomic.Int64
	c.BeforeClose = func(*pgx.Conn) { closes.Add(1) }
	require.NoError(t, fairsempgx.Configure(c, s))
	p := w.open(c)
	w.loadOf(func(ctx context.Context) error {
		_, err := p.Exec(ctx, "SELECT pg_sleep(0.002)")
		return err
	}, 4)
	db, dials := w.db(4, 2)
	closeAll(t, w.conns(db, 2))
	w.EventuallyUsed(s, 4)
	require.NoError(t, s.SetLimit(t.Context(), 0))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	third := w.pool(w.Semaphore(4), 1)
	go func() { _, _ = third.Exec(ctx, "SELECT 1") }() // ends with ctx
	w.Eventually(func() bool { return w.Status(s).OldestWait > w.TTL }, "no call waits")
	assert.Zero(t, closes.Load())
	assert.Equal(t, 2, db.Stats().Idle)
	assert.Equal(t, int64(2), dials.Load())
	require.NoError(t, s.ResetLimit(t.Context()))
}

// It was given a part that it cannot use, for as long as it waited.
func TestProcessWhoseTenantIsAtItsLimitIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	batch := w.pool(w.Semaphore(4).With(fairsem.CallOptions{Tenant: "batch", TenantLimit: 1}), 2)
	busy, third := w.pool(w.Semaphore(4), 4), w.pool(w.Semaphore(4), 1)
	for _, p := range []*pgxpool.Pool{batch, busy} {
		w.loadOf(func(ctx context.Context) error {
			_, err := p.Exec(ctx, "SELECT pg_sleep(0.002)")
			return err
		}, 6)
		w.Eventually(func() bool { return p.Stat().TotalConns() > 0 }, "the pool has no connection")
	}
	has := func(n int32) func() bool { return func() bool { return busy.Stat().TotalConns() == n } }
	w.Eventually(has(3), "not all units are used")
	one := w.take(third)
	w.Eventually(has(2), "the limit is exceeded")
	one.Release()
	third.Close()
	w.Eventually(has(3), "a unit stays free")
}

// The connections that it keeps seemed to be there for the taking, so the other pool closed none of its own.
func TestProcessGetsItsPartBesideOneThatKeepsMoreThanItsOwn(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	s := w.Semaphore(6)
	c := w.config(4)
	c.MinConns = 4
	require.NoError(t, fairsempgx.Configure(c, s))
	idle := w.open(c)
	w.EventuallyUsed(s, 4)
	w.take(idle).Release() // from here on the pool is known
	busy := w.pool(w.Semaphore(6), 4)
	w.loadOf(func(ctx context.Context) error {
		_, err := busy.Exec(ctx, "SELECT pg_sleep(0.002)")
		return err
	}, 6)
	w.EventuallyUsed(s, 6)
	w.take(w.pool(w.Semaphore(6), 1))
	assert.Equal(t, int32(4), idle.Stat().TotalConns())
}

func TestMinIdleConnsDoNotWaitInTheQueue(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	w.take(w.pool(w.Semaphore(1), 1))
	c := w.config(10)
	c.MinIdleConns, c.HealthCheckPeriod = 5, 10*time.Millisecond
	require.NoError(t, fairsempgx.Configure(c, s))
	p := w.open(c)
	w.Eventually(func() bool {
		assert.Zero(t, w.Status(s).Waiting)
		return p.Stat().NewConnsCount() > 20
	}, "the pool does not try")
}

// pgxpool opens them together, and the first one that failed broke off the others: with units for some there was none.
func TestMinIdleConnsAreOpenedAsFarAsThereAreUnits(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(3)
	c := w.config(10)
	c.MinIdleConns, c.HealthCheckPeriod = 8, 10*time.Millisecond
	open := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-time.After(20 * time.Millisecond): // a server that is further away than Redis
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return open(ctx, network, address)
	}
	require.NoError(t, fairsempgx.Configure(c, s))
	p := w.open(c)
	w.Eventually(func() bool { return p.Stat().IdleConns() == 3 }, "there are not as many connections as units")
	assert.EqualValues(t, 3, w.Status(s).Used)
}

// pgxpool does not count it any more, and dials one for MinIdleConns.
func TestHijackedConnectionCountsForMaxConns(t *testing.T) {
	w := newWorld(t)
	c := w.config(1)
	c.MinIdleConns, c.HealthCheckPeriod = 1, 10*time.Millisecond
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(5)))
	p := w.open(c)
	mine := w.take(p).Hijack()
	tried := p.Stat().NewConnsCount()
	w.Eventually(func() bool {
		assert.Equal(t, 1, w.sessions())
		return p.Stat().NewConnsCount() > tried+20
	}, "the pool does not try")
	require.NoError(t, mine.Close(t.Context()))
	w.Eventually(func() bool { return p.Stat().IdleConns() == 1 }, "the pool dials nothing")
}

func TestErrorOfAWaitInVainSaysHowManyConnectionsAreInUse(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	p := w.pool(s, 10)
	w.take(p)
	w.take(p)
	said := `2 of 2 connections of "` + w.LimitName + `" are in use`
	w.Eventually(func() bool { // on a busy machine the answer can come too late for the error
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := p.Exec(ctx, "SELECT 1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return assert.ObjectsAreEqual("fairsempgx: "+said+": "+context.DeadlineExceeded.Error(), err.Error())
	}, said)
	w.EventuallyUsed(s, 2)
	w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "a position in the queue is left behind")
}

func TestErrorOfAPoolThatIsFullSaysSo(t *testing.T) {
	w := newWorld(t)
	p := w.pool(w.Semaphore(20), 1)
	w.take(p)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Acquire(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "all 1 connections of this pool are in use")
}

func TestWhatCanNeverWorkIsRefusedAtOnce(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	assert.ErrorIs(t, fairsempgx.Configure(nil, s), fairsem.ErrInvalid)
	assert.ErrorIs(t, fairsempgx.Configure(&pgxpool.Config{}, s), fairsem.ErrInvalid)
	assert.ErrorIs(t, fairsempgx.Configure(w.config(1), nil), fairsem.ErrInvalid)
	assert.ErrorIs(t, fairsempgx.Configure(w.config(1), new(fairsem.Semaphore)), fairsem.ErrInvalid)
	assert.ErrorIs(t, fairsempgx.Options{OnLost: 7}.Configure(w.config(1), s), fairsem.ErrInvalid)
	c := w.config(1)
	c.ConnConfig.DialFunc = nil
	assert.ErrorIs(t, fairsempgx.Configure(c, s), fairsem.ErrInvalid)
	c = w.config(1)
	require.NoError(t, fairsempgx.Configure(c, s))
	assert.ErrorIs(t, fairsempgx.Configure(c, s), fairsem.ErrInvalid)
	w.take(w.open(c))
	_, err := w.open(c).Acquire(t.Context())
	assert.ErrorIs(t, err, fairsem.ErrInvalid, "a config for two pools")
}

// seen is a tracer of a user, and all hooks.
type seen struct{ queries, acquires, releases, before, after, prepares, pings, released, closes atomic.Int64 }

func (s *seen) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (s *seen) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { s.queries.Add(1) }
func (s *seen) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return ctx
}
func (s *seen) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {
	s.acquires.Add(1)
}
func (s *seen) TraceRelease(*pgxpool.Pool, pgxpool.TraceReleaseData) { s.releases.Add(1) }

func TestHooksOfTheUserAreCalled(t *testing.T) {
	w := newWorld(t)
	c := w.config(1)
	var s seen
	c.ConnConfig.Tracer = &s
	c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { s.before.Add(1); return nil }
	c.AfterConnect = func(context.Context, *pgx.Conn) error { s.after.Add(1); return nil }
	c.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { s.prepares.Add(1); return true, nil }
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { s.pings.Add(1); return false }
	c.AfterRelease = func(*pgx.Conn) bool { s.released.Add(1); return true }
	c.BeforeClose = func(c *pgx.Conn) { assert.False(t, c.IsClosed()); s.closes.Add(1) }
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(1)))
	p := w.open(c)
	for range 3 {
		_, err := p.Exec(t.Context(), "SELECT 1")
		require.NoError(t, err)
	}
	p.Close()
	for what, n := range map[string]*atomic.Int64{
		"query": &s.queries, "acquire": &s.acquires, "release": &s.releases, "PrepareConn": &s.prepares, "ShouldPing": &s.pings, "AfterRelease": &s.released,
	} {
		assert.Equal(t, int64(3), n.Load(), what)
	}
	for what, n := range map[string]*atomic.Int64{"BeforeConnect": &s.before, "AfterConnect": &s.after, "BeforeClose": &s.closes} {
		assert.Equal(t, int64(1), n.Load(), what)
	}
}

// The hooks change how a connection is closed for others.
func TestBeforeCloseGetsALiveConnectionWhenOthersWait(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	c := w.config(10)
	var closes atomic.Int64
	c.BeforeClose = func(c *pgx.Conn) {
		_, err := c.Exec(context.Background(), "SELECT 1")
		assert.NoError(t, err)
		closes.Add(1)
	}
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(1)))
	a := w.open(c)
	held := w.take(a)
	got := make(chan error, 1)
	b := w.pool(w.Semaphore(1), 1)
	go func() { // ends when the connection of the other pool is closed
		c, err := b.Acquire(t.Context())
		if err == nil {
			c.Release()
		}
		got <- err
	}()
	held.Release()
	require.NoError(t, <-got)
	assert.Equal(t, int64(1), closes.Load())
}

func TestDeprecatedBeforeAcquireIsCalled(t *testing.T) {
	w := newWorld(t)
	c := w.config(1)
	calls := 0
	c.BeforeAcquire = func(context.Context, *pgx.Conn) bool { calls++; return calls > 1 } //nolint:staticcheck // users have it
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(1)))
	w.take(w.open(c))
	assert.Equal(t, 2, calls, "the first connection was refused")
}

func TestLostPermitClosesItsConnection(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	p := w.pool(s, 10)
	busy := w.take(p)
	w.take(p).Release()
	w.Evict(s)
	w.Eventually(func() bool { return w.sessions() == 0 }, "the connections stay open")
	_, err := busy.Exec(t.Context(), "SELECT 1")
	assert.ErrorIs(t, err, fairsem.ErrLost)
	busy.Release()
	_, err = p.Exec(t.Context(), "SELECT 1")
	assert.NoError(t, err, "the pool dials anew")
}

func TestConnectionWithoutItsPermitStaysOpenIfThatWasChosen(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := w.config(1)
	require.NoError(t, fairsempgx.Options{OnLost: fairsemnet.KeepOpen}.Configure(c, s))
	p := w.open(c)
	busy := w.take(p)
	before := busy.Conn().PgConn().PID()
	w.Evict(s)
	w.EventuallyUsed(s, 0)
	_, err := busy.Exec(t.Context(), "SELECT 1")
	assert.NoError(t, err)
	busy.Release()
	var now uint32
	require.NoError(t, p.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&now))
	assert.Equal(t, before, now, "another session")
}

func TestClosedClientClosesTheConnections(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	p := w.pool(s, 1)
	w.take(p).Release()
	require.NoError(t, client.Close())
	w.Eventually(func() bool { return w.sessions() == 0 }, "the connection stays open")
	_, err = p.Exec(t.Context(), "SELECT 1")
	assert.ErrorIs(t, err, fairsem.ErrClosed)
}

// pgx dials once more to cancel a query; the limit is reached then.
func TestQueryIsCanceledWhileNoUnitIsFree(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	p := w.pool(s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.Error(t, w.during(func(sleep string) error {
		_, err := p.Exec(ctx, sleep)
		return err
	}, cancel))
	w.Eventually(func() bool { return w.sessions() == 0 }, "the server still runs the query")
	_, err := p.Exec(t.Context(), "SELECT 1")
	assert.NoError(t, err)
}

// sslmode=prefer dials twice if the server refuses TLS.
func TestConnectionThatDialsTwiceNeedsOneUnit(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c, err := pgxpool.ParseConfig(w.server.URL() + "&sslmode=prefer&application_name=twice")
	require.NoError(t, err)
	var dials atomic.Int64
	open := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return open(ctx, network, address)
	}
	require.NoError(t, fairsempgx.Configure(c, s))
	w.take(w.open(c))
	assert.Equal(t, int64(2), dials.Load())
	assert.Equal(t, int64(1), w.Status(s).Granted)
	assert.Equal(t, int64(1), w.Status(s).Used)
}

func TestFailedDialReleases(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := w.config(1)
	c.ConnConfig.User = "nobody"
	require.NoError(t, fairsempgx.Configure(c, s))
	_, err := w.open(c).Exec(t.Context(), "SELECT 1")
	assert.ErrorContains(t, err, "nobody")
	w.EventuallyUsed(s, 0)
	c = w.config(1)
	refused := errors.New("refused")
	c.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, refused }
	require.NoError(t, fairsempgx.Configure(c, s))
	_, err = w.open(c).Exec(t.Context(), "SELECT 1")
	assert.ErrorIs(t, err, refused)
	w.EventuallyUsed(s, 0)
}

// With pgx alone it ends the process, in a goroutine of the pool.
func TestDialThatReturnsNothingIsAnError(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := w.config(1)
	c.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, nil }
	require.NoError(t, fairsempgx.Configure(c, s))
	_, err := w.open(c).Exec(t.Context(), "SELECT 1")
	assert.ErrorIs(t, err, fairsem.ErrInvalid)
	assert.ErrorContains(t, err, "neither a connection nor an error")
	w.EventuallyUsed(s, 0)
}

func TestResetAndHijackReleaseWhenTheConnectionsAreClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	p := w.pool(s, 2)
	taken := w.take(p)
	w.take(p).Release()
	p.Reset()
	w.EventuallyUsed(s, 1)
	mine := taken.Hijack()
	assert.Equal(t, int64(1), w.Status(s).Used)
	require.NoError(t, mine.Close(t.Context()))
	w.EventuallyUsed(s, 0)
	_, err := p.Exec(t.Context(), "SELECT 1")
	assert.NoError(t, err)
}

func TestCloseEndsTheWaitOfCalls(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	w.take(w.pool(w.Semaphore(1), 1))
	p := w.pool(s, 1)
	got := make(chan error, 1)
	go func() { // ends when the pool is closed
		_, err := p.Acquire(context.Background())
		got <- err
	}()
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the call does not wait")
	p.Close()
	assert.ErrorIs(t, <-got, puddle.ErrClosedPool)
	w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "a position in the queue is left behind")
}

func TestCallsOfOnePoolWithFewUnitsAllGetTheirTurn(t *testing.T) {
	w := newWorld(t)
	p := w.pool(w.Semaphore(2), 20)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_, err := p.Exec(ctx, "SELECT 1")
				cancel()
				assert.NoError(t, err)
			}
		})
	}
	all.Wait()
	assert.Less(t, p.Stat().NewConnsCount(), int64(50), "connections are kept")
	assert.LessOrEqual(t, p.Stat().TotalConns(), int32(2))
}

// Contexts that end at any moment of a dial, a wait, a query or the end of a connection, connections that break or are taken away, and
// pools that are reset. The server itself counts the sessions, and refuses one more than the limit.
func TestStormOfCallsThatGiveUpLeavesNoUnitAndNoSessionBehind(t *testing.T) {
	w := newWorld(t)
	const limit = 3
	user := w.user(limit)
	var pools []*pgxpool.Pool
	for range 2 {
		c := w.config(5)
		c.ConnConfig.User = user
		require.NoError(t, fairsempgx.Configure(c, w.Semaphore(limit)))
		pools = append(pools, w.open(c))
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 30 {
				giveUp(t.Context(), pools[i%2], rand.N(12*time.Millisecond))
			}
		})
	}
	all.Wait()
	for _, p := range pools {
		w.Eventually(func() bool { // a connection that was broken is idle until it is used
			_, err := p.Exec(t.Context(), "SELECT 1")
			return err == nil
		}, "the pool does not work on")
		p.Close()
	}
	s := w.Semaphore(limit)
	w.Eventually(func() bool { return w.sessions() == 0 }, "a session is left behind")
	w.EventuallyUsed(s, 0)
	assert.Zero(t, w.Status(s).Waiting)
	said, err := w.server.Log()
	require.NoError(t, err)
	assert.NotContains(t, said, `too many connections for role "`+user)
}

// giveUp does something with a connection for at most that time. A storm consists of its errors.
func giveUp(ctx context.Context, p *pgxpool.Pool, after time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, after)
	defer cancel()
	switch rand.N(8) {
	case 0:
		p.Reset()
	case 1:
		if c, err := p.Acquire(ctx); err == nil {
			_ = c.Conn().PgConn().Conn().Close()
			c.Release()
		}
	case 2:
		if c, err := p.Acquire(ctx); err == nil {
			_ = c.Hijack().Close(ctx)
		}
	case 3:
		if tx, err := p.Begin(ctx); err == nil {
			_, _ = tx.Exec(ctx, "SELECT pg_sleep(0.005)")
			_ = tx.Rollback(ctx)
		}
	default:
		_, _ = p.Exec(ctx, "SELECT pg_sleep(0.001)")
	}
}

func TestPoolsOfOneProcessShareItsPart(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	s := w.Semaphore(4)
	a, b, other := w.pool(s, 10), w.pool(s, 10), w.pool(w.Semaphore(4), 10)
	for range 2 {
		w.take(a).Release()
		w.take(b)
	}
	w.take(other)
	w.take(other)
}

func TestBusyPoolsOfOneProcessLeaveAnotherItsPart(t *testing.T) {
	w := newWorld(t)
	w.TTL = 5 * time.Second
	s := w.Semaphore(2)
	for range 2 {
		p := w.pool(s, 1)
		w.loadOf(func(ctx context.Context) error {
			_, err := p.Exec(ctx, "SELECT pg_sleep(0.002)")
			return err
		}, 2)
	}
	w.EventuallyUsed(s, 2)
	w.take(w.pool(w.Semaphore(2), 1))
}

// The pool counted such a connection among those that it gives up for others, and kept its permit for a call of its own.
func TestPoolWhoseConnectionsEndUnusableLeavesAnotherProcessItsPart(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, conn *pgxpool.Conn){
		"query timed out": func(ctx context.Context, conn *pgxpool.Conn) {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, _ = conn.Exec(ctx, "SELECT pg_sleep(60)")
			conn.Release()
		},
		"hijacked and closed": func(ctx context.Context, conn *pgxpool.Conn) {
			taken := conn.Hijack()
			_, _ = taken.Exec(ctx, "SELECT pg_sleep(0.05)")
			_ = taken.Close(ctx)
		},
		"transaction left open": func(ctx context.Context, conn *pgxpool.Conn) {
			_, _ = conn.Exec(ctx, "BEGIN")
			conn.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.TTL = 5 * time.Second
			s := w.Semaphore(1)
			busy := w.pool(s, 5)
			w.loadOf(func(ctx context.Context) error {
				conn, err := busy.Acquire(ctx)
				if err == nil {
					use(ctx, conn)
				}
				return err
			}, 4)
			w.EventuallyUsed(s, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			one, err := w.pool(w.Semaphore(1), 1).Acquire(ctx)
			require.NoError(t, err)
			one.Release()
		})
	}
}

// A hook that is set after Configure replaces that of this package.
func TestHookThatWasReplacedAfterConfigureFailsCalls(t *testing.T) {
	for name, c := range map[string]struct {
		replace  func(*pgxpool.Config)
		succeeds int // calls, before one that fails
	}{
		"BeforeConnect": {func(c *pgxpool.Config) { c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return nil } }, 1},
		"Tracer":        {func(c *pgxpool.Config) { c.ConnConfig.Tracer = new(tracelog.TraceLog) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.Semaphore(1)
			config := w.config(3)
			require.NoError(t, fairsempgx.Configure(config, s))
			c.replace(config)
			p := w.open(config)
			for range c.succeeds {
				w.take(p)
			}
			_, err := p.Acquire(t.Context())
			require.ErrorIs(t, err, fairsem.ErrInvalid)
			assert.ErrorContains(t, err, name+" was set after Configure")
			assert.Equal(t, c.succeeds, w.sessions())
			w.EventuallyUsed(s, 0)
		})
	}
}

// Its link is lost before the pool has it. That was taken for a BeforeConnect of somebody else.
func TestConnectionThatBreaksWhileItIsValidatedDoesNotEndThePool(t *testing.T) {
	w := newWorld(t)
	c := w.config(3)
	var broken atomic.Bool
	c.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if broken.CompareAndSwap(false, true) {
			_, _ = conn.Exec(ctx, "select pg_terminate_backend(pg_backend_pid())").ReadAll()
			<-conn.CleanupDone()
		}
		return nil
	}
	require.NoError(t, fairsempgx.Configure(c, w.Semaphore(1)))
	p := w.open(c)
	if conn, err := p.Acquire(t.Context()); err == nil {
		conn.Release()
	}
	w.take(p)
}

// A hook around ours may fail after it, and pgx then never begins: the units were renewed for as long as the Client lived.
func TestAnAttemptThatNeverBeginsLeavesNoUnit(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(8)
	c := w.config(4)
	c.MinConns, c.HealthCheckPeriod = 2, 10*time.Millisecond
	require.NoError(t, fairsempgx.Configure(c, s))
	ours, failed := c.BeforeConnect, make(chan struct{}, 100)
	c.BeforeConnect = func(ctx context.Context, config *pgx.ConnConfig) error {
		if err := ours(ctx, config); err != nil {
			return err
		}
		select {
		case failed <- struct{}{}:
			return errors.New("there is no password")
		default:
			return nil
		}
	}
	p := w.open(c)
	w.Eventually(func() bool { return p.Stat().IdleConns() == 2 }, "the pool gives up")
	w.EventuallyUsed(s, 2)
}
