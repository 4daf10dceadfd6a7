package fairsemhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemhttp"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// answer serves one request without a network.
func answer(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result() //nolint:bodyclose // a recorder has nothing to close
}

func request(t *testing.T) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
}

func TestRequestHoldsItsUnitsUntilItsHandlerReturns(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(3)
	var during atomic.Int64
	h := w.handler(func(http.ResponseWriter, *http.Request) { during.Store(w.Status(s).Used) }, s, fairsemhttp.Options{
		Weight: func(*http.Request) int64 { return 2 },
	})
	for _, server := range []*httptest.Server{w.serve(h), w.serve2(h)} {
		resp := w.get(server.Client(), server.URL)
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, int64(2), during.Swap(0))
		w.EventuallyUsed(s, 0)
	}
}

func TestRequestsThatServersOfAllProcessesHandleStayWithinTheLimit(t *testing.T) {
	w := newWorld(t)
	var counted gauge
	peer := w.serve(&counted)
	var urls []string
	for range 3 {
		url, err := worldtest.Start(t, order{Redis: w.Redis, Name: w.LimitName, Peer: peer.URL, Limit: 3}).Out.ReadString('\n')
		require.NoError(t, err)
		urls = append(urls, strings.TrimSpace(url))
	}
	var requests sync.WaitGroup
	for n := range 60 {
		requests.Go(func() { assert.Equal(t, http.StatusOK, w.get(peer.Client(), urls[n%3]).StatusCode) })
	}
	requests.Wait()
	assert.Equal(t, int64(60), counted.All.Load())
	assert.LessOrEqual(t, counted.Most.Load(), int64(3))
}

// A release that is sent after the next request of the same client has it refused.
func TestRequestsOneAfterTheOtherFindTheirUnitFree(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	h := w.handler(hello, s, fairsemhttp.Options{MaxWait: fairsemhttp.NoWait})
	limited := &fairsemhttp.Transport{Base: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: io.NopCloser(strings.NewReader("hello"))}, nil
	}), Limit: s, Options: fairsemhttp.Options{MaxWait: fairsemhttp.NoWait}}
	for who, lets := range map[string]func() bool{
		"Handler": func() bool { return answer(h, request(t)).StatusCode == http.StatusOK },
		"Transport": func() bool {
			resp, err := limited.RoundTrip(request(t))
			if err != nil {
				return false
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return errors.Join(err, resp.Body.Close()) == nil
		},
	} {
		w.EventuallyInARow(lets, who+" refuses some of them")
	}
}

func TestRequestThatIsRefusedGets503WithRetryAfterAndAProblem(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	refused := make(chan error, 1)
	h := w.handler(hello, s, fairsemhttp.Options{
		MaxWait: 300 * time.Millisecond, PolicyName: `the "API"`,
		OnRefused: func(_ *http.Request, err error) { refused <- err },
	})
	resp := w.get(http.DefaultClient, w.serve(h).URL)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	assert.Empty(t, resp.Header.Get("RateLimit"))
	var problem map[string]any
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&problem))
	assert.Equal(t, map[string]any{
		"type":  "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		"title": "All units of a limit are in use", "status": 503.0, "violated-policies": []any{`the "API"`},
	}, problem)
	assert.ErrorIs(t, <-refused, fairsem.ErrNotAcquired)
}

// crowd has eight callers with these options share a unit, for half a second each, until the test ends. It returns when the pace of their
// queue is known, and with it that a new call waits for longer than 3 s.
func (w *world) crowd(s *fairsem.Semaphore, o fairsem.CallOptions) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for ctx.Err() == nil {
				_ = s.With(o).Do(ctx, 1, func(ctx context.Context) error { // ends with the test
					select {
					case <-time.After(500 * time.Millisecond):
					case <-ctx.Done():
					}
					return nil
				})
			}
		})
	}
	w.Cleanup(func() {
		cancel()
		calls.Wait()
	})
	w.Eventually(func() bool {
		wait, known := w.Status(s).ExpectedWait()
		return known && wait > 3*time.Second
	}, "the pace is not known")
}

// Where each call holds its unit for half a second and eight wait, one second is too early.
func TestRetryAfterFollowsThePaceOfTheQueue(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	w.crowd(s, fairsem.CallOptions{})
	h := w.handler(hello, s, fairsemhttp.Options{MaxWait: 50 * time.Millisecond})
	w.Eventually(func() bool { // a machine that is busy answers too late for the pace
		retry, err := strconv.Atoi(answer(h, request(t)).Header.Get("Retry-After"))
		return err == nil && retry > 1 && retry <= 60
	}, "Retry-After does not follow the pace")
}

// The queue of a noisy tenant, of which the pace is known, is not that of a quiet one, which may be next.
func TestRetryAfterOfATenantDoesNotFollowTheQueueOfOthers(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	w.crowd(s, fairsem.CallOptions{Tenant: "noisy"})
	h := w.handler(hello, nil, fairsemhttp.Options{MaxWait: fairsemhttp.NoWait, LimitOf: func(r *http.Request) (fairsemhttp.Limit, error) {
		return s.With(fairsem.CallOptions{Tenant: r.Header.Get("Customer")}), nil
	}})
	r := request(t)
	r.Header.Set("Customer", "quiet")
	refused := 0
	w.Eventually(func() bool { // now and then the unit is free
		resp := answer(h, r)
		if resp.StatusCode == http.StatusServiceUnavailable {
			assert.Equal(t, "1", resp.Header.Get("Retry-After"))
			refused++
		}
		return refused >= 5
	}, "it is not refused")
}

func TestLimiterAnswers429AndSaysWhatRemains(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 3, time.Minute)
	require.NoError(t, err)
	h := w.handler(hello, limiter, fairsemhttp.Options{PolicyName: `a "b" \c`})
	for _, remains := range []string{"2", "1", "0"} {
		resp := answer(h, request(t))
		assert.Equal(t, http.StatusOK, resp.StatusCode)
		assert.Equal(t, []string{`"a \"b\" \\c";r=` + remains + `;t=60`}, resp.Header["Ratelimit"])
		assert.Equal(t, []string{`"a \"b\" \\c";q=3;w=60`}, resp.Header["Ratelimit-Policy"])
	}
	resp := answer(h, request(t))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	retry, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	require.NoError(t, err)
	assert.Greater(t, retry, 1) // nearly the window, rounded up
	assert.Equal(t, []string{`"a \"b\" \\c";r=0;t=` + strconv.Itoa(retry)}, resp.Header["Ratelimit"])
	var problem map[string]any
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&problem))
	assert.Equal(t, "https://iana.org/assignments/http-problem-types#quota-exceeded", problem["type"])

	wide := w.handler(hello, limiter, fairsemhttp.Options{Weight: func(*http.Request) int64 { return 4 }})
	resp = answer(wide, request(t))
	assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "more than the limit")
	assert.Empty(t, resp.Header.Get("Retry-After"), "that would never help")
}

// Units that are in use, and a capacity that is reduced for a time, would have a client try again.
func TestRefusalOfAWeightAboveTheLimitSaysSo(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	s, err := client.Semaphore(w.LimitName, 3)
	require.NoError(t, err)
	limiter, err := client.Limiter(w.LimitName+"rate", 3, time.Minute)
	require.NoError(t, err)
	for want, limit := range map[int]fairsemhttp.Limit{http.StatusServiceUnavailable: s, http.StatusTooManyRequests: limiter} {
		resp := answer(w.handler(hello, limit, fairsemhttp.Options{Weight: func(*http.Request) int64 { return 4 }}), request(t))
		assert.Empty(t, resp.Header.Get("Retry-After"))
		var problem map[string]any
		require.NoError(t, json.NewDecoder(resp.Body).Decode(&problem))
		assert.Equal(t, map[string]any{
			"title": "The request weighs more than a limit", "status": float64(want), "violated-policies": []any{"default"},
		}, problem)
	}
}

// A client that is told that nothing is left sends nothing, though a request of less weight would be let through.
func TestRefusalSaysWhatRemainsIfThatIsKnown(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	limiter, err := client.Limiter(w.LimitName, 100, time.Hour)
	require.NoError(t, err)
	weight := int64(70)
	o := fairsemhttp.Options{MaxWait: time.Minute, Weight: func(*http.Request) int64 { return weight }}
	require.Equal(t, http.StatusOK, answer(w.handler(hello, limiter, o), request(t)).StatusCode)
	rest := func() string {
		h := w.handler(hello, limiter, o)
		resp := answer(h, request(t))
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		assert.Equal(t, `"default";q=100;w=3600`, resp.Header.Get("RateLimit-Policy"))
		return resp.Header.Get("RateLimit")
	}
	assert.Regexp(t, `^"default";r=30;t=\d+$`, rest())
	o.MaxWait = fairsemhttp.NoWait
	assert.Regexp(t, `^"default";r=30;t=\d+$`, rest())

	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() { waits <- limiter.Wait(ctx, 70) }() // ends with ctx
	w.Eventually(func() bool {
		st, err := limiter.Status(t.Context())
		return err == nil && st.Waiting == 1
	}, "it does not wait")
	o.MaxWait = time.Minute
	limiter = limiter.With(fairsem.CallOptions{MaxQueue: 1, HeadStart: time.Second})
	assert.Empty(t, rest(), "the queue is full")
	weight = 101
	assert.Empty(t, rest(), "that is more than the limit")
	o.MaxWait = fairsemhttp.NoWait
	assert.Empty(t, rest(), "that is more than the limit")
	cancel()
	assert.ErrorIs(t, <-waits, context.Canceled)
}

// Fields beside an outage or a mistake would be guesses.
func TestResponseOfARateWithoutAnAnswerOfRedisHasNoRateLimitFields(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	limiter, err := client.Limiter(w.LimitName, 100, time.Hour)
	require.NoError(t, err)
	none := func(want int, o fairsemhttp.Options) {
		resp := answer(w.handler(hello, limiter, o), request(t))
		assert.Equal(t, want, resp.StatusCode)
		assert.Empty(t, resp.Header.Get("RateLimit"))
		assert.Empty(t, resp.Header.Get("RateLimit-Policy"))
	}
	none(http.StatusInternalServerError, fairsemhttp.Options{Weight: func(*http.Request) int64 { return 0 }})
	require.NoError(t, client.Close())
	none(http.StatusServiceUnavailable, fairsemhttp.Options{})
}

func TestRequestWaitsForItsRateForAtMostMaxWait(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 1, 1500*time.Millisecond)
	require.NoError(t, err)
	h := w.handler(hello, limiter, fairsemhttp.Options{MaxWait: time.Minute})
	resp := answer(h, request(t))
	assert.Equal(t, []string{`"default";q=1`}, resp.Header["Ratelimit-Policy"], "a window of 1.5 s cannot be said")
	resp = answer(h, request(t))
	assert.Equal(t, http.StatusOK, resp.StatusCode, "it waited")
	assert.Equal(t, `"default";r=0;t=2`, resp.Header.Get("RateLimit"))
}

// Observers would count a request twice, or one that was served as refused.
func TestRequestIsOneCallOfItsLimiter(t *testing.T) {
	w := newWorld(t)
	var allowed, refused atomic.Int64
	client := w.Observed(func(e fairsem.Event) {
		switch e.(type) {
		case fairsem.AllowedEvent:
			allowed.Add(1)
		case fairsem.NotAcquiredEvent:
			refused.Add(1)
		}
	})
	often, err := client.Limiter(w.LimitName, 1, 500*time.Millisecond)
	require.NoError(t, err)
	seldom, err := client.Limiter(w.LimitName+"-seldom", 1, time.Hour)
	require.NoError(t, err)
	for _, one := range []struct {
		limit  *fairsem.Limiter
		status int
	}{
		{often, http.StatusOK}, {often, http.StatusOK}, // it waited, unless the machine is slow
		{seldom, http.StatusOK}, {seldom, http.StatusTooManyRequests},
	} {
		h := w.handler(hello, one.limit, fairsemhttp.Options{MaxWait: time.Minute})
		assert.Equal(t, one.status, answer(h, request(t)).StatusCode)
	}
	require.NoError(t, client.Close()) // after all events
	assert.Equal(t, int64(3), allowed.Load())
	assert.Equal(t, int64(1), refused.Load())
}

func TestRequestHasTheHeadStartOfItsLimiter(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 3, time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 1))
	waits := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { waits <- limiter.Wait(ctx, 3) }() // ends with ctx
	w.Eventually(func() bool {
		st, err := limiter.Status(t.Context())
		return err == nil && st.Waiting == 1
	}, "it does not wait")
	h := w.handler(hello, limiter.With(fairsem.CallOptions{HeadStart: time.Hour}), fairsemhttp.Options{MaxWait: time.Minute})
	assert.Equal(t, http.StatusOK, answer(h, request(t)).StatusCode)
	cancel()
	assert.ErrorIs(t, <-waits, context.Canceled)
}

func TestRequestWithoutWaitDoesNotJoinTheQueue(t *testing.T) {
	w := newWorld(t)
	var waited atomic.Int64
	client := w.Observed(func(e fairsem.Event) {
		if _, ok := e.(fairsem.WaitStartedEvent); ok {
			waited.Add(1)
		}
	})
	lock, err := client.Mutex(w.LimitName)
	require.NoError(t, err)
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	for _, limit := range []fairsemhttp.Limit{s, lock} {
		h := w.handler(hello, limit, fairsemhttp.Options{MaxWait: fairsemhttp.NoWait})
		assert.Equal(t, http.StatusOK, answer(h, request(t)).StatusCode)
		w.EventuallyUsed(s, 0)
		release := w.Occupy(s, 1)
		assert.Equal(t, http.StatusServiceUnavailable, answer(h, request(t)).StatusCode)
		release()
	}
	require.NoError(t, client.Close()) // after all events
	assert.Zero(t, waited.Load())
}

func TestRequestWithoutWaitIsRefusedThoughItsTurnIsNear(t *testing.T) {
	w := newWorld(t)
	limiter, err := w.Client().Limiter(w.LimitName, 1, 500*time.Millisecond)
	require.NoError(t, err)
	h := w.handler(hello, limiter, fairsemhttp.Options{MaxWait: fairsemhttp.NoWait})
	w.Eventually(func() bool { // the second request within a window, which a busy machine may not send
		return answer(h, request(t)).StatusCode == http.StatusTooManyRequests
	}, "each request waits for its turn")
}

func TestMutexLetsOneRequestThroughAtATime(t *testing.T) {
	w := newWorld(t)
	lock, err := w.Client().Mutex(w.LimitName)
	require.NoError(t, err)
	var counted gauge
	server := w.serve(w.handler(counted.ServeHTTP, lock, fairsemhttp.Options{MaxWait: time.Minute}))
	var requests sync.WaitGroup
	for range 20 {
		requests.Go(func() { assert.Equal(t, http.StatusOK, w.get(server.Client(), server.URL).StatusCode) })
	}
	requests.Wait()
	assert.Equal(t, int64(1), counted.Most.Load())
}

func TestEachTenantHasALimitOfItsOwn(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	h := w.handler(hello, nil, fairsemhttp.Options{MaxWait: fairsemhttp.NoWait, LimitOf: func(r *http.Request) (fairsemhttp.Limit, error) {
		tenant := r.Header.Get("Tenant")
		if tenant == "" {
			return nil, errors.New("no tenant")
		}
		return client.Semaphore(w.LimitName+tenant, 1)
	}})
	busy, err := client.Semaphore(w.LimitName+"busy", 1)
	require.NoError(t, err)
	defer w.Occupy(busy, 1)()
	for tenant, want := range map[string]int{"busy": 503, "idle": 200, "": 500, strings.Repeat("x", 600): 500} {
		r := request(t)
		r.Header.Set("Tenant", tenant)
		assert.Equal(t, want, answer(h, r).StatusCode, tenant)
	}
	nothing := w.handler(hello, nil, fairsemhttp.Options{LimitOf: func(*http.Request) (fairsemhttp.Limit, error) { return nil, nil }})
	assert.Equal(t, http.StatusInternalServerError, answer(nothing, request(t)).StatusCode, "no limit is not a limit of nothing")
}

// No part of a response may come from a request.
func TestResponseHasNoPartOfTheRequestOrOfAName(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	const secret = "\"></script>\r\nSet-Cookie: secret"
	bad := func(r *http.Request) (fairsemhttp.Limit, error) { return nil, errors.New(r.URL.Query().Get("q")) }
	rate := func(r *http.Request) (fairsemhttp.Limit, error) {
		return client.Limiter(w.LimitName+r.URL.Query().Get("q"), 1, time.Hour)
	}
	for _, of := range []func(*http.Request) (fairsemhttp.Limit, error){bad, rate} {
		h := w.handler(hello, nil, fairsemhttp.Options{LimitOf: of, MaxWait: time.Millisecond})
		for range 2 {
			r := request(t)
			r.URL.RawQuery = "q=" + strings.NewReplacer("\r", "%0d", "\n", "%0a", " ", "+", "\"", "%22").Replace(secret)
			resp := answer(h, r)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.NotContains(t, string(body), "script")
			for field, values := range resp.Header {
				assert.NotContains(t, strings.Join(values, ""), "script", field)
			}
			assert.Empty(t, resp.Cookies())
		}
	}
}

func TestClientThatDisconnectsLeavesTheQueueAtOnce(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	defer w.Occupy(s, 1)()
	h := w.handler(func(http.ResponseWriter, *http.Request) { t.Error("handled") }, s, fairsemhttp.Options{MaxWait: time.Hour})
	for _, server := range []*httptest.Server{w.serve(h), w.serve2(h)} {
		ctx, disconnect := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
		require.NoError(t, err)
		done := make(chan struct{})
		go func() { // ends with the request
			defer close(done)
			_, err := server.Client().Do(r) //nolint:bodyclose // there is no response
			assert.ErrorIs(t, err, context.Canceled)
		}()
		w.Eventually(func() bool { return w.Status(s).Waiting == 1 }, "the request does not wait")
		disconnect()
		<-done
		w.Eventually(func() bool { return w.Status(s).Waiting == 0 }, "the request still waits")
	}
}

func TestHandlerThatPanicsReleasesAndTheServerGoesOn(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	var calls atomic.Int64
	h := w.handler(func(rw http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		hello(rw, r)
	}, s, fairsemhttp.Options{MaxWait: time.Minute})
	server := w.serve(h)
	_, err := server.Client().Get(server.URL) //nolint:bodyclose // there is no response
	require.Error(t, err)
	w.EventuallyUsed(s, 0)
	assert.Equal(t, http.StatusOK, w.get(server.Client(), server.URL).StatusCode)
}

func TestLostPermitEndsTheContextOfTheRequest(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	causes := make(chan error, 2)
	h := w.handler(func(_ http.ResponseWriter, r *http.Request) {
		assert.NoError(t, r.Context().Err())
		w.Evict(s)
		<-r.Context().Done()
		causes <- r.Context().Err()
		causes <- context.Cause(r.Context())
	}, s, fairsemhttp.Options{})
	answer(h, request(t))
	assert.ErrorIs(t, <-causes, context.Canceled)
	assert.ErrorIs(t, <-causes, fairsem.ErrLost)
}

func TestOutageOfRedisRefusesOrAdmitsAfterMaxWait(t *testing.T) {
	w := newWorld(t)
	server := redistest.NewServer(t)
	w.Redis = server.Addr()
	client := w.Client()
	t.Cleanup(func() { // on a busy machine releases from the outage can take longer than Close waits
		if err := client.Close(); err != nil {
			assert.ErrorIs(t, err, fairsem.ErrUnavailable)
		}
	})
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	limiter, err := client.Limiter(w.LimitName+"rate", 1, time.Hour)
	require.NoError(t, err)
	w.Occupy(s, 1)()
	require.NoError(t, server.Pause())
	for _, limit := range []fairsemhttp.Limit{s, limiter} {
		for _, wait := range []time.Duration{300 * time.Millisecond, fairsemhttp.NoWait} {
			var refused, admitted []error
			o := fairsemhttp.Options{
				MaxWait:    wait,
				OnRefused:  func(_ *http.Request, err error) { refused = append(refused, err) },
				OnAdmitted: func(_ *http.Request, err error) { admitted = append(admitted, err) },
			}
			resp := answer(w.handler(hello, limit, o), request(t))
			assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			assert.Equal(t, "10", resp.Header.Get("Retry-After"))
			require.Len(t, refused, 1)
			require.ErrorIs(t, refused[0], fairsem.ErrUnavailable)
			require.Empty(t, admitted)

			o.OnUnavailable = fairsemhttp.Admit
			resp = answer(w.handler(hello, limit, o), request(t))
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.Empty(t, resp.Header.Get("RateLimit"), "nothing is known")
			require.Len(t, admitted, 1)
			require.ErrorIs(t, admitted[0], fairsem.ErrUnavailable)

			gone, cancel := context.WithCancel(t.Context())
			cancel()
			assert.NotEqual(t, http.StatusOK, answer(w.handler(hello, limit, o), request(t).WithContext(gone)).StatusCode)
			require.Len(t, admitted, 1, "its client is gone")
		}
	}
	require.NoError(t, server.Resume())
}

func TestAdmitLetsNothingThroughThatTheLimitRefuses(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	defer w.Occupy(s, 1)()
	o := fairsemhttp.Options{MaxWait: 500 * time.Millisecond, OnUnavailable: fairsemhttp.Admit}
	assert.Equal(t, http.StatusServiceUnavailable, answer(w.handler(hello, s, o), request(t)).StatusCode)
	o.Weight = func(*http.Request) int64 { return 2 }
	assert.Equal(t, http.StatusServiceUnavailable, answer(w.handler(hello, s, o), request(t)).StatusCode)
	o.Weight = func(*http.Request) int64 { return 0 }
	assert.Equal(t, http.StatusInternalServerError, answer(w.handler(hello, s, o), request(t)).StatusCode)
	o.Weight = nil
	require.NoError(t, client.Close())
	assert.Equal(t, http.StatusServiceUnavailable, answer(w.handler(hello, s, o), request(t)).StatusCode)
}

// The tests of internal/gate have all invalid settings; one row shows that they are checked.
func TestHandlerThatCannotWorkIsNotMade(t *testing.T) {
	w := newWorld(t)
	s := w.Semaphore(1)
	next := http.HandlerFunc(hello)
	for why, try := range map[string]struct {
		next http.Handler
		o    fairsemhttp.Options
	}{
		"no next":          {nil, fairsemhttp.Options{}},
		"no next function": {http.HandlerFunc(nil), fairsemhttp.Options{}},
		"MaxWait":          {next, fairsemhttp.Options{MaxWait: -2}},
		"policy name":      {next, fairsemhttp.Options{PolicyName: "é"}},
		"policy line":      {next, fairsemhttp.Options{PolicyName: "a\r\nb"}},
	} {
		h, err := fairsemhttp.Handler(try.next, s, try.o)
		assert.Nil(t, h, why)
		assert.ErrorIs(t, err, fairsem.ErrInvalid, why)
		assert.ErrorContains(t, err, "fairsemhttp.Handler", why)
	}
	body := &closable{Reader: strings.NewReader("x")}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1", body)
	_, err := (&fairsemhttp.Transport{Limit: s, Options: fairsemhttp.Options{MaxWait: -2}}).RoundTrip(r) //nolint:bodyclose // there is no response
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	assert.ErrorContains(t, err, "fairsemhttp.Transport")
	assert.True(t, body.closed.Load())
	assert.False(t, w.Status(s).Exists, "nothing was sent")
}

// closable is a body that knows whether it was closed.
type closable struct {
	io.Reader
	closed atomic.Bool
}

func (c *closable) Close() error {
	c.closed.Store(true)
	return nil
}

// Middleware around a mux names routes by it, as of Go 1.23.
func TestPatternOfTheRouteIsSeenAroundTheHandler(t *testing.T) {
	w := newWorld(t)
	client := w.Client()
	s, err := client.Semaphore(w.LimitName, 1)
	require.NoError(t, err)
	limiter, err := client.Limiter(w.LimitName+"rate", 10, time.Minute)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", hello)
	for _, limit := range []fairsemhttp.Limit{s, limiter} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/orders/7", http.NoBody)
		assert.Equal(t, http.StatusOK, answer(w.handler(mux.ServeHTTP, limit, fairsemhttp.Options{MaxWait: time.Minute}), r).StatusCode)
		assert.Equal(t, "GET /orders/{id}", r.Pattern)
	}
}
