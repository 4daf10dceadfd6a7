package fairsem_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/testclient"
)

// Invalid input is refused before anything is sent. The largest and smallest valid values work.

const maxUnits = 1<<53 - 1 // of limits and weights

var none context.Context // a nil context, which the linter does not accept as an argument

// offline returns a go-redis client through which nothing may be sent.
func offline(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		t.Error("something was sent")
		return nil, errors.New("offline")
	}})
	rdb.AddHook(silence{t: t})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	return rdb
}

// silence is a go-redis hook that sees each command before go-redis gets a connection.
type silence struct {
	testclient.Hook
	t *testing.T
}

func (s silence) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		s.t.Errorf("sent: %v", cmd)
		return errors.New("offline")
	}
}

func (s silence) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		s.t.Errorf("sent: %v", cmds)
		return errors.New("offline")
	}
}

func offlineClient(t *testing.T) *fairsem.Client {
	t.Helper()
	c, err := fairsem.New(offline(t), fairsem.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func offlineSemaphore(t *testing.T, name string) *fairsem.Semaphore {
	t.Helper()
	s, err := offlineClient(t).Semaphore(name, 5)
	require.NoError(t, err)
	return s
}

// invalid checks an error for invalid input. It must contain part, which helps to correct the mistake.
func invalid(t *testing.T, err error, part string) {
	t.Helper()
	wrong(t, err, fairsem.ErrInvalid, part)
}

func wrong(t *testing.T, err, is error, part string) {
	t.Helper()
	require.ErrorIs(t, err, is)
	assert.True(t, strings.HasPrefix(err.Error(), "fairsem: "), "%q", err.Error())
	assert.Equal(t, 1, strings.Count(err.Error(), "fairsem: "), "%q", err.Error())
	assert.Contains(t, err.Error(), part)
	for _, r := range err.Error() {
		assert.False(t, r < ' ' || r == 0x7f, "a control character in %q", err.Error())
	}
}

func TestInvalidClientsAreRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{})
	t.Cleanup(func() { assert.NoError(t, ring.Close()) })
	one := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { assert.NoError(t, one.Close()) })
	pipeliner, err := one.AutoPipeline()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, pipeliner.Close()) })
	var (
		client   *redis.Client
		cluster  *redis.ClusterClient
		ringless *redis.Ring
	)
	for name, test := range map[string]struct {
		rdb  redis.UniversalClient
		part string
	}{
		"nil":                 {nil, "nil"},
		"nil in an interface": {client, "nil"},
		"nil cluster":         {cluster, "nil"},
		"nil ring":            {ringless, "nil"},
		"ring":                {ring, "redis.Ring"},
		"auto-pipeliner":      {pipeliner, "redis.AutoPipeliner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := fairsem.New(test.rdb, fairsem.Options{})
			assert.Nil(t, c)
			invalid(t, err, test.part)
		})
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		opts fairsem.Options
		part string
	}{
		{fairsem.Options{TTL: 99 * time.Millisecond}, "99ms"},
		{fairsem.Options{TTL: 100*time.Millisecond - 1}, "99.999999ms"},
		{fairsem.Options{TTL: 24*time.Hour + 1}, "24h0m0.000000001s"},
		{fairsem.Options{TTL: -time.Second}, "-1s"},
		{fairsem.Options{TTL: 1}, "1ns"},
		{fairsem.Options{TTL: math.MinInt64}, "-"},
		{fairsem.Options{Prefix: "a{b"}, `"a{b"`},
		{fairsem.Options{Prefix: "a}\n"}, `"a}\n"`},
		{fairsem.Options{Prefix: "{a}"}, `"{a}"`},
	} {
		c, err := fairsem.New(offline(t), test.opts)
		assert.Nil(t, c)
		invalid(t, err, test.part)
	}
}

func TestInvalidNamesAreRefused(t *testing.T) {
	t.Parallel()
	c := offlineClient(t)
	for _, test := range []struct{ name, part string }{
		{"", "empty"},
		{"}", `"}"`},
		{"}{\n\x00", `"}{\n\x00"`},
		{"}" + strings.Repeat("long ", 200), `"}long `},
		{strings.Repeat("x", 513), "513"},
		{strings.Repeat("\x1b[31m", 200), `\x1b[31m`},
		{strings.Repeat("ä", 257), "514"},
	} {
		s, err := c.Semaphore(test.name, 1)
		assert.Nil(t, s)
		invalid(t, err, test.part)
		assert.Less(t, len(err.Error()), 400, "the error contains the whole name")
	}
}

func TestInvalidLimitsAreRefused(t *testing.T) {
	t.Parallel()
	c := offlineClient(t)
	for _, limit := range []int64{0, -1, math.MinInt64, maxUnits + 1, math.MaxInt64} {
		s, err := c.Semaphore("a\x07name", limit)
		assert.Nil(t, s)
		invalid(t, err, `"a\aname"`)
		assert.ErrorContains(t, err, fmt.Sprint(limit))
	}
}

// operations returns all calls of a semaphore that take a context.
func operations(s *fairsem.Semaphore) map[string]func(context.Context, int64) error {
	return map[string]func(context.Context, int64) error{
		"Acquire":    func(ctx context.Context, n int64) error { _, err := s.Acquire(ctx, n); return err },
		"TryAcquire": func(ctx context.Context, n int64) error { _, err := s.TryAcquire(ctx, n); return err },
		"Do": func(ctx context.Context, n int64) error {
			return s.Do(ctx, n, func(context.Context) error { panic("it runs without a permit") })
		},
		"Status":  func(ctx context.Context, _ int64) error { _, err := s.Status(ctx); return err },
		"Holders": func(ctx context.Context, _ int64) error { return firstError(s.Holders(ctx)) },
		"Waiters": func(ctx context.Context, _ int64) error { return firstError(s.Waiters(ctx)) },
		"Tenants": func(ctx context.Context, _ int64) error { return firstError(s.Tenants(ctx)) },

		"SetLimit":   func(ctx context.Context, n int64) error { return s.SetLimit(ctx, n) },
		"ResetLimit": func(ctx context.Context, _ int64) error { return s.ResetLimit(ctx) },
		"Evict":      func(ctx context.Context, _ int64) error { return s.Evict(ctx, "nobody:1") },
		"EvictedBy":  func(ctx context.Context, _ int64) error { _, err := s.EvictedBy(ctx, "nobody:1"); return err },
	}
}

func firstError[T any](list iter.Seq2[T, error]) error {
	for _, err := range list {
		return err
	}
	return nil
}

// askers are the names of the operations that acquire a permit.
var askers = []string{"Acquire", "TryAcquire", "Do"}

func TestNilContextIsRefused(t *testing.T) {
	t.Parallel()
	for _, call := range operations(offlineSemaphore(t, "a\nname")) {
		invalid(t, call(none, 1), `"a\nname": invalid argument: the context is nil`)
	}
}

func TestInvalidWeightsAreRefused(t *testing.T) {
	t.Parallel()
	all := operations(offlineSemaphore(t, "a\nname"))
	for _, name := range askers {
		for _, n := range []int64{0, -1, math.MinInt64, maxUnits + 1, math.MaxInt64} {
			err := all[name](t.Context(), n)
			invalid(t, err, `"a\nname": invalid argument: weight `+fmt.Sprint(n))
		}
	}
}

func TestInvalidCallOptionsAreRefused(t *testing.T) {
	t.Parallel()
	s := offlineSemaphore(t, "a\nname")
	for _, test := range []struct {
		opts fairsem.CallOptions
		part string
	}{
		{fairsem.CallOptions{TTL: 99 * time.Millisecond}, "99ms"},
		{fairsem.CallOptions{TTL: 24*time.Hour + 1}, "24h0m0.000000001s"},
		{fairsem.CallOptions{TTL: -1}, "-1ns"},
		{fairsem.CallOptions{HeadStart: -1}, "-1ns"},
		{fairsem.CallOptions{HeadStart: 366*24*time.Hour + 1}, "HeadStart"},
		{fairsem.CallOptions{HeadStart: math.MaxInt64}, "HeadStart"},
		{fairsem.CallOptions{MaxQueue: -1}, "MaxQueue -1"},
		{fairsem.CallOptions{MaxQueue: maxUnits + 1}, "MaxQueue"},
	} {
		all := operations(s.With(test.opts))
		for _, name := range askers {
			err := all[name](t.Context(), 1)
			invalid(t, err, `"a\nname"`)
			assert.ErrorContains(t, err, test.part, name)
		}
	}
}

func TestDoWithoutAFunctionIsRefused(t *testing.T) {
	t.Parallel()
	invalid(t, offlineSemaphore(t, "a\nname").Do(t.Context(), 1, nil), `"a\nname": invalid argument: the function is nil`)
}

func TestReleaseWithoutAContextIsRefusedAndReleasesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), 1))
		invalid(t, p.Release(none), fmt.Sprintf("%q", w.name))
		assert.NoError(t, p.Context().Err())
		assert.Equal(t, int64(1), w.status(s).Used)
		w.release(p)
	})
}

func TestClosedClientSendsNothing(t *testing.T) {
	t.Parallel()
	c := offlineClient(t)
	s, err := c.Semaphore("a\nname", 1)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	for _, call := range operations(s) {
		wrong(t, call(t.Context(), 1), fairsem.ErrClosed, `"a\nname": client closed`)
		invalid(t, call(none, 1), "context is nil")
	}
}

func TestDoneContextSendsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, call := range operations(offlineSemaphore(t, "a\nname")) {
		wrong(t, call(ctx, 1), context.Canceled, `"a\nname": `)
	}
}

// Clients and handles can be created without a server.
func TestClientsAndHandlesNeedNoServer(t *testing.T) {
	t.Parallel()
	for _, opts := range []fairsem.Options{
		{}, {TTL: 100 * time.Millisecond}, {TTL: 24 * time.Hour}, {Prefix: ":"}, {Label: "\x00"},
	} {
		c, err := fairsem.New(offline(t), opts)
		require.NoError(t, err)
		s, err := c.Semaphore("a", maxUnits)
		require.NoError(t, err)
		assert.Equal(t, "a", s.With(fairsem.CallOptions{MaxQueue: 3}).Name())
		require.NoError(t, c.Close())
	}
}

func TestLongestNameWorks(t *testing.T) {
	w := onRedis(t)
	w.name += strings.Repeat("\xff", 512-len(w.name))
	s, other := w.semaphore(), w.semaphore()
	p := w.must(s.Acquire(t.Context(), 1))
	waiter := w.queue(t.Context(), other, 1)
	w.release(p)
	w.release(w.granted(waiter))
}

func TestShortestTTLWorks(t *testing.T) { ttlWorks(t, 100*time.Millisecond) }
func TestLongestTTLWorks(t *testing.T)  { ttlWorks(t, 24*time.Hour) }

func ttlWorks(t *testing.T, ttl time.Duration) {
	t.Helper()
	w := onRedis(t)
	ordinary := w.of(w.clientOn(w.connect(), fairsem.Options{}), 1)
	c, err := fairsem.New(w.connect(), fairsem.Options{TTL: ttl})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // fails if the machine is busy for the whole of a short TTL
	for _, s := range []*fairsem.Semaphore{
		w.of(c, 1).With(fairsem.CallOptions{NoRefresh: true}), ordinary.With(fairsem.CallOptions{TTL: ttl, NoRefresh: true}),
	} {
		w.eventually(func() bool { // on a busy machine Redis answers too late for a short lease, or it expires before it is read
			p, err := s.Acquire(t.Context(), 1)
			if err != nil {
				return !assert.ErrorIs(t, err, fairsem.ErrUnavailable)
			}
			deadline := w.rdb.ZScore(t.Context(), w.key("timeout"), p.ID()).Val()
			if err := p.Release(t.Context()); err != nil && !errors.Is(err, fairsem.ErrUnavailable) {
				assert.ErrorIs(t, err, fairsem.ErrLost)
			}
			return math.Abs(deadline-float64(p.Token()/1000+ttl.Milliseconds())) < 500
		}, "another deadline is stored")
	}
}

func TestLargestLimitAndWeightWorkToTheUnit(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.limit = maxUnits
		s := w.semaphore()
		p := w.must(s.Acquire(t.Context(), maxUnits))
		assert.Equal(t, int64(maxUnits), p.Weight())
		st := w.status(s)
		assert.Equal(t, [3]int64{maxUnits, maxUnits, 1}, [3]int64{st.Limit, st.Used, st.Holders})
		for ticket, err := range s.Holders(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, int64(maxUnits), ticket.Weight)
		}
		_, err := s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		w.release(p)

		one := w.must(s.Acquire(t.Context(), 1))
		_, err = s.TryAcquire(t.Context(), maxUnits)
		require.ErrorIs(t, err, fairsem.ErrNotAcquired)
		p = w.must(s.TryAcquire(t.Context(), maxUnits-1))
		_, err = w.of(w.client(), maxUnits-1).TryAcquire(t.Context(), maxUnits)
		require.ErrorIs(t, err, fairsem.ErrExceedsLimit)
		w.release(one)
		w.release(p)
	})
}

func TestPasswordIsInNoError(t *testing.T) {
	w, _ := privately(t)
	admin := w.rdb.(*redis.Client).Conn()
	const right, wrong = "correct-horse", "battery-staple"
	require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", right).Err())
	// Before the clients are closed: Redis breaks a connection without a password at a long command, which may cost its answer. Then the
	// client has to release what it may have been granted.
	defer func() {
		assert.NoError(t, admin.ConfigSet(context.Background(), "requirepass", "").Err())
		assert.NoError(t, admin.Close())
	}()
	for user, password := range map[string]string{"default": wrong, "": wrong, "nobody": wrong, " ": ""} {
		s := w.of(w.clientOn(w.as(user, password), fairsem.Options{TTL: time.Hour}), 1) // for as long as a retry would go on
		for name, call := range operations(s) {
			err := call(t.Context(), 1)
			require.Error(t, err, name)
			for _, e := range chain(err) {
				assert.NotContains(t, e.Error(), right)
				assert.NotContains(t, e.Error(), wrong)
			}
			if password != "" { // without one the connection may just end
				assert.Contains(t, err.Error(), "give the go-redis client the user and the password", name)
			}
		}
	}
	w.release(w.must(w.of(w.clientOn(w.as("default", right), fairsem.Options{}), 1).Acquire(t.Context(), 1)))
}

// A server repeats a command that it does not know, and that may be AUTH: it is often renamed.
func TestPasswordThatAServerRepeatsIsInNoError(t *testing.T) {
	w, server := privately(t, "--rename-command", "HELLO", "", "--rename-command", "AUTH", "")
	const long = 100 // Redis repeats only the beginning of a text longer than 128 bytes
	for _, password := range []string{"correct-horse", strings.Repeat("battery-staple", long)} {
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: password})
		t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
		c := w.clientOn(rdb, fairsem.Options{WaitReplicas: 1})
		calls := operations(w.of(c, 1))
		calls["Ping"] = func(ctx context.Context, _ int64) error { return c.Ping(ctx) }
		calls["List"] = func(ctx context.Context, _ int64) error {
			next, stop := iter.Pull2(c.List(ctx))
			defer stop()
			_, err, _ := next()
			return err
		}
		for name, call := range calls {
			err := call(t.Context(), 1)
			require.ErrorContains(t, err, "unknown command", name)
			for _, e := range chain(err) {
				assert.NotContains(t, e.Error(), password[:10], name)
			}
		}
	}
}

// chain returns an error and all errors that it wraps.
func chain(err error) []error {
	all := []error{err}
	switch e := err.(type) { //nolint:errorlint // every error of the chain is looked at by itself
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			all = append(all, chain(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			all = append(all, chain(inner)...)
		}
	}
	return all
}

// It once said that the client was closed, and Close crashed.
func TestNilAndZeroClientsAreRefusedAndDoNotCrash(t *testing.T) {
	t.Parallel()
	for _, c := range []*fairsem.Client{nil, {}} {
		invalid(t, c.Close(), "make it with New")
		invalid(t, c.Ping(t.Context()), "make it with New")
		invalid(t, listed(t.Context(), c), "make it with New")
		invalid(t, firstError(c.ListAt(t.Context(), 1)), "make it with New")
		_, err := c.Inspect("a").Status(t.Context())
		invalid(t, err, "make it with")
		_, err = c.Semaphore("a", 1)
		invalid(t, err, "make it with New")
		_, err = c.Mutex("a")
		invalid(t, err, "make it with New")
		_, err = c.RWMutex("a")
		invalid(t, err, "make it with New")
		_, err = c.Limiter("a", 1, time.Second)
		invalid(t, err, "make it with New")
		_, err = c.Weighted("a", 1)
		invalid(t, err, "make it with New")
	}
}

// "defer permit.Release(ctx)" before the check of the error is a common mistake.
func TestNilAndZeroHandlesAreRefusedAndDoNotCrash(t *testing.T) {
	t.Parallel()
	var none *fairsem.Permit
	require.ErrorIs(t, none.Release(t.Context()), fairsem.ErrInvalid)
	require.ErrorIs(t, new(fairsem.Permit).Release(t.Context()), fairsem.ErrInvalid)
	var all *fairsem.Permits
	require.ErrorIs(t, all.Release(t.Context()), fairsem.ErrInvalid)
	require.ErrorIs(t, new(fairsem.Permits).Release(t.Context()), fairsem.ErrInvalid)
	for _, f := range []func(){
		func() { all.Context() }, func() { all.List() }, func() { new(fairsem.Permits).Context() },
		func() { none.ID() }, func() { none.Token() }, func() { none.Weight() }, func() { none.Context() }, func() { none.Wanted() },
		func() { new(fairsem.Permit).Context() }, func() { new(fairsem.Weighted).TryAcquire(1) },
	} {
		func() {
			defer func() { assert.Contains(t, recover(), "fairsem: ") }()
			f()
		}()
	}
	for _, l := range []*fairsem.Limiter{nil, {}} {
		_, err := l.Allow(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrInvalid)
		for _, o := range []fairsem.CallOptions{{}, {NoRefresh: true}, {Tenant: "a"}} { // a Limiter refuses NoRefresh by name
			require.ErrorIs(t, l.With(o).Wait(t.Context(), 1), fairsem.ErrInvalid)
			_, err := l.With(o).Status(t.Context())
			require.ErrorIs(t, err, fairsem.ErrInvalid)
		}
		require.ErrorIs(t, l.Wait(t.Context(), 1), fairsem.ErrInvalid)
	}
	for _, w := range []*fairsem.Weighted{nil, {}} {
		require.ErrorIs(t, w.With(fairsem.CallOptions{}).Acquire(t.Context(), 1), fairsem.ErrInvalid)
		require.ErrorIs(t, w.Acquire(t.Context(), 1), fairsem.ErrInvalid)
		assert.PanicsWithValue(t, "fairsem: TryAcquire of a zero Weighted: make it with Client.Weighted", func() { w.TryAcquire(1) })
	}
	type lock interface {
		Lock(ctx context.Context) (*fairsem.Permit, error)
		TryLock(ctx context.Context) (*fairsem.Permit, error)
		Do(ctx context.Context, fn func(context.Context) error) error
		Request() fairsem.Request
	}
	var mutex *fairsem.Mutex
	var rw *fairsem.RWMutex
	for _, m := range []lock{
		mutex, new(fairsem.Mutex), mutex.With(fairsem.CallOptions{}), new(fairsem.Mutex).With(fairsem.CallOptions{}),
		rw, new(fairsem.RWMutex), rw.With(fairsem.CallOptions{}), new(fairsem.RWMutex).With(fairsem.CallOptions{}),
	} {
		_, err := m.Lock(t.Context())
		require.ErrorIs(t, err, fairsem.ErrInvalid)
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, fairsem.ErrInvalid)
		require.ErrorIs(t, m.Do(t.Context(), nothing), fairsem.ErrInvalid)
		_, err = fairsem.AcquireAll(t.Context(), m.Request())
		require.ErrorIs(t, err, fairsem.ErrInvalid)
	}
	require.ErrorIs(t, rw.RDo(t.Context(), nothing), fairsem.ErrInvalid)
	_, err := rw.RLock(t.Context())
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	_, err = rw.TryRLock(t.Context())
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	_, err = fairsem.AcquireAll(t.Context(), rw.RRequest())
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	for _, s := range []*fairsem.Semaphore{nil, {}} {
		require.ErrorIs(t, s.With(fairsem.CallOptions{}).Do(t.Context(), 1, nil), fairsem.ErrInvalid)
		_, err := s.Acquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrInvalid)
		_, err = s.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, fairsem.ErrInvalid)
		require.ErrorIs(t, s.Do(t.Context(), 1, nothing), fairsem.ErrInvalid)
	}
}
