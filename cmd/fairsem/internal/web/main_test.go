package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMain(m *testing.M) {
	code := redistest.Main(m)
	stopChromium()
	os.Exit(code)
}

const (
	soon      = 60 * time.Second // generous: other tests use the machine too
	often     = 10 * time.Millisecond
	testToken = "a token for tests only"
)

// served is a page in front of semaphores that only one test uses.
type served struct {
	t      *testing.T
	page   *Page
	url    string
	client *fairsem.Client
	prefix string // of its keys
}

// serve starts a page on the shared server.
func serve(t *testing.T, change ...func(*Options)) *served {
	t.Helper()
	return serveOn(t, redistest.SharedServer(t).Client(), change...)
}

var errTestOver = errors.New("the test is over")

func serveOn(t *testing.T, rdb redis.UniversalClient, change ...func(*Options)) *served {
	t.Helper()
	prefix := "web:" + uuid.NewString()
	client, err := fairsem.New(rdb, fairsem.Options{Prefix: prefix, Label: "host:1", TTL: 20 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	o := Options{
		Client: client, Redis: "redis.example:6379", Interval: 50 * time.Millisecond, Timeout: 10 * time.Second, Names: 100, Log: t.Output(),
		Ping: func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
	}
	for _, c := range change {
		c(&o)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &served{t, New(o), "http://" + listener.Addr().String(), client, prefix}
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.page.Serve(ctx, listener) }() // ends with ctx; waited for by the clean-up
	t.Cleanup(func() {
		cancel(errTestOver)
		assert.ErrorIs(t, <-ended, errTestOver)
	})
	return s
}

func writable(o *Options) { o.Token = testToken }

// seldom has a page poll once, for events that have to come between two polls.
func seldom(o *Options) { o.Interval = time.Hour }

// logged has a page keep its log.
func logged(log *transcript.Transcript) func(*Options) { return func(o *Options) { o.Log = log } }

// hold holds a permit until the test ends, or until it is released.
func (s *served) hold(name string, limit int64) *fairsem.Permit {
	s.t.Helper()
	sem, err := s.client.Semaphore(name, limit)
	require.NoError(s.t, err)
	permit, err := sem.Acquire(s.t.Context(), 1)
	require.NoError(s.t, err)
	return permit
}

// holdAll holds a permit of each name, and waits until the page has seen them.
func (s *served) holdAll(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.hold(name, 2)
	}
	s.seen(len(names))
}

// wait waits in the queue until the test ends, the returned function is called, or the permit is granted.
func (s *served) wait(name string, limit int64) (leave func()) {
	s.t.Helper()
	sem, err := s.client.Semaphore(name, limit)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() { // ends with ctx; waited for by leave
		defer close(ended)
		_, _ = sem.Acquire(ctx, 1) // either is fine
	}()
	leave = func() {
		cancel()
		<-ended
	}
	s.t.Cleanup(leave)
	require.Eventually(s.t, func() bool {
		status, err := sem.Status(s.t.Context())
		return err == nil && status.Waiting > 0
	}, soon, often)
	return leave
}

// seen waits until the page has polled so many names.
func (s *served) seen(names int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		now := s.page.sampler.latest()
		_, answered := s.page.pulse.age()
		return answered && !now.at.IsZero() && len(now.Statuses) == names
	}, soon, often)
}

// answer is the response to a request.
type answer struct {
	*http.Response
	body string
}

// ask sends a request, and follows no redirect.
func (s *served) ask(method, path, body string, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	require.NoError(s.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return answer{response, string(text)}
}

func (s *served) get(path string, headers ...string) answer {
	s.t.Helper()
	return s.ask(http.MethodGet, path, "", headers...)
}

func (s *served) status(name string) fairsem.Status {
	s.t.Helper()
	sem, err := s.client.Semaphore(name, 1)
	require.NoError(s.t, err)
	status, err := sem.Status(s.t.Context())
	require.NoError(s.t, err)
	return status
}

func named(name string) string { return "name=" + url.QueryEscape(name) }
