package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// These tests are about hostile readers without a login.

// from is a client whose connections come from an address of this machine.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// fetches says what comes of a request.
func (s *served) fetches(client *http.Client, path string) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	response, err := client.Do(r)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// dial opens a connection and sends something.
func (s *served) dial(sent string) {
	s.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte(sent))
	require.NoError(s.t, err)
}

// A reader used to cause more than a hundred thousand commands a second.
func TestTheLoadOnRedisDoesNotDependOnTheViewers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var queries atomic.Int64
	s.page.details.query = func(ctx context.Context, name string) (inspect.Detail, error) {
		queries.Add(1)
		return inspect.QueryDetail(ctx, s.client, name, maxTickets)
	}
	s.seen(0)
	began := time.Now()
	var readers sync.WaitGroup
	for reader := range 8 {
		readers.Go(func() {
			for i := range 4 {
				s.get(fmt.Sprintf("/semaphore?name=random-%d-%d", reader, i))
			}
		})
	}
	readers.Wait()
	most := detailBurst + float64(time.Since(began))/float64(detailEvery)
	assert.LessOrEqual(t, float64(queries.Load()), most)
	assert.Positive(t, queries.Load())
}

func TestANameThatWasNotQueriedIsNotReportedAsUnknown(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.page.details.query = func(context.Context, string) (inspect.Detail, error) { return inspect.Detail{}, errBusy }
	s.seen(0)
	body := s.get("/semaphore?name=gate").body
	assert.Contains(t, body, "too many other names are being queried")
	assert.NotContains(t, body, "Redis does not know the name")
}

// elsewhere is an address that does not share the limit of this machine. By chance one in a thousand does.
func elsewhere(r *rates) string {
	for i := 1; ; i++ {
		if from := fmt.Sprintf("192.0.2.%d:1", i); r.of(from) != r.of(here) {
			return from
		}
	}
}

// What an address was shown that had used up its queries was what all were shown until the next poll.
func TestAnAddressThatQueriesTooMuchHidesNothingFromOthers(t *testing.T) {
	t.Parallel()
	s := serve(t, seldom)
	s.seen(0)
	s.hold("gate", 1)
	for range 100 {
		s.page.details.each.of(here).ReserveN(time.Now(), detailBurst/2)
	}
	assert.Contains(t, s.get("/semaphore?name=gate").body, "too many other names are being queried")
	other := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/semaphore?name=gate", nil)
	other.Host, other.RemoteAddr = "localhost", elsewhere(s.page.details.each)
	shown := httptest.NewRecorder()
	s.page.ServeHTTP(shown, other)
	assert.Contains(t, shown.Body.String(), "host:1")
}

func TestOneAddressDoesNotTakeTheRoomOfOthers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("gate", 1)
	s.seen(1)
	for range maxStreams {
		s.dial("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	mine, other := from(t, "127.0.0.1"), from(t, "127.0.0.2")
	require.Eventually(t, func() bool { return s.fetches(mine, "/stream") == http.StatusServiceUnavailable }, soon, often)
	for _, path := range []string{"/", "/semaphore?name=gate", "/healthz", "/metrics"} {
		require.Eventually(t, func() bool { return s.fetches(mine, path) == http.StatusOK }, soon, often, path)
		require.Eventually(t, func() bool { return s.fetches(other, path) == http.StatusOK }, soon, often, path)
	}
	require.Eventually(t, func() bool { return s.fetches(other, "/stream") == http.StatusOK }, soon, often)
}

func TestIdleConnectionsDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.seen(0)
	for range maxConnections {
		s.dial("")
	}
	for range maxConnections {
		s.dial("GET / HTTP/1.1\r\n") // the rest never comes
	}
	for _, path := range []string{"/", "/healthz", "/metrics"} {
		assert.Equal(t, http.StatusOK, s.fetches(from(t, "127.0.0.2"), path), path)
		assert.Equal(t, http.StatusOK, s.fetches(from(t, "127.0.0.1"), path), path)
	}
}

func TestOfManyConnectionsTheOldestIdleOneIsClosedOfTheNetworkThatHasTheMost(t *testing.T) {
	t.Parallel()
	c := newConnectionLimit(4)
	conn := func(from string) *fakeConn { return &fakeConn{from: from} }
	quiet, busy := conn("192.0.2.1:1"), conn("192.0.2.2:1")
	first, second := conn("192.0.2.2:2"), conn("192.0.2.2:3")
	for _, one := range []*fakeConn{quiet, busy, first, second} {
		c.changed(one, http.StateNew)
	}
	c.changed(busy, http.StateActive)
	third := conn("192.0.2.3:1")
	c.changed(third, http.StateNew)
	assert.Equal(t, []bool{false, false, true, false, false}, shut(quiet, busy, first, second, third))
	for _, one := range []*fakeConn{quiet, second, third} {
		c.changed(one, http.StateActive)
	}
	fourth := conn("192.0.2.4:1")
	c.changed(fourth, http.StateNew)
	assert.Equal(t, []bool{false, false, false, false, true}, shut(quiet, busy, second, third, fourth), "none is idle")
	c.changed(busy, http.StateClosed)
	c.changed(conn("192.0.2.4:2"), http.StateNew)
	assert.Len(t, c.open, 4)
	assert.Equal(t, 4, len(c.of))
}

// Requests in flight have quotas, so a network with more than half of the connections has some that no request keeps busy.
func TestBusyConnectionsOfOneNetworkDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	c := newConnectionLimit(4)
	conn := func(from string, state http.ConnState) *fakeConn {
		one := &fakeConn{from: from}
		c.changed(one, http.StateNew)
		c.changed(one, state)
		return one
	}
	quiet := conn("192.0.2.1:1", http.StateIdle)
	first, second, third := conn("192.0.2.2:1", http.StateActive), conn("192.0.2.2:2", http.StateActive), conn("192.0.2.2:3", http.StateActive)
	other := conn("192.0.2.3:1", http.StateActive)
	assert.Equal(t, []bool{false, true, false, false, false}, shut(quiet, first, second, third, other), "that of the network with more than half")
	assert.False(t, conn("192.0.2.4:1", http.StateActive).shut)
	assert.Equal(t, []bool{true, true, false, false, false}, shut(quiet, first, second, third, other), "it has no more than half now")
}

// A client that announced a body and sent none kept its connection busy for readLimit, without being counted: 256 of them locked
// out all others, and /healthz.
func TestABodyThatNoHandlerReadsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /act/pause HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\nContent-Length: 1000\r\n\r\nname=",
		"GET /static/style.css HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			listener := &pipes{ends: make(chan net.Conn)}
			server := &http.Server{
				Handler:     New(Options{Interval: time.Hour, Token: testToken, Log: t.Output()}), // it is not served, so it polls nothing
				ReadTimeout: readLimit,
			}
			go func() { _ = server.Serve(listener) }() // ends when the server is closed; synctest waits for it
			defer func() { _ = server.Close() }()
			mine, theirs := net.Pipe()
			listener.ends <- theirs
			began := time.Now()
			_, err := mine.Write([]byte(sent))
			require.NoError(t, err)
			answer, err := io.ReadAll(mine)
			require.NoError(t, err)
			assert.Contains(t, string(answer), "HTTP/1.1 ", sent)
			assert.Zero(t, time.Since(began), sent)
		})
	}
}

// pipes is a listener of connections in memory.
type pipes struct{ ends chan net.Conn }

func (p *pipes) Accept() (net.Conn, error) {
	conn, ok := <-p.ends
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p *pipes) Close() error {
	close(p.ends)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

type fakeConn struct {
	net.Conn
	from string
	shut bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", c.from) // it is one
	return addr
}

func (c *fakeConn) Close() error {
	c.shut = true
	return nil
}

func shut(all ...*fakeConn) (which []bool) {
	for _, c := range all {
		which = append(which, c.shut)
	}
	return which
}

func TestARoomHasSpaceForSecondsAndIsEmptyAfterwards(t *testing.T) {
	t.Parallel()
	r := newQuota(4)
	assert.True(t, r.acquire("192.0.2.1:1", 2))
	assert.False(t, r.acquire("192.0.2.1:2", 1), "one network has half of it")
	assert.True(t, r.acquire("192.0.2.2:1", 2))
	assert.False(t, r.acquire("192.0.2.3:1", 1), "it is full")
	r.release("192.0.2.1:9", 2)
	r.release("192.0.2.2:9", 2)
	assert.Zero(t, r.taken)
	assert.Empty(t, r.by)
}

// What is made for one reader is not kept for all of them: 300 MB of searches were.
func TestSearchesAreNotKept(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Interval = time.Minute }) // one poll for all
	s.seen(0)
	for i := range 4 * mostShared {
		s.get(fmt.Sprint("/?q=", i))
	}
	s.page.fragments.mu.Lock()
	defer s.page.fragments.mu.Unlock()
	assert.LessOrEqual(t, len(s.page.fragments.made), mostShared)
	assert.Zero(t, s.page.sending.taken)
}

func TestAPageOfAnotherSiteCannotHaveTheBrowserLoadAnything(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	for _, path := range []string{"/", "/semaphore?name=x", "/stream", "/metrics", "/login", "/static/live.js"} {
		for _, site := range []string{"cross-site", "same-site"} {
			for _, sent := range [][]string{{}, {"Sec-Fetch-Mode", "no-cors"}, {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}} {
				answer := s.get(path, append(sent, "Sec-Fetch-Site", site)...)
				assert.Equal(t, http.StatusForbidden, answer.StatusCode, "%s %s %s", path, site, sent)
			}
		}
	}
	// Without TLS, by a name or from another machine, browsers send no more than this.
	for _, origin := range []string{"http://evil.example", "null", "http://127.0.0.1:1", "%"} {
		for _, path := range []string{"/", "/semaphore?name=x", "/metrics"} {
			assert.Equal(t, http.StatusForbidden, s.get(path, "Origin", origin).StatusCode, "%s of %s", path, origin)
		}
	}
	assert.Equal(t, http.StatusOK, s.get("/", "Origin", s.url).StatusCode)
	assert.Equal(t, http.StatusOK, s.get("/", "Referer", "http://evil.example/").StatusCode, "a link has one, too")
	assert.Equal(t, http.StatusOK, s.get("/", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors").StatusCode)
	assert.Equal(t, http.StatusOK, s.get("/", "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate").StatusCode)
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	assert.Equal(t, http.StatusOK, s.get("/", link...).StatusCode, "a link to the page may stand anywhere")
}
