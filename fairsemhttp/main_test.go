package fairsemhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMain(m *testing.M) {
	worldtest.Main[order](func() int {
		defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		return redistest.Main(m)
	})
}

// world is a limit of its own on a server.
type world struct{ *worldtest.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{worldtest.New(t)}
}

// handler is Handler for options that are right.
func (w *world) handler(next http.HandlerFunc, limit fairsemhttp.Limit, o fairsemhttp.Options) http.Handler {
	w.Helper()
	h, err := fairsemhttp.Handler(next, limit, o)
	require.NoError(w, err)
	return h
}

// serve starts a server, which the end of the test stops.
func (w *world) serve(h http.Handler) *httptest.Server {
	s := httptest.NewServer(h)
	w.Cleanup(s.Close)
	return s
}

// serve2 is serve for HTTP/2.
func (w *world) serve2(h http.Handler) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	w.Cleanup(s.Close)
	return s
}

// get returns a response, whose body the end of the test closes.
func (w *world) get(client *http.Client, url string) *http.Response {
	w.Helper()
	resp, err := client.Get(url)
	require.NoError(w, err)
	w.Cleanup(func() { _ = resp.Body.Close() }) // most tests have closed it
	return resp
}

// gauge counts the requests that it handles.
type gauge struct{ worldtest.Gauge }

func (g *gauge) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	g.During(func() { _, _ = io.WriteString(w, "counted") }) // the caller is a test, which notices
}

// order is the task of a worker process.
type order struct {
	Redis, Name, Peer string
	Limit             int64
	TTL               time.Duration
	Spin              bool // handle one request that checks its context without a rest, and say when it has ended
	Rounds            int  // request Peer this often in each of four goroutines; 0: serve, and request Peer for each request
}

// Work does the order.
func (o order) Work(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: o.Redis})
	defer func() { _ = rdb.Close() }() // the process ends
	client, err := fairsem.New(rdb, fairsem.Options{TTL: o.TTL})
	if err != nil {
		return err
	}
	s, err := client.Semaphore(o.Name, o.Limit)
	switch {
	case err != nil:
		return err
	case o.Spin:
		return o.spin(ctx, s)
	case o.Rounds == 0:
		return o.serve(ctx, s)
	}
	caller := &http.Client{Transport: &fairsemhttp.Transport{Limit: s}}
	err = worldtest.InFour(o.Rounds, func() error { return o.request(ctx, caller) })
	return errors.Join(err, client.Close())
}

func (o order) request(ctx context.Context, caller *http.Client) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Peer, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := caller.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func (o order) serve(ctx context.Context, s *fairsem.Semaphore) error {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := o.request(r.Context(), http.DefaultClient); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	h, err := fairsemhttp.Handler(next, s, fairsemhttp.Options{MaxWait: time.Minute})
	if err != nil {
		return err
	}
	server := httptest.NewServer(h)
	fmt.Println(server.URL)
	<-ctx.Done()
	return nil
}

// spin reports the permit of a request after its process stood still for longer than a TTL.
func (o order) spin(ctx context.Context, s *fairsem.Semaphore) error {
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("ready")
		for last := time.Now(); ; {
			now := time.Now()
			if r.Context().Err() != nil {
				fmt.Println(context.Cause(r.Context()))
				return
			}
			if now.Sub(last) > o.TTL {
				fmt.Println("still relies on it")
				return
			}
			last = now
		}
	})
	h, err := fairsemhttp.Handler(next, s, fairsemhttp.Options{MaxWait: time.Minute})
	if err != nil {
		return err
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
	return nil
}
