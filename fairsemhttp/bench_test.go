package fairsemhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/internal/worldtest"
)

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
	s := worldtest.Unreached(b, nil)
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
	b.Run("pair", func(b *testing.B) { worldtest.BenchmarkPair(b, s) })
}

// The cost of a request beside its handling and a pair of acquire and release.
func TestEachRequestMakesAtMostTwentyAllocationsOfItsOwn(t *testing.T) {
	cost := worldtest.NewCost(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h, err := fairsemhttp.Handler(nothing, cost.Limit, fairsemhttp.Options{})
	require.NoError(t, err)
	transport := &fairsemhttp.Transport{Limit: cost.Limit, Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: io.NopCloser(http.NoBody)}, nil
	})}
	w := struct { // as that of HTTP/1
		*httptest.ResponseRecorder
		http.Hijacker
	}{ResponseRecorder: httptest.NewRecorder()}

	assert.LessOrEqual(t, cost.Allocations(t, func() { h.ServeHTTP(w, r) }), 20.0, "a request that is handled")
	assert.LessOrEqual(t, cost.Allocations(t, func() {
		resp, err := transport.RoundTrip(r)
		require.NoError(t, err)
		_ = resp.Body.Close() // always nil
	}), 20.0, "one that is sent")
}
