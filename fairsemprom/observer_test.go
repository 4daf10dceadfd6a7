package fairsemprom_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemprom"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMetricsFollowTheCallsAndPermitsOfAClient(t *testing.T) {
	limit := worldtest.New(t)
	observer := newObserver(t, fairsemprom.Options{})
	client, other := limit.Observed(observer.Observe), limit.Client()
	name := limit.LimitName
	sem, err := client.Semaphore(name, 3)
	require.NoError(t, err)
	of := fmt.Sprintf("name=%q", name)

	held, err := sem.Acquire(t.Context(), 3)
	require.NoError(t, err)
	_, err = sem.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired)
	waiting := make(chan *fairsem.Permit)
	go func() { // ends when the test has read it
		p, _ := sem.Acquire(t.Context(), 2)
		waiting <- p
	}()
	eventually(t, observer, "fairsem_client_waiters{"+of+"} 1.0", "fairsem_client_permits_in_use{"+of+"} 3.0",
		"fairsem_client_calls_not_acquired_total{"+of+`,reason="limit_reached"} 1.0`, "fairsem_client_permits_lost_total{"+of+`,reason="expired"} 0.0`)

	require.NoError(t, held.Release(t.Context()))
	permit := <-waiting
	require.NotNil(t, permit)
	require.NoError(t, other.Inspect(name).Evict(t.Context(), permit.ID()))
	<-permit.Context().Done()
	eventually(t, observer, "fairsem_client_permits_in_use{"+of+"} 0.0", "fairsem_client_permits_lost_total{"+of+`,reason="evicted"} 1.0`)

	require.NoError(t, client.Close())
	has(t, observer, "fairsem_client_waiters{"+of+"} 0.0",
		`fairsem_client_permits_granted_total{by="at_once",`+of+"} 1.0",
		"fairsem_client_permits_released_total{"+of+"} 1.0",
		"fairsem_client_wait_duration_seconds_count{"+of+"} 2",
		"fairsem_client_hold_duration_seconds_count{"+of+"} 2")
	// The waiter learns of its grant from the reply to the release, a message or a renewal: whichever is first.
	assert.Len(t, regexp.MustCompile(`permits_granted_total\{by="(message|reply|refresh)",.*\} 1\.0`).FindAllString(read(t, observer), -1), 1)
	assert.NotContains(t, read(t, observer), "allowed", "it is not a Limiter")
}

func TestMetricsFollowTheCallsOfALimiter(t *testing.T) {
	limit := worldtest.New(t)
	observer := newObserver(t, fairsemprom.Options{})
	client := limit.Observed(observer.Observe)
	name := limit.LimitName
	limiter, err := client.Limiter(name, 1, time.Hour)
	require.NoError(t, err)
	require.NoError(t, limiter.Wait(t.Context(), 1))
	decision, err := limiter.Allow(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, decision.Allowed)
	require.NoError(t, client.Close())
	of := fmt.Sprintf("name=%q", name)
	has(t, observer, `fairsem_client_calls_allowed_total{by="at_once",`+of+"} 1.0",
		"fairsem_client_calls_not_acquired_total{"+of+`,reason="limit_reached"} 1.0`)
	assert.NotContains(t, read(t, observer), "permits", "there are none")
}

// The alerts are made of the metrics of an outage.
func TestMetricsShowAnOutageOfRedisAndItsEnd(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	observer := newObserver(t, fairsemprom.Options{})
	client, err := fairsem.New(rdb, fairsem.Options{TTL: 3 * time.Second, Observer: observer.Observe})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // it is closed below
	db, err := client.Semaphore("db", 5)
	require.NoError(t, err)
	permit, err := db.Acquire(t.Context(), 5)
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() { // ends with the outage
		_, err := db.Acquire(t.Context(), 1)
		waited <- err
	}()
	eventually(t, observer, `fairsem_client_waiters{name="db"} 1.0`)

	require.NoError(t, server.Kill())
	<-permit.Context().Done()
	require.ErrorIs(t, <-waited, fairsem.ErrUnavailable)
	eventually(t, observer, `fairsem_client_permits_lost_total{name="db",reason="expired"} 1.0`,
		`fairsem_client_calls_not_acquired_total{name="db",reason="unavailable"} 1.0`, "fairsem_client_disconnected 1.0")

	require.NoError(t, server.Restart())
	eventually(t, observer, "fairsem_client_disconnected 0.0")
	require.NoError(t, client.Close())
	has(t, observer, `fairsem_client_waiters{name="db"} 0.0`, `fairsem_client_permits_in_use{name="db"} 0.0`, `fairsem_client_permits_lost_total{name="db",reason="expired"} 1.0`)
	assert.Regexp(t, `fairsem_client_script_calls_failed_total\{verb="\w+"\} [1-9]`, read(t, observer))
}

func eventually(t *testing.T, c prometheus.Collector, lines ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		text := "\n" + read(t, c)
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				return false
			}
		}
		return true
	}, soon, often, "%v", lines)
}

// events are one of each kind, of one name: what is counted up is counted down.
func events(name string) []fairsem.Event {
	lost := fmt.Errorf("%w: it was not renewed in time", fairsem.ErrLost)
	refused := fmt.Errorf("acquire: %w", fairsem.ErrNotAcquired)
	return []fairsem.Event{
		fairsem.WaitStartedEvent{Context: background, Name: name, Weight: 2},
		fairsem.PositionLostEvent{Context: background, Name: name, Weight: 2, Queued: true},
		fairsem.WaitStartedEvent{Context: background, Name: name, Weight: 2},
		fairsem.GrantedEvent{Context: background, Name: name, Weight: 2, Queued: true, Waited: time.Second, By: fairsem.GrantedByMessage},
		fairsem.ReleasedEvent{Context: background, Name: name, Weight: 2, Held: time.Second, Err: fairsem.ErrUnavailable},
		fairsem.GrantedEvent{Context: background, Name: name, Weight: 5, By: fairsem.GrantedByRefresh},
		fairsem.LostEvent{Context: background, Name: name, Weight: 5, Held: time.Minute, Err: lost},
		fairsem.AllowedEvent{Context: background, Name: name, Weight: 1, By: fairsem.GrantedAtOnce},
		fairsem.NotAcquiredEvent{Context: background, Name: name, Weight: 1, Err: refused},
		fairsem.NotAcquiredEvent{Context: background, Name: name, Weight: 1, Err: errors.New("NOPERM")},
		fairsem.CallFailedEvent{Name: name, Verb: "refresh", Err: fairsem.ErrUnavailable},
		fairsem.UnreturnedEvent{Name: name, Verb: "release", Units: 1, Err: fairsem.ErrUnavailable},
		fairsem.DisconnectedEvent{Channel: "fairsem:wake"},
		fairsem.DisconnectedEvent{Channel: "fairsem:watch", Node: "10.0.0.1:6379"},
		fairsem.ReconnectedEvent{Channel: "fairsem:watch", Node: "10.0.0.1:6379"},
		fairsem.ReconnectedEvent{Channel: "fairsem:wake"},
	}
}

func TestEachKindOfEventIsCounted(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{})
	for _, event := range events("db") {
		observer.Observe(event)
	}
	observer.Admitted("db")
	has(t, observer,
		`fairsem_client_calls_admitted_total{name="db"} 1.0`,
		`fairsem_client_waiters{name="db"} 0.0`,
		`fairsem_client_positions_lost_total{name="db"} 1.0`,
		`fairsem_client_permits_in_use{name="db"} 0.0`,
		`fairsem_client_permits_granted_total{by="message",name="db"} 1.0`,
		`fairsem_client_permits_granted_total{by="refresh",name="db"} 1.0`,
		`fairsem_client_permits_granted_total{by="at_once",name="db"} 0.0`,
		`fairsem_client_wait_duration_seconds_sum{name="db"} 1.0`,
		`fairsem_client_permits_released_total{name="db"} 1.0`,
		`fairsem_client_releases_unconfirmed_total{name="db"} 1.0`,
		`fairsem_client_permits_lost_total{name="db",reason="expired"} 1.0`,
		`fairsem_client_permits_lost_total{name="db",reason="evicted"} 0.0`,
		`fairsem_client_hold_duration_seconds_sum{name="db"} 61.0`,
		`fairsem_client_calls_allowed_total{by="at_once",name="db"} 1.0`,
		`fairsem_client_calls_not_acquired_total{name="db",reason="limit_reached"} 1.0`,
		`fairsem_client_calls_not_acquired_total{name="db",reason="other"} 1.0`,
		`fairsem_client_script_calls_failed_total{verb="refresh"} 1.0`,
		`fairsem_client_script_calls_failed_total{verb="acquire"} 0.0`,
		`fairsem_client_errors_unreturned_total{verb="release"} 1.0`,
		`fairsem_client_disconnects_total 1.0`,
		`fairsem_client_disconnected 0.0`)
}

// An increase from nothing is none for Prometheus, and all calls that fail may do so between two scrapes.
func TestFirstFailuresThatAlertsLookForAreAnIncrease(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{})
	observer.Observe(fairsem.WaitStartedEvent{Context: background, Name: "db", Weight: 1})
	has(t, observer,
		`fairsem_client_calls_not_acquired_total{name="db",reason="unavailable"} 0.0`,
		`fairsem_client_calls_not_acquired_total{name="db",reason="other"} 0.0`,
	)
}

func TestNameHasAtMostAsManySeriesAsTheDocsSay(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{})
	for _, event := range events("db") {
		observer.Observe(event)
	}
	for _, err := range []error{
		fairsem.ErrQueueFull, fairsem.ErrUnavailable, fairsem.ErrExceedsLimit, fairsem.ErrEvicted, fairsem.ErrClosed, context.DeadlineExceeded, context.Canceled,
	} {
		observer.Observe(fairsem.NotAcquiredEvent{Context: background, Name: "db", Err: err})
	}
	text, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	assert.Contains(t, string(text), fmt.Sprintf("A name has up to %d series", strings.Count(read(t, observer), `name="db"`)))
}

func TestClientThatIsDisconnectedIsCountedUntilItIsBack(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{})
	observer.Observe(fairsem.DisconnectedEvent{Channel: "fairsem:wake:1"})
	observer.Observe(fairsem.DisconnectedEvent{Channel: "fairsem:wake:2"})
	observer.Observe(fairsem.ReconnectedEvent{Channel: "fairsem:wake:1"})
	has(t, observer, "fairsem_client_disconnected 1.0", "fairsem_client_disconnects_total 2.0")
}

// An observer that allocates keeps the garbage collector busy, in the hot path of the program.
func TestEventAllocatesNothingAfterTheFirstOfItsKind(t *testing.T) {
	observer := newObserver(t, fairsemprom.Options{MaxNames: 1})
	for _, name := range []string{"db", "beyond MaxNames"} {
		for _, event := range events(name) {
			observer.Observe(event)
			assert.Zero(t, testing.AllocsPerRun(100, func() { observer.Observe(event) }), "%T of %q", event, name)
		}
	}
}

func TestMetricsAreNamedAsPrometheusWants(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{})
	for _, event := range events("db") {
		observer.Observe(event)
	}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(observer))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestNamesThatHaveNoSeriesShareOne(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{MaxNames: 1, Allow: func(name string) bool { return strings.HasPrefix(name, "db/") }})
	for _, name := range []string{"user/1", "user/2", "db/orders", "db/users"} {
		observer.Observe(fairsem.GrantedEvent{Context: background, Name: name, Weight: 1, By: fairsem.GrantedAtOnce})
	}
	has(t, observer, `fairsem_client_permits_in_use{name="db/orders"} 1.0`, `fairsem_client_permits_in_use{name="other"} 3.0`)
	assert.NotContains(t, read(t, observer), "user")
}

// The histogram of the next name panicked, and with it the observer.
func TestBucketsThatTheCallerChangesLaterChangeNothing(t *testing.T) {
	t.Parallel()
	buckets := []float64{1, 2}
	observer := newObserver(t, fairsemprom.Options{Buckets: buckets})
	buckets[1] = 0
	observer.Observe(fairsem.GrantedEvent{Context: background, Name: "a", Weight: 1, By: fairsem.GrantedByReply, Waited: 1500 * time.Millisecond})
	has(t, observer, `fairsem_client_wait_duration_seconds_bucket{name="a",le="2.0"} 1`)
}

// Prometheus refuses everything that a process says if one label is not UTF-8.
func TestLabelIsTextWhateverTheNameIs(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{})
	for _, name := range []string{"twin\xff", `twin\xff`, "a\"\n"} {
		observer.Observe(fairsem.GrantedEvent{Context: background, Name: name, Weight: 1, By: fairsem.GrantedAtOnce})
	}
	has(t, observer, `fairsem_client_permits_in_use{name="twin\\xff"} 1.0`, `fairsem_client_permits_in_use{name="twin\\\\xff"} 1.0`, `fairsem_client_permits_in_use{name="a\"\n"} 1.0`)
}

type traceKey struct{}

func traceOf(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}

func TestExemplarIsTheTraceOfTheCall(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{TraceID: traceOf, Buckets: []float64{1}})
	traced := context.WithValue(background, traceKey{}, "4bf92f3577b34da6a3ce929d0e0e4736")
	observer.Observe(fairsem.GrantedEvent{Context: traced, Name: "db", Weight: 1, Waited: time.Millisecond})
	observer.Observe(fairsem.ReleasedEvent{Context: background, Name: "db", Weight: 1, Held: time.Millisecond})
	assert.Regexp(t, `fairsem_client_wait_duration_seconds_bucket\{name="db",le="1.0"\} 1 # \{trace_id="4bf92f3577b34da6a3ce929d0e0e4736"\} 0.001 `, read(t, observer))
	has(t, observer, `fairsem_client_hold_duration_seconds_bucket{name="db",le="1.0"} 1`)
}

// A panic in an observer ends the process.
func TestTraceThatCannotBeAnExemplarIsLeftOut(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{TraceID: traceOf, Buckets: []float64{1}})
	for _, id := range []string{"", "\xff", strings.Repeat("x", 121)} {
		traced := context.WithValue(background, traceKey{}, id)
		observer.Observe(fairsem.GrantedEvent{Context: traced, Name: "db", Weight: 1})
	}
	has(t, observer, `fairsem_client_wait_duration_seconds_bucket{name="db",le="1.0"} 3`)
	traced := context.WithValue(background, traceKey{}, strings.Repeat("é", 120))
	observer.Observe(fairsem.GrantedEvent{Context: traced, Name: "db", Weight: 1})
	assert.Contains(t, read(t, observer), "éé")
}

func TestOptionsThatCanNeverWorkAreRefused(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]fairsemprom.Options{
		"MaxNames is -1; give at least 1, or 0 for the default":   {MaxNames: -1},
		"bucket 1 is 1, after 2; give bounds that increase":       {Buckets: []float64{2, 1}},
		"bucket 0 is NaN, after -Inf; give bounds that increase":  {Buckets: []float64{math.NaN()}},
		"bucket 2 is 0.5, after 0.5; give bounds that increase":   {Buckets: []float64{0.1, 0.5, 0.5}},
		"bucket 1 is +Inf, after +Inf; give bounds that increase": {Buckets: []float64{math.Inf(1), math.Inf(1)}},
	} {
		_, err := fairsemprom.New(o)
		require.ErrorIs(t, err, fairsem.ErrInvalid)
		assert.ErrorContains(t, err, want)
	}
}

// Each Client calls its observer from a goroutine of its own.
func TestOneObserverServesSeveralClients(t *testing.T) {
	t.Parallel()
	observer := newObserver(t, fairsemprom.Options{MaxNames: 3})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // ends by itself
			for i := range 100 {
				for _, event := range events(fmt.Sprint(i % 5)) {
					observer.Observe(event)
				}
			}
		})
	}
	all.Wait()
	granted := 0.0
	for _, found := range regexp.MustCompile(`permits_granted_total\{by="message",name="(\d|other)"\} (\d+)`).FindAllStringSubmatch(read(t, observer), -1) {
		var n float64
		_, err := fmt.Sscan(found[2], &n)
		require.NoError(t, err)
		granted += n
	}
	assert.Equal(t, 400.0, granted)
}

// The table for operators must list the metrics that exist.
func TestTableOfMetricsHasEveryMetricWithItsLabels(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	var listed []string
	for _, found := range regexp.MustCompile("(?m)^\\|.*`(fairsem_client_[a-z_]+)(\\{[a-z,]+\\})?`").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, found[1]+found[2])
	}
	described := make(chan *prometheus.Desc, 100)
	newObserver(t, fairsemprom.Options{}).Describe(described)
	close(described)
	var exist []string
	for d := range described {
		found := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String())
		require.NotNil(t, found, d.String())
		labels := ""
		if found[2] != "" {
			labels = "{" + found[2] + "}"
		}
		exist = append(exist, found[1]+labels)
	}
	assert.ElementsMatch(t, exist, listed)
}
