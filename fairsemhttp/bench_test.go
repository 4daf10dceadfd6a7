package fairsemhttp_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/internal/held"
	"github.com/fairsem/fairsem/internal/redistest"
)

// rig returns a limit that is never reached, with an observer.
func rig(b testing.TB, observer fairsem.Observer) *fairsem.Semaphore {
	b.Helper()
	server := redistest.SharedServer(b)
	require.NoError(b, server.AwaitAge(2))
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	b.Cleanup(func() { assert.NoError(b, rdb.Close()) })
	client, err := fairsem.New(rdb, fairsem.Options{Observer: observer})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, client.Close()) })
	s, err := client.Semaphore(b.Name(), 1_000_000)
	require.NoError(b, err)
	return s
}

func benchmarkRequests(b *testing.B, client *http.Client, url string) {
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Get(url)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(b, err)
		require.NoError(b, resp.Body.Close())
	}
}

// A request over loopback, one at a time: bare, with a limit in the server, and with a limit in the client.
func BenchmarkRequest(b *testing.B) {
	s := rig(b, nil)
	next := http.HandlerFunc(hello)
	h, err := fairsemhttp.Handler(next, s, fairsemhttp.Options{})
	require.NoError(b, err)
	bare, handler := httptest.NewServer(next), httptest.NewServer(h)
	defer bare.Close()
	defer handler.Close()
	b.Run("bare", func(b *testing.B) { benchmarkRequests(b, bare.Client(), bare.URL) })
	b.Run("handler", func(b *testing.B) { benchmarkRequests(b, handler.Client(), handler.URL) })
	b.Run("transport", func(b *testing.B) {
		benchmarkRequests(b, &http.Client{Transport: &fairsemhttp.Transport{Base: bare.Client().Transport, Limit: s}}, bare.URL)
	})
	b.Run("pair", func(b *testing.B) { // of acquire and release, without a request
		b.ReportAllocs()
		for b.Loop() {
			p, err := s.Acquire(b.Context(), 1)
			require.NoError(b, err)
			_ = p.Release(b.Context())
		}
	})
}

// What a request costs beside its handling and a pair of acquire and release.
func TestEachRequestMakesAtMostTwentyAllocationsOfItsOwn(t *testing.T) {
	released := make(chan struct{}, 1)
	s := rig(t, func(e fairsem.Event) {
		if _, ok := e.(fairsem.ReleasedEvent); ok {
			released <- struct{}{}
		}
	})
	// allocations counts what f allocates until its permit is released, so that no release shares a batch with the next acquire. What
	// others allocate meanwhile, such as renewals, only adds to it.
	allocations := func(f func()) float64 {
		least := math.Inf(1)
		for range 4 {
			least = min(least, testing.AllocsPerRun(50, func() {
				f()
				<-released
			}))
		}
		return least
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h, err := fairsemhttp.Handler(nothing, s, fairsemhttp.Options{})
	require.NoError(t, err)
	transport := &fairsemhttp.Transport{Limit: s, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: io.NopCloser(http.NoBody)}, nil
	})}
	w := struct { // as that of HTTP/1
		*httptest.ResponseRecorder
		http.Hijacker
	}{ResponseRecorder: httptest.NewRecorder()}

	pair := allocations(func() {
		p, err := s.Acquire(t.Context(), 1)
		require.NoError(t, err)
		held.Release(p)
	})
	handled := allocations(func() { h.ServeHTTP(w, r) })
	sent := allocations(func() {
		resp, err := transport.RoundTrip(r)
		require.NoError(t, err)
		_ = resp.Body.Close() // always nil
	})
	t.Logf("a pair: %v, a request that is handled: %v, one that is sent: %v", pair, handled, sent)
	assert.LessOrEqual(t, handled-pair, 20.0)
	assert.LessOrEqual(t, sent-pair, 20.0)
}
