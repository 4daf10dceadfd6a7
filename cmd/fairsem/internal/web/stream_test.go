package web

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// watch opens a stream.
func (s *served) watch(path string, headers ...string) *bufio.Scanner {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	s.t.Cleanup(transport.CloseIdleConnections)
	response, err := (&http.Client{Transport: transport}).Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(s.t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

// watchBriefly opens a stream and leaves.
func (s *served) watchBriefly(path string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	require.NoError(s.t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	_ = response.Body.Close()
}

// await reads until a line contains text.
func await(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	require.Fail(t, "the stream ended", "without %q: %v", text, lines.Err())
}

func TestAStreamShowsWhatChanges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	lines := s.watch("/stream?q=")
	await(t, lines, "No semaphore is in use")
	permit := s.hold("gate", 2)
	await(t, lines, `1<span class="of"> / 2</span>`)
	require.NoError(t, permit.Release(t.Context()))
	await(t, lines, `0<span class="of"> / 2</span>`)
}

func TestViewersOfANameShareOneQuery(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var queries atomic.Int64
	s.page.details.query = func(ctx context.Context, name string) (inspect.Detail, error) {
		queries.Add(1)
		return inspect.QueryDetail(ctx, s.client, name, maxTickets)
	}
	s.hold("gate", 1)
	s.seen(1)
	assert.Zero(t, queries.Load(), "there are no viewers")
	from := s.page.sampler.latest().polls
	for range 5 {
		s.watch("/semaphore/stream?name=gate")
	}
	lines := s.watch("/semaphore/stream?name=gate")
	for watched := s.page.sampler.latest().polls; s.page.sampler.latest().polls < watched+10; {
		await(t, lines, "host:1")
	}
	most := 2 * (s.page.sampler.latest().polls - from + 1) // on a slow machine a late viewer has a query of its own
	assert.LessOrEqual(t, queries.Load(), most, "one for each poll, not six")
}

func TestAnUnreadStreamDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("gate", 1)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	require.NoError(t, err)
	lines := s.watch("/stream")
	for range 20 {
		await(t, lines, ">gate<")
	}
}

func TestThereIsAnEndToHowManyWatch(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const mine = maxStreams / 2 // of one address
	require.True(t, s.page.streams.acquire("127.0.0.1:1", mine-1))
	s.watch("/stream")
	answer := s.get("/stream")
	assert.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	assert.NotEmpty(t, answer.Header.Get("Retry-After"))
	assert.Equal(t, http.StatusOK, s.get("/").StatusCode, "reading is allowed all the same")
	assert.Equal(t, http.StatusOK, s.get("/metrics").StatusCode)
	require.Eventually(t, func() bool { return s.get("/healthz").StatusCode == http.StatusOK }, soon, often)
	assert.True(t, s.page.streams.acquire("192.0.2.1:1", mine), "another address has room")
	s.page.streams.release("192.0.2.1:1", mine)
	s.page.streams.release("127.0.0.1:1", mine-1)
	for range mine / 2 {
		s.watchBriefly("/stream")
	}
	require.Eventually(t, func() bool { return s.page.streams.acquire("127.0.0.1:1", mine-1) }, soon, often, "only the first is left")
}

func TestALineBreakInATextIsNoneInTheStream(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "retry: 2000\ndata: a\ndata: \ndata: event: b\n\n", string(event([]byte("a\n\nevent: b"))))
	assert.Equal(t, "retry: 2000\ndata: a\n\n", string(event([]byte("a\r\n"))))
	assert.Equal(t, "retry: 2000\ndata: a\ndata: \ndata: event: b\n\n", string(event([]byte("a\r\revent: b"))))
}

// A link to the page contains the filter, so a stranger may have written it.
func TestAFilterCannotInjectIntoTheStream(t *testing.T) {
	t.Parallel()
	s := serve(t)
	lines := s.watch("/stream?q=" + url.QueryEscape("a\r\rretry: 7\revent: owned"))
	await(t, lines, "event: owned")
	assert.True(t, strings.HasPrefix(lines.Text(), "data: "), lines.Text())
	assert.NotContains(t, lines.Text(), "\r")
}

func TestAPictureIsRenderedOncePerPollForAllViewers(t *testing.T) {
	t.Parallel()
	var m cache
	made := 0
	picture := func() []byte { made++; return nil }
	for range 3 {
		m.get(1, "a", picture)
	}
	assert.Equal(t, 1, made)
	m.get(2, "a", picture)
	m.get(1, "a", picture)
	assert.Equal(t, 3, made, "who is late gets what it asked for")
	for range 2 * mostShared {
		m.get(2, strings.Repeat("x", made), picture)
	}
	assert.LessOrEqual(t, len(m.made), mostShared)
}

const here = "127.0.0.1:1"

func TestNamesWithoutViewersAreForgotten(t *testing.T) {
	t.Parallel()
	at := noon
	d := newDetails(soon, 0, func(context.Context, string) (inspect.Detail, error) {
		return inspect.Detail{Status: fairsem.Status{At: at}}, nil
	})
	for i := range 2 * mostDetails {
		d.keep(strings.Repeat("x", i), seen{Detail: inspect.Detail{Status: fairsem.Status{At: at}}, at: time.Now()})
	}
	assert.Len(t, d.last, mostDetails)
	assert.Contains(t, d.last, strings.Repeat("x", 2*mostDetails-1), "what was seen last stays")
	at = at.Add(2 * forgetAfter)
	_, err := d.get(t.Context(), here, "new")
	require.NoError(t, err)
	assert.Len(t, d.last, 1)
}

func TestDuringAnOutageTheLastAnswerIsShown(t *testing.T) {
	t.Parallel()
	var failure error
	d := newDetails(soon, 0, func(context.Context, string) (inspect.Detail, error) {
		return inspect.Detail{Status: fairsem.Status{At: noon}}, failure
	})
	_, err := d.get(t.Context(), here, "a")
	require.NoError(t, err)
	failure = errors.New("away")
	last, err := d.get(t.Context(), here, "a")
	require.ErrorIs(t, err, failure)
	assert.Equal(t, noon, last.At)
}

// It took the place of a viewer for as long as its client stayed.
func TestAHeadOfAStreamEndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t)
		s.poll()
		w := httptest.NewRecorder()
		s.page.indexStream(w, httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/stream", nil))
		assert.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	})
}
