package fairsemhttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
)

// upgrade takes the connection over and echoes lines, in another goroutine, until its peer ends.
func upgrade(t *testing.T, hijack func(http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := hijack(w)
		if !assert.NoError(t, err) {
			return
		}
		go func() { // ends with the connection, which the test closes
			defer func() { _ = conn.Close() }()
			_, _ = fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.Copy(conn, buffered)
		}()
	}
}

func byAssertion(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	return w.(http.Hijacker).Hijack()
}

func byController(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w).Hijack()
}

// hidden has nothing but Unwrap, as the ResponseWriter of another middleware.
type hidden struct{ http.ResponseWriter }

func (h hidden) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func behindAnother(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(hidden{w}, r) })
}

// connect returns an upgraded connection to a server.
func (w *world) connect(transport http.RoundTripper, url string) io.ReadWriteCloser {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(w, err)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := transport.RoundTrip(r)
	require.NoError(w, err)
	require.Equal(w, http.StatusSwitchingProtocols, resp.StatusCode)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	require.True(w, ok, "a body of 101 can be written")
	w.Cleanup(func() { _ = conn.Close() }) // most tests have closed it
	return conn
}

// says writes a line and reads it back.
func (w *world) says(conn io.ReadWriter, text string) {
	w.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(w, err)
	back := make([]byte, len(text))
	_, err = io.ReadFull(conn, back)
	require.NoError(w, err)
	assert.Equal(w, text, string(back))
}

func TestHijackedConnectionHoldsThePermitUntilItIsClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	for _, h := range []http.Handler{
		w.handler(upgrade(t, byAssertion), s, fairsemhttp.Options{MaxWait: time.Minute}),
		w.handler(upgrade(t, byController), s, fairsemhttp.Options{MaxWait: time.Minute}),
		behindAnother(w.handler(upgrade(t, byController), s, fairsemhttp.Options{MaxWait: time.Minute})),
	} {
		server := w.serve(h)
		conn := w.connect(server.Client().Transport, server.URL)
		w.says(conn, "the handler has returned")
		assert.Equal(t, int64(1), w.Status(s).Used)
		require.NoError(t, conn.Close())
		w.EventuallyUsed(s, 0)

		conn = w.connect(server.Client().Transport, server.URL)
		w.says(conn, "a permit that will be lost")
		w.Evict(s)
		_, err := io.ReadAll(conn)
		assert.NoError(t, err, "the server closes the connection")
		w.EventuallyUsed(s, 0)
	}
}

func TestHandlerThatClosesItsHijackedConnectionGoesOnWithItsContext(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	released, over := make(chan struct{}), make(chan error, 1)
	server := w.serve(w.handler(func(rw http.ResponseWriter, r *http.Request) {
		conn, _, err := byAssertion(rw)
		if assert.NoError(t, err) {
			assert.NoError(t, conn.Close())
		}
		<-released
		over <- r.Context().Err()
	}, s, fairsemhttp.Options{MaxWait: time.Minute}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	_, err = server.Client().Transport.RoundTrip(r) //nolint:bodyclose // there is no answer
	require.Error(t, err)
	w.EventuallyUsed(s, 0)
	close(released)
	assert.NoError(t, <-over)
}

func TestUpgradedConnectionHoldsThePermitOfItsClientUntilItIsClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	server := w.serve(upgrade(t, byAssertion))
	transport := &fairsemhttp.Transport{Base: server.Client().Transport, Limit: s}
	conn := w.connect(transport, server.URL)
	w.says(conn, "hello")
	assert.Equal(t, int64(1), w.Status(s).Used)
	require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Equal(t, int64(1), w.Status(s).Used, "the end of reading is not the end")
	require.NoError(t, conn.Close())
	w.EventuallyUsed(s, 0)

	conn = w.connect(transport, server.URL)
	w.says(conn, "a permit that will be lost")
	w.Evict(s)
	_, err = io.ReadAll(conn)
	assert.Error(t, err)
	w.EventuallyUsed(s, 0)
}

// A proxy with a limit on both sides, as it stands before a server of websockets.
func TestReverseProxyUpgradesThroughHandlerAndTransport(t *testing.T) {
	w := newWorld(t)
	inside, err := w.Client().Semaphore(w.LimitName+"inside", 1)
	require.NoError(t, err)
	outside := w.Semaphore(1)
	backend := w.serve(upgrade(t, byAssertion))
	target, err := url.Parse(backend.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &fairsemhttp.Transport{Base: backend.Client().Transport, Limit: inside},
	}
	server := w.serve(w.handler(proxy.ServeHTTP, outside, fairsemhttp.Options{}))
	conn := w.connect(server.Client().Transport, server.URL)
	w.says(conn, "through both")
	assert.Equal(t, []int64{1, 1}, []int64{w.Status(inside).Used, w.Status(outside).Used})
	require.NoError(t, conn.Close())
	w.EventuallyUsed(inside, 0)
	w.EventuallyUsed(outside, 0)
}

// unable is a Hijacker that fails.
type unable struct{ http.ResponseWriter }

func (unable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

func TestHijackThatFailsReleases(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	h := w.handler(func(rw http.ResponseWriter, _ *http.Request) {
		_, _, err := byController(rw)
		assert.ErrorIs(t, err, http.ErrNotSupported)
	}, s, fairsemhttp.Options{})
	for _, server := range []*httptest.Server{
		w.serve2(h), w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { h.ServeHTTP(unable{rw}, r) })),
	} {
		require.NoError(t, w.get(server.Client(), server.URL).Body.Close())
		w.EventuallyUsed(s, 0)
	}
}

func TestResponseWriterCanDoWhatThatOfTheServerCan(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	next := func(rw http.ResponseWriter, r *http.Request) {
		flusher, ok := rw.(http.Flusher)
		if assert.True(t, ok) {
			_, _ = io.WriteString(rw, "flushed ")
			flusher.Flush()
		}
		control := http.NewResponseController(rw)
		assert.NoError(t, control.Flush())
		assert.NoError(t, control.SetWriteDeadline(time.Now().Add(time.Minute)))
		if r.ProtoMajor == 1 {
			assert.NoError(t, control.EnableFullDuplex())
			_, copies := rw.(io.ReaderFrom)
			assert.True(t, copies)
			gone, notifies := rw.(interface{ CloseNotify() <-chan bool }) // gin panics without it
			if assert.True(t, notifies) {
				assert.NotNil(t, gone.CloseNotify())
			}
		} else {
			_, pushes := rw.(http.Pusher)
			assert.True(t, pushes)
		}
		_, err := io.Copy(rw, strings.NewReader("copied"))
		assert.NoError(t, err)
	}
	h := w.handler(next, s, fairsemhttp.Options{MaxWait: time.Minute})
	for _, server := range []*httptest.Server{w.serve(h), w.serve2(h)} {
		text, err := io.ReadAll(w.get(server.Client(), server.URL).Body)
		require.NoError(t, err)
		assert.Equal(t, "flushed copied", string(text))
	}
	plain := w.handler(func(rw http.ResponseWriter, _ *http.Request) {
		_, flushes := rw.(http.Flusher)
		assert.False(t, flushes, "that of the server does not, either")
	}, s, fairsemhttp.Options{MaxWait: time.Minute})
	server := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		plain.ServeHTTP(struct {
			http.ResponseWriter
			http.Hijacker
		}{rw, rw.(http.Hijacker)}, r)
	}))
	require.NoError(t, w.get(server.Client(), server.URL).Body.Close())
}

var _ fairsemhttp.Limit = (*fairsem.Semaphore)(nil)
