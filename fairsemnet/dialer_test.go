package fairsemnet_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemnet"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestConnectionHoldsAUnitFromBeforeTheDialUntilItIsClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(3)
	var during []int64
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			during = append(during, w.Status(s).Used)
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	c := w.dial(d, "tcp", w.tcp())
	assert.Equal(t, []int64{1}, during, "while it is dialled")
	assert.Equal(t, int64(1), w.Status(s).Used, "while it is open")
	require.NoError(t, c.Close())
	w.EventuallyUsed(s, 0)
}

func TestDialWaitsUntilAConnectionOfAnotherProcessIsClosed(t *testing.T) {
	w := newWorld(t)
	addr := w.tcp()
	first := w.dial(&fairsemnet.Dialer{Semaphore: w.Semaphore(1)}, "tcp", addr)
	s := w.Semaphore(1)
	second := make(chan net.Conn, 1)
	go func() { // ends when the first connection is closed
		c, err := (&fairsemnet.Dialer{Semaphore: s}).DialContext(t.Context(), "tcp", addr)
		assert.NoError(t, err)
		second <- c
	}()
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the second dial does not wait")
	require.NoError(t, first.Close())
	require.NoError(t, (<-second).Close())
	w.EventuallyUsed(s, 0)
}

func TestConnectionsOfAllProcessesStayWithinTheLimit(t *testing.T) {
	w := newWorld(t)
	const limit = 3
	var open, most, served atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.serve(l, func(c net.Conn) {
		n := open.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			continue
		}
		served.Add(1)
		_, _ = c.Write([]byte("+"))
		_, _ = io.ReadFull(c, make([]byte, 1))
		open.Add(-1)
		_, _ = c.Write([]byte("-"))
		_, _ = io.Copy(io.Discard, c)
	})
	var running []*worldtest.Process
	for range 3 {
		running = append(running, worldtest.Start(t, order{Redis: w.Redis, Name: w.LimitName, Peer: l.Addr().String(), Limit: limit, TTL: w.TTL, Rounds: 25}))
	}
	for _, p := range running {
		require.NoError(t, p.Wait())
	}
	assert.Equal(t, int64(300), served.Load())
	assert.LessOrEqual(t, most.Load(), int64(limit))
	assert.Greater(t, most.Load(), int64(1), "connections were open at the same time")
}

func TestUnitOfAKilledProcessIsGrantedAgain(t *testing.T) {
	w := newWorld(t)
	w.TTL = 2 * time.Second
	addr := w.tcp()
	p := worldtest.Start(t, order{Redis: w.Redis, Name: w.LimitName, Peer: addr, Limit: 1, TTL: w.TTL, Hold: true})
	_, err := p.Out.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, p.Process.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := (&fairsemnet.Dialer{Semaphore: w.Semaphore(1)}).DialContext(ctx, "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// closing calls a function before it closes a connection.
type closing struct {
	net.Conn
	before func()
}

func (c closing) Close() error {
	c.before()
	return c.Conn.Close()
}

func TestUnitIsHeldUntilTheConnectionIsClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	dial := piped(t)
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			return closing{c, func() {
				for range 20 { // a release that was on its way would be counted
					assert.Equal(t, int64(1), w.Status(s).Used)
				}
			}}, err
		},
	}}
	c, err := d.DialContext(t.Context(), "tcp", "")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	w.EventuallyUsed(s, 0)
}

func TestConnectionThatIsClosedOftenReleasesOnce(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	d := &fairsemnet.Dialer{Semaphore: s}
	addr := w.tcp()
	c, other := w.dial(d, "tcp", addr), w.dial(d, "tcp", addr)
	var closers sync.WaitGroup
	for range 10 {
		closers.Go(func() {
			if err := c.Close(); err != nil {
				assert.ErrorIs(t, err, net.ErrClosed)
				assert.NotErrorIs(t, err, fairsem.ErrLost)
			}
		})
	}
	closers.Wait()
	w.EventuallyUsed(s, 1)
	assert.NotErrorIs(t, c.Close(), fairsem.ErrReleased, "it was closed by its owner, not by the end of its permit")
	_, err := other.Write([]byte("still open"))
	assert.NoError(t, err)
}

func TestFailedDialReleasesAndItsErrorPassesThrough(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = (&fairsemnet.Dialer{Semaphore: s}).DialContext(t.Context(), "tcp", l.Addr().String())
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "dial", refused.Op)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	w.EventuallyUsed(s, 0)
}

func TestDialThatPanicsReleases(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{
		Dial: func(context.Context, string, string) (net.Conn, error) { panic("of the inner dialer") },
	}}
	assert.PanicsWithValue(t, "of the inner dialer", func() { _, _ = d.DialContext(t.Context(), "tcp", "") })
	w.EventuallyUsed(s, 0)
}

func TestDialThatReturnsNothingIsAnError(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	}}
	c, err := d.DialContext(t.Context(), "tcp", "")
	assert.Nil(t, c)
	assert.ErrorIs(t, err, fairsem.ErrInvalid)
	w.EventuallyUsed(s, 0)
}

func TestDialThatCannotWorkIsRefusedBeforeAnyIO(t *testing.T) {
	w := newWorld(t)
	good := w.Semaphore(1)
	for why, d := range map[string]*fairsemnet.Dialer{
		"no dialer":      nil,
		"no semaphore":   {},
		"zero value":     {Semaphore: new(fairsem.Semaphore)},
		"unknown OnLost": {Semaphore: good, Options: fairsemnet.Options{OnLost: 7}},
		"call options":   {Semaphore: good.With(fairsem.CallOptions{MaxWait: -1})},
	} {
		if d != nil {
			d.Options.Dial = func(context.Context, string, string) (net.Conn, error) {
				t.Error("dialled:", why)
				return nil, errors.ErrUnsupported
			}
		}
		_, err := d.DialContext(t.Context(), "tcp", "127.0.0.1:1")
		assert.ErrorIs(t, err, fairsem.ErrInvalid, why)
		if d == nil || d.Semaphore == nil {
			assert.ErrorContains(t, err, "Dialer has no Semaphore", why)
		}
	}
	_, err := (&fairsemnet.Dialer{Semaphore: good}).DialContext(nil, "tcp", "") //nolint:staticcheck // a nil context is the claim
	assert.ErrorIs(t, err, fairsem.ErrInvalid)
	assert.False(t, w.Status(good).Exists)
}

func TestErrorOfAWaitInVainSaysHowManyConnectionsAreInUse(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	d := &fairsemnet.Dialer{Semaphore: s}
	addr := w.tcp()
	w.dial(d, "tcp", addr)
	w.dial(d, "tcp", addr)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.DialContext(ctx, "tcp", addr)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	said := `2 of 2 connections of "` + w.LimitName + `" are in use`
	w.Eventually(func() bool { // on a busy machine the answer can come too late for the error
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := d.DialContext(ctx, "tcp", addr)
		return err != nil && strings.Contains(err.Error(), said)
	}, said)

	short := s.With(fairsem.CallOptions{MaxWait: 50 * time.Millisecond})
	_, err = (&fairsemnet.Dialer{Semaphore: short}).DialContext(t.Context(), "tcp", addr)
	assert.ErrorIs(t, err, fairsem.ErrNotAcquired)
	require.NoError(t, s.SetLimit(t.Context(), 0))
	w.Eventually(func() bool {
		_, err := (&fairsemnet.Dialer{Semaphore: short}).DialContext(t.Context(), "tcp", addr)
		return err != nil && strings.Contains(err.Error(), "is paused")
	}, "is paused")
	require.NoError(t, s.ResetLimit(t.Context()))
}

func TestLostPermitClosesTheConnectionAndItsErrorsSaySo(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	dir := t.TempDir()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	roots := secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	overTLS := (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext
	for network, dial := range map[string]func() net.Conn{
		"tcp":  func() net.Conn { return w.dial(&fairsemnet.Dialer{Semaphore: s}, "tcp", w.tcp()) },
		"unix": func() net.Conn { return w.dial(&fairsemnet.Dialer{Semaphore: s}, "unix", w.unix(dir)) },
		"tls": func() net.Conn {
			return w.dial(&fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{Dial: overTLS}}, "tcp", secure.Listener.Addr().String())
		},
		"other": func() net.Conn {
			return w.dial(&fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{Dial: piped(t)}}, "tcp", "")
		},
	} {
		c := dial()
		w.Evict(s)
		_, err := c.Read(make([]byte, 1)) // returns when the connection is closed
		assert.ErrorIs(t, err, fairsem.ErrLost, network)
		assert.ErrorIs(t, err, net.ErrClosed, network)
		assert.ErrorContains(t, err, w.LimitName, network)
		_, err = c.Write([]byte("x"))
		assert.ErrorIs(t, err, fairsem.ErrLost, network)
		_ = c.Close() // it is closed
		w.EventuallyUsed(s, 0)
	}
}

// The methods of a *net.TCPConn that io.Copy calls read and write past Read and Write.
func TestCopyOverALostConnectionSaysSo(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	c := w.dial(&fairsemnet.Dialer{Semaphore: s}, "tcp", w.tcp())
	w.Evict(s)
	_, err := io.Copy(io.Discard, c) // returns when the connection is closed
	assert.ErrorIs(t, err, fairsem.ErrLost)
	assert.ErrorIs(t, err, net.ErrClosed)
	_, err = io.Copy(c, struct{ io.Reader }{strings.NewReader("x")}) // which cannot write itself
	assert.ErrorIs(t, err, fairsem.ErrLost)
	assert.ErrorContains(t, err, w.LimitName)
}

func (w *world) unix(dir string) string {
	return w.listen("unix", filepath.Join(dir, "socket")).Addr().String()
}

// piped returns a dialer of connections in memory.
func piped(t *testing.T) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		t.Cleanup(func() { _ = there.Close() }) // always nil
		return here, nil
	}
}

// pgx and others show a timeout without its cause.
func TestErrorOfADialThatGotNoUnitIsNoTimeoutOfTheNetwork(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := (&fairsemnet.Dialer{Semaphore: s}).DialContext(ctx, "tcp", "")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var network net.Error
	require.ErrorAs(t, err, &network)
	assert.False(t, network.Timeout())
	assert.Equal(t, err.Error(), network.Error())
}

func TestLostPermitEndsTheDial(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			w.Evict(s)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	}}
	_, err := d.DialContext(t.Context(), "tcp", "")
	assert.ErrorIs(t, err, fairsem.ErrLost)
}

func TestConnectionThatIsKeptOutlivesItsPermit(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	d := &fairsemnet.Dialer{Semaphore: s, Options: fairsemnet.Options{OnLost: fairsemnet.KeepOpen}}
	c := w.dial(d, "tcp", w.tcp())
	w.Evict(s)
	w.EventuallyUsed(s, 0)
	other := w.dial(d, "tcp", w.tcp()) // the unit is free
	for _, open := range []net.Conn{c, other} {
		_, err := open.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(open, make([]byte, 1))
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
}

func TestOutageOfRedisOpensNothingAndClosesConnectionsWhenTheirPermitsAreLost(t *testing.T) {
	w := newWorld(t)
	server := redistest.NewServer(t)
	w.Redis, w.TTL = server.Addr(), 2*time.Second
	s := w.Semaphore(5)
	d := &fairsemnet.Dialer{Semaphore: s}
	addr := w.tcp()
	c := w.dial(d, "tcp", addr)
	require.NoError(t, server.Pause())
	_, err := c.Write([]byte("x"))
	require.NoError(t, err, "it lives until its permit is lost")

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = d.DialContext(ctx, "tcp", addr)
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	_, err = io.Copy(io.Discard, c)
	assert.ErrorIs(t, err, fairsem.ErrLost)
	require.NoError(t, server.Resume())
}

func TestClosingTheClientClosesItsConnections(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	c := w.dial(&fairsemnet.Dialer{Semaphore: s}, "tcp", w.tcp())
	require.NoError(t, client.Close())
	_, err = c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, fairsem.ErrReleased)
	_, err = (&fairsemnet.Dialer{Semaphore: s}).DialContext(t.Context(), "tcp", "")
	assert.ErrorIs(t, err, fairsem.ErrClosed)
}

func TestPoolOfHTTPConnectionsStaysWithinTheLimit(t *testing.T) {
	w := newWorld(t)
	const limit = 2
	s := w.Semaphore(limit)
	var most atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		most.Store(max(most.Load(), w.Status(s).Used))
		_, _ = io.WriteString(rw, "hello")
	}))
	defer server.Close()
	transport := &http.Transport{DialContext: (&fairsemnet.Dialer{Semaphore: s}).DialContext}
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() {
			resp, err := (&http.Client{Transport: transport}).Get(server.URL)
			if assert.NoError(t, err) {
				_, err = io.Copy(io.Discard, resp.Body)
				assert.NoError(t, errors.Join(err, resp.Body.Close()))
			}
		})
	}
	requests.Wait()
	assert.LessOrEqual(t, most.Load(), int64(limit))
	transport.CloseIdleConnections()
	w.EventuallyUsed(s, 0)
}

// The dial of a transport goes on when its request has ended.
func TestRequestsOverHTTPThatTimeOutLeaveNoWaiterWhenMaxWaitIsOver(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(w.Semaphore(1), 1)()
	dialer := &fairsemnet.Dialer{Semaphore: s.With(fairsem.CallOptions{MaxWait: 100 * time.Millisecond})}
	client := &http.Client{
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxConnsPerHost: 2},
		Timeout:   20 * time.Millisecond,
	}
	for range 5 {
		_, err := client.Get("http://127.0.0.1:1") // never dialled
		require.Error(t, err)
	}
	w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "a dial waits on")
}

func TestPoolOfGoRedisRunsOnTheDialer(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(2)
	rdb := redis.NewClient(&redis.Options{Addr: w.Redis, Dialer: (&fairsemnet.Dialer{Semaphore: s}).DialContext, PoolSize: 2, PoolTimeout: time.Minute})
	var pings sync.WaitGroup
	for range 20 {
		pings.Go(func() { assert.NoError(t, rdb.Ping(t.Context()).Err()) })
	}
	pings.Wait()
	assert.NotZero(t, w.Status(s).Used, "idle connections hold their units")
	require.NoError(t, rdb.Close())
	w.EventuallyUsed(s, 0)
}
