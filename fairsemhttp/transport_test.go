package fairsemhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/fairsemtest"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// roundTrip is a Base that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// limited is a client of a server whose requests the limit bounds.
func limited(server *httptest.Server, limit fairsemhttp.Limit) *http.Client {
	return &http.Client{Transport: &fairsemhttp.Transport{Base: server.Client().Transport, Limit: limit}}
}

func TestRequestHoldsItsPermitUntilItsBodyIsReadOrClosed(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	for _, server := range []*httptest.Server{w.serve(http.HandlerFunc(hello)), w.serve2(http.HandlerFunc(hello))} {
		client := limited(server, s)
		resp := w.get(client, server.URL)
		_, err := io.ReadFull(resp.Body, make([]byte, 2))
		require.NoError(t, err)
		assert.Equal(t, int64(1), w.Status(s).Used, "half of it is read")
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "llo", string(text))
		w.EventuallyUsed(s, 0)

		resp = w.get(client, server.URL)
		assert.Equal(t, int64(1), w.Status(s).Used, "nothing is read")
		require.NoError(t, resp.Body.Close())
		w.EventuallyUsed(s, 0)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, int64(0), w.Status(s).Used, "once is enough")

		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, server.URL, http.NoBody)
		require.NoError(t, err)
		resp, err = client.Do(r)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		w.EventuallyUsed(s, 0)
	}
}

func TestRequestsThatAllProcessesSendStayWithinTheLimit(t *testing.T) {
	w := newWorld(t)
	var counted gauge
	peer := w.serve(&counted)
	var running []*worldtest.Process
	for range 3 {
		running = append(running, worldtest.Start(t, order{Redis: w.Redis, Name: w.LimitName, Peer: peer.URL, Limit: 3, Rounds: 20}))
	}
	for _, p := range running {
		require.NoError(t, p.Wait())
	}
	assert.Equal(t, int64(240), counted.All.Load())
	assert.LessOrEqual(t, counted.Most.Load(), int64(3))
}

func TestResponseWithoutABodyReleasesAtOnce(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	server := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) }))
	resp := w.get(limited(server, s), server.URL)
	assert.Equal(t, http.NoBody, resp.Body)
	w.EventuallyUsed(s, 0)
}

// inMemory is a body that a Base has read, as one that caches or logs does. It can be written, as a connection can.
type inMemory struct{ bytes.Buffer }

func (*inMemory) Close() error { return nil }

func TestResponseWhoseBodyCanBeWrittenReleasesAtItsEnd(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	base := roundTrip(func(*http.Request) (*http.Response, error) {
		body := new(inMemory)
		body.WriteString("hello")
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	})
	resp, err := (&fairsemhttp.Transport{Base: base, Limit: s}).RoundTrip(request(t)) //nolint:bodyclose // its end is what releases
	require.NoError(t, err)
	assert.Equal(t, int64(1), w.Status(s).Used)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(text))
	w.EventuallyUsed(s, 0)
}

func TestRequestThatFailsReleasesAndItsErrorPassesThrough(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	broken := errors.New("broken")
	for _, base := range []roundTrip{
		func(*http.Request) (*http.Response, error) { return nil, broken },
		func(*http.Request) (*http.Response, error) { return nil, nil },
		func(*http.Request) (*http.Response, error) { return &http.Response{}, nil },
		func(*http.Request) (*http.Response, error) { panic(broken) },
	} {
		var err error
		func() {
			defer func() {
				if p := recover(); p != nil {
					err = p.(error)
				}
			}()
			_, err = (&fairsemhttp.Transport{Base: base, Limit: s}).RoundTrip(request(t)) //nolint:bodyclose // there is none
		}()
		if err != nil {
			assert.Equal(t, broken, err)
		}
		w.EventuallyUsed(s, 0)
	}
}

func TestRequestThatIsNotSentClosesItsBody(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	limiter, err := w.Client().Limiter(w.LimitName+"rate", 1, time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 1))
	base := roundTrip(func(*http.Request) (*http.Response, error) {
		t.Error("sent")
		return nil, errors.ErrUnsupported
	})
	for _, limit := range []fairsemhttp.Limit{s, limiter} {
		for _, wait := range []time.Duration{20 * time.Millisecond, fairsemhttp.NoWait} {
			body := &closable{Reader: strings.NewReader("x")}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1", body)
			_, err := (&fairsemhttp.Transport{Base: base, Limit: limit, Options: fairsemhttp.Options{MaxWait: wait}}).RoundTrip(r) //nolint:bodyclose // there is none
			assert.ErrorIs(t, err, fairsem.ErrNotAcquired)
			assert.True(t, body.closed.Load())
		}
	}
	var limited *fairsem.WaitError
	_, err = (&fairsemhttp.Transport{Base: base, Limit: limiter, Options: fairsemhttp.Options{MaxWait: time.Minute}}).RoundTrip(request(t)) //nolint:bodyclose // there is none
	require.ErrorAs(t, err, &limited)
	assert.Greater(t, limited.RetryAfter, time.Minute)
}

// The writer of the body may wait for its end.
func TestPanicOfAFunctionOfTheOptionsClosesTheBody(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	for what, transport := range map[string]*fairsemhttp.Transport{
		"LimitOf": {Options: fairsemhttp.Options{LimitOf: func(*http.Request) (fairsemhttp.Limit, error) { panic("LimitOf") }}},
		"Weight":  {Limit: s, Options: fairsemhttp.Options{Weight: func(*http.Request) int64 { panic("Weight") }}},
	} {
		body := &closable{Reader: strings.NewReader("x")}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1", body)
		assert.PanicsWithValue(t, what, func() { _, _ = transport.RoundTrip(r) }) //nolint:bodyclose // there is none
		assert.True(t, body.closed.Load(), what)
	}
}

func TestRequestWaitsAsLongAsItsContextAllows(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	release := w.Occupy(s, 1)
	server := w.serve(http.HandlerFunc(hello))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	_, err = limited(server, s).Do(r) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, context.DeadlineExceeded)

	done := make(chan *http.Response)
	go func() { // ends when the unit is released
		resp, err := limited(server, s).Get(server.URL)
		assert.NoError(t, err)
		done <- resp
	}()
	w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the request does not wait")
	release()
	require.NoError(t, (<-done).Body.Close())
}

func TestLimiterCountsRequests(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 2, time.Hour)
	require.NoError(t, err)
	server := w.serve(http.HandlerFunc(hello))
	client := &http.Client{Transport: &fairsemhttp.Transport{Limit: limiter, Options: fairsemhttp.Options{MaxWait: time.Second}}}
	for range 2 {
		require.NoError(t, w.get(client, server.URL).Body.Close())
	}
	_, err = client.Get(server.URL) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, fairsem.ErrNotAcquired)
}

func TestAnswerOfTheServerPassesThrough(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	server := w.serve(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "7")
		rw.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(rw, "of the server")
	}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	require.NoError(t, err)
	resp, err := (&fairsemhttp.Transport{Base: server.Client().Transport, Limit: s}).RoundTrip(r)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	assert.Equal(t, []any{http.StatusTooManyRequests, "7", "of the server"}, []any{resp.StatusCode, resp.Header.Get("Retry-After"), string(text)})
	assert.Same(t, r, resp.Request)
}

func TestLostPermitEndsTheRequest(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	begun := make(chan struct{}, 4)
	silent := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(rw, "begun")
			_ = http.NewResponseController(rw).Flush() // the client would notice
		}
		<-r.Context().Done()
	})
	for _, server := range []*httptest.Server{w.serve(silent), w.serve2(silent)} {
		client := limited(server, s)
		failed := make(chan error)
		go func() { // ends when the permit is lost
			_, err := client.Get(server.URL) //nolint:bodyclose // there is none
			failed <- err
		}()
		<-begun
		w.Evict(s)
		assert.ErrorIs(t, <-failed, fairsem.ErrLost)

		resp := w.get(client, server.URL+"/body")
		<-begun
		w.Evict(s)
		_, err := io.ReadAll(resp.Body)
		assert.ErrorIs(t, err, fairsem.ErrLost)
	}
}

func TestOutageOfRedisSendsOnlyWhatIsAdmitted(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	require.NoError(t, client.Close()) // a Client that is closed lets nothing through
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	server := w.serve(http.HandlerFunc(hello))
	transport := &fairsemhttp.Transport{Limit: s, Options: fairsemhttp.Options{MaxWait: time.Minute, OnUnavailable: fairsemhttp.Admit}}
	_, err = (&http.Client{Transport: transport}).Get(server.URL) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, fairsem.ErrClosed)

	private := redistest.NewServer(t)
	w.Redis = private.Addr()
	s = w.Semaphore(1)
	require.NoError(t, private.Pause())
	var admitted atomic.Int64
	transport = &fairsemhttp.Transport{Limit: s, Options: fairsemhttp.Options{MaxWait: 300 * time.Millisecond}}
	_, err = (&http.Client{Transport: transport}).Get(server.URL) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, fairsem.ErrUnavailable)
	transport.Options.OnUnavailable = fairsemhttp.Admit
	transport.Options.OnAdmitted = func(*http.Request, error) { admitted.Add(1) }
	require.NoError(t, w.get(&http.Client{Transport: transport}, server.URL).Body.Close())
	assert.Equal(t, int64(1), admitted.Load())
	require.NoError(t, private.Resume())
}

// In an outage, when it matters, it would have no effect for requests whose deadline comes before a TTL.
func TestTransportThatAdmitsNeedsAMaxWait(t *testing.T) {
	w := newWorld(t)
	transport := &fairsemhttp.Transport{Limit: w.Semaphore(1), Options: fairsemhttp.Options{OnUnavailable: fairsemhttp.Admit}}
	_, err := transport.RoundTrip(request(t)) //nolint:bodyclose // there is none
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	assert.ErrorContains(t, err, "Admit needs a MaxWait")
	_, err = fairsemhttp.Handler(http.HandlerFunc(hello), transport.Limit, transport.Options)
	assert.NoError(t, err, "a Handler has one")
}

type idle struct {
	roundTrip
	closed atomic.Int64
}

func (i *idle) CloseIdleConnections() { i.closed.Add(1) }

func TestIdleConnectionsOfTheBaseAreClosed(t *testing.T) {
	t.Parallel()
	base := new(idle)
	(&http.Client{Transport: &fairsemhttp.Transport{Base: base}}).CloseIdleConnections()
	assert.Equal(t, int64(1), base.closed.Load())
	(&fairsemhttp.Transport{Base: base.roundTrip}).CloseIdleConnections() // has none
}

// It was its own Base, so one request took all units and waited for itself. The test has http.DefaultTransport for itself.
func TestTransportThatIsAPartOfTheDefaultNeedsABase(t *testing.T) {
	client := fairsemtest.NewServer(t).Client(fairsem.Options{})
	s, err := client.Semaphore("api", 2)
	require.NoError(t, err)
	l, err := client.Limiter("calls", 10, time.Hour)
	require.NoError(t, err)
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:1", http.NoBody)
	require.NoError(t, err)
	for _, limit := range []fairsemhttp.Limit{s, l} {
		own := &fairsemhttp.Transport{Limit: limit}
		for name, part := range map[string]http.RoundTripper{"the default itself": own, "within another": roundTrip(own.RoundTrip)} {
			http.DefaultTransport = part
			_, err = own.RoundTrip(request)
			require.ErrorIs(t, err, fairsem.ErrInvalid, name)
			require.ErrorContains(t, err, "set Base to the transport that this replaces", name)
		}
		http.DefaultTransport = own
		own.CloseIdleConnections()
		own.Base = before
		_, err = own.RoundTrip(request)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
}
