package fairsemhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/internal/redistest"
)

const workerEnv = "FAIRSEM_TEST_WORKER"

func TestMain(m *testing.M) {
	if order := os.Getenv(workerEnv); order != "" {
		os.Exit(worker(order))
	}
	code := redistest.Main(m)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// world is a limit of its own on a server.
type world struct {
	*testing.T
	addr string
	name string
	ttl  time.Duration
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	server := redistest.SharedServer(t)
	require.NoError(t, server.AwaitAge(2)) // a younger one grants nothing for a while
	return &world{t, server.Addr(), t.Name() + "-" + uuid.NewString(), 10 * time.Second}
}

// client returns a new Client. For Redis it is another process.
func (w *world) client() *fairsem.Client { return w.observed(nil) }

func (w *world) observed(observer fairsem.Observer) *fairsem.Client {
	w.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: w.addr})
	w.Cleanup(func() { assert.NoError(w, rdb.Close()) })
	c, err := fairsem.New(rdb, fairsem.Options{TTL: w.ttl, Observer: observer})
	require.NoError(w, err)
	w.Cleanup(func() { assert.NoError(w, c.Close()) })
	return c
}

func (w *world) semaphore(limit int64) *fairsem.Semaphore {
	w.Helper()
	s, err := w.client().Semaphore(w.name, limit)
	require.NoError(w, err)
	return s
}

func (w *world) status(s *fairsem.Semaphore) fairsem.Status {
	w.Helper()
	st, err := s.Status(w.Context())
	require.NoError(w, err)
	return st
}

func (w *world) eventually(is func() bool, why string) {
	w.Helper()
	require.Eventually(w, is, time.Minute, 5*time.Millisecond, why)
}

// eventuallyUsed waits until that many units are held.
func (w *world) eventuallyUsed(s *fairsem.Semaphore, n int64) {
	w.Helper()
	w.eventually(func() bool { return w.status(s).Used == n }, fmt.Sprintf("not %d units are in use", n))
}

// evict revokes all permits.
func (w *world) evict(s *fairsem.Semaphore) {
	w.Helper()
	for held, err := range s.Holders(w.Context()) {
		require.NoError(w, err)
		require.NoError(w, s.Evict(w.Context(), held.ID))
	}
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

// occupy holds units until the test calls what it returns.
func (w *world) occupy(s *fairsem.Semaphore, n int64) (release func()) {
	w.Helper()
	p, err := s.Acquire(w.Context(), n)
	require.NoError(w, err)
	return func() { _ = p.Release(context.Background()) } // the lease may be lost on a busy machine
}

// gauge counts what goes on at the same time.
type gauge struct{ now, most, all atomic.Int64 }

func (g *gauge) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
		continue
	}
	g.all.Add(1)
	_, _ = io.WriteString(w, "counted") // the caller is a test, which notices
	g.now.Add(-1)
}

// order is the task of a worker process.
type order struct {
	Redis, Name, Peer string
	Limit             int64
	TTL               time.Duration
	Spin              bool // handle one request that checks its context without a rest, and say when it has ended
	Rounds            int  // request Peer this often in each of four goroutines; 0: serve, and request Peer for each request
}

// worker is the main function of a worker process. It ends with its parent: stdin is a pipe.
func worker(text string) int {
	var o order
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.work()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o order) work() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
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
	failures := make(chan error, 4)
	for range cap(failures) {
		go func() { // ends after its rounds; failures has room for all
			var err error
			for n := 0; n < o.Rounds && err == nil; n++ {
				err = o.request(ctx, caller)
			}
			failures <- err
		}()
	}
	for range cap(failures) {
		err = errors.Join(err, <-failures)
	}
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

// spin says what a request thinks of its permit after its process stood still for longer than a TTL.
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

// process is a running worker.
type process struct {
	*exec.Cmd
	out *bufio.Reader
}

func (w *world) start(o order) *process {
	w.Helper()
	text, err := json.Marshal(o)
	require.NoError(w, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(w, err)
	out, err := cmd.StdoutPipe()
	require.NoError(w, err)
	require.NoError(w, cmd.Start())
	p := &process{cmd, bufio.NewReader(out)}
	w.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return p
}
