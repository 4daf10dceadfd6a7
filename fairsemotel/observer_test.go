package fairsemotel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemotel"
	"github.com/fairsem/fairsem/internal/worldtest"
)

// events are one of each kind, of one name: what is counted up is counted down.
func events(ctx context.Context, name string) []fairsem.Event {
	lost := fmt.Errorf("%w: it was not renewed in time", fairsem.ErrLost)
	return []fairsem.Event{
		fairsem.WaitStartedEvent{Context: ctx, Name: name, ID: "1", Weight: 2},
		fairsem.PositionLostEvent{Context: ctx, Name: name, ID: "1", Weight: 2, Queued: true},
		fairsem.WaitStartedEvent{Context: ctx, Name: name, ID: "2", Weight: 2},
		fairsem.GrantedEvent{Context: ctx, Name: name, ID: "2", Weight: 2, Queued: true, Waited: time.Second, By: fairsem.GrantedByMessage},
		fairsem.ReleasedEvent{Context: ctx, Name: name, ID: "2", Weight: 2, Held: time.Second, Err: fairsem.ErrUnavailable},
		fairsem.GrantedEvent{Context: ctx, Name: name, ID: "3", Weight: 5, By: fairsem.GrantedByRefresh},
		fairsem.LostEvent{Context: ctx, Name: name, ID: "3", Weight: 5, Held: time.Minute, Err: lost},
		fairsem.AllowedEvent{Context: ctx, Name: name, ID: "4", Weight: 1, By: fairsem.GrantedAtOnce},
		fairsem.NotAcquiredEvent{Context: ctx, Name: name, ID: "5", Weight: 1, Err: fmt.Errorf("acquire: %w", fairsem.ErrNotAcquired)},
		fairsem.NotAcquiredEvent{Context: ctx, Name: name, ID: "6", Weight: 1, Err: errors.New("NOPERM")},
		fairsem.CallFailedEvent{Name: name, Verb: "refresh", Err: fairsem.ErrUnavailable},
		fairsem.UnreturnedEvent{Name: name, Verb: "release", Units: 1, Err: fairsem.ErrUnavailable},
		fairsem.DisconnectedEvent{Channel: "fairsem:wake"},
		fairsem.DisconnectedEvent{Channel: "fairsem:watch", Node: "10.0.0.1:6379"},
		fairsem.ReconnectedEvent{Channel: "fairsem:watch", Node: "10.0.0.1:6379"},
		fairsem.ReconnectedEvent{Channel: "fairsem:wake"},
	}
}

func TestEachKindOfEventIsMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fairsemotel.Options{})
	for _, event := range events(background, "db") {
		w.Observe(event)
	}
	w.Admitted(background, "db")
	assert.ElementsMatch(t, []string{
		"fairsem.client.permit.admitted_requests{fairsem.name=db} 1",
		"fairsem.client.permit.count{fairsem.name=db} 0",
		"fairsem.client.permit.pending_requests{fairsem.name=db} 0",
		"fairsem.client.permit.wait_time{fairsem.granted_by=message,fairsem.name=db} 1 of 1",
		"fairsem.client.permit.wait_time{fairsem.granted_by=refresh,fairsem.name=db} 1 of 0",
		"fairsem.client.permit.wait_time{fairsem.granted_by=at_once,fairsem.name=db} 1 of 0",
		"fairsem.client.permit.use_time{fairsem.name=db} 2 of 61",
		"fairsem.client.permit.failed_requests{error.type=limit_reached,fairsem.name=db} 1",
		"fairsem.client.permit.failed_requests{error.type=other,fairsem.name=db} 1",
		"fairsem.client.permit.lost{error.type=expired,fairsem.name=db} 1",
		"fairsem.client.permit.lost{error.type=evicted,fairsem.name=db} 0",
		"fairsem.client.permit.unconfirmed_releases{fairsem.name=db} 1",
		"fairsem.client.permit.positions_lost{fairsem.name=db} 1",
		"fairsem.client.script_call.failures{fairsem.verb=refresh} 1",
		"fairsem.client.unreturned_errors{fairsem.verb=release} 1",
		"fairsem.client.subscription.disconnects{} 1",
		"fairsem.client.subscription.disconnected{} 0",
	}, w.read())
	assert.Empty(t, w.spans.Started(), "no call has a trace")
}

func TestMetricsAndSpansFollowTheCallsAndPermitsOfAClient(t *testing.T) {
	limit := worldtest.New(t)
	w := newWorld(t, fairsemotel.Options{})
	client, other := limit.Observed(w.Observe), limit.Client()
	name := limit.LimitName
	sem, err := client.Semaphore(name, 3)
	require.NoError(t, err)
	of := "fairsem.name=" + name + "} "

	ctx, parent := w.tracer.Start(t.Context(), "a request")
	held, err := sem.Acquire(ctx, 3)
	require.NoError(t, err)
	_, err = sem.TryAcquire(ctx, 1)
	require.ErrorIs(t, err, fairsem.ErrNotAcquired)
	waiting := make(chan *fairsem.Permit)
	go func() { // ends when the test has read it
		p, _ := sem.Acquire(ctx, 2)
		waiting <- p
	}()
	w.eventually("fairsem.client.permit.pending_requests{"+of+"1", "fairsem.client.permit.count{"+of+"3")
	require.NoError(t, held.Release(ctx))
	permit := <-waiting
	require.NotNil(t, permit)
	require.NoError(t, other.Inspect(name).Evict(t.Context(), permit.ID()))
	<-permit.Context().Done()
	w.eventually("fairsem.client.permit.lost{error.type=evicted,"+of+"1", "fairsem.client.permit.count{"+of+"0")
	require.NoError(t, client.Close())
	w.has("fairsem.client.permit.pending_requests{"+of+"0", "fairsem.client.permit.failed_requests{error.type=limit_reached,"+of+"1")

	var seen []string
	for _, span := range w.spans.Ended() {
		assert.Equal(t, parent.SpanContext().SpanID(), span.Parent().SpanID(), span.Name())
		assert.Contains(t, span.Attributes(), attribute.String("fairsem.name", name))
		assert.False(t, span.EndTime().Before(span.StartTime()), span.Name())
		by := attr(span, "fairsem.granted_by")
		if by != "at_once" && by != "" {
			by = "later" // the reply to the release, a message or a renewal: whichever is first
		}
		seen = append(seen, strings.Join([]string{span.Name(), attr(span, "fairsem.weight"), by, attr(span, "error.type"), span.Status().Code.String()}, " "))
	}
	assert.ElementsMatch(t, []string{
		"fairsem.wait 3 at_once  Unset",
		"fairsem.hold 3   Unset",
		"fairsem.wait 1  limit_reached Error",
		"fairsem.wait 2 later  Unset",
		"fairsem.hold 2  evicted Error",
	}, seen)
}

// attr is an attribute of a span, or "".
func attr(span sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func TestSpansHaveTheTimesOfTheWaitAndOfTheHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fairsemotel.Options{})
	ctx, _ := w.tracer.Start(t.Context(), "a request")
	at := time.Now().Add(-time.Hour)
	w.Observe(fairsem.GrantedEvent{At: at, Context: ctx, Name: "db", ID: "1", Weight: 1, Waited: time.Minute, By: fairsem.GrantedByReply})
	w.Observe(fairsem.ReleasedEvent{At: at.Add(3 * time.Minute), Context: ctx, Name: "db", ID: "1", Weight: 1, Held: 2 * time.Minute, Err: fairsem.ErrUnavailable})
	spans := w.spans.Ended()
	require.Len(t, spans, 2)
	wait, hold := spans[0], spans[1]
	assert.True(t, wait.StartTime().Equal(at.Add(-time.Minute)))
	assert.True(t, wait.EndTime().Equal(at))
	assert.True(t, hold.StartTime().Equal(at))
	assert.True(t, hold.EndTime().Equal(at.Add(2*time.Minute)), "until it was released, not until Redis had confirmed it")
	assert.Equal(t, codes.Error, hold.Status().Code)
	assert.Equal(t, "unconfirmed", attr(hold, "error.type"))
}

// The exemplar filter of the SDK takes measurements of calls whose trace is sampled.
func TestExemplarIsTheTraceOfTheCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fairsemotel.Options{})
	ctx, parent := w.tracer.Start(t.Context(), "a request")
	w.Observe(fairsem.GrantedEvent{At: time.Now(), Context: ctx, Name: "db", ID: "1", Weight: 1, Waited: time.Millisecond, By: fairsem.GrantedAtOnce})
	id := parent.SpanContext().TraceID()
	found := false
	for _, m := range w.collect().ScopeMetrics[0].Metrics {
		if data, is := m.Data.(metricdata.Histogram[float64]); is {
			require.Equal(t, "fairsem.client.permit.wait_time", m.Name)
			require.Len(t, data.DataPoints[0].Exemplars, 1)
			assert.Equal(t, id[:], data.DataPoints[0].Exemplars[0].TraceID)
			found = true
		}
	}
	assert.True(t, found)
}

func TestNamesThatAreNoAttributeShareOneAndSpansHaveTheRealName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fairsemotel.Options{MaxNames: 1, Allow: func(name string) bool { return strings.HasPrefix(name, "db/") }})
	ctx, _ := w.tracer.Start(t.Context(), "a request")
	for i, name := range []string{"user/1", "db/orders", "db/\xff"} {
		w.Observe(fairsem.GrantedEvent{At: time.Now(), Context: ctx, Name: name, ID: fmt.Sprint(i), Weight: 1, By: fairsem.GrantedAtOnce})
	}
	w.has("fairsem.client.permit.count{fairsem.name=db/orders} 1", "fairsem.client.permit.count{fairsem.name=other} 2")
	var names []string
	for _, span := range w.spans.Ended() {
		names = append(names, attr(span, "fairsem.name"))
	}
	assert.Equal(t, []string{"user/1", "db/orders", `db/\xff`}, names)
}

// The SDK puts measurements beyond its limit into a series that has no name.
func TestEachNameHasAllItsSeriesWithinTheLimitOfTheSDK(t *testing.T) {
	t.Parallel()
	for most, provider := range map[int][]metric.Option{0: nil, 1000: {metric.WithCardinalityLimit(10 * 1000)}} {
		w := newWorld(t, fairsemotel.Options{MaxNames: most}, provider...)
		for i := range 1001 {
			for _, event := range labelled(fmt.Sprint(i)) {
				w.Observe(event)
			}
		}
		all := strings.Join(w.read(), "\n")
		assert.Zero(t, strings.Count(all, "otel.metric.overflow"), "MaxNames %d", most)
		for _, name := range []string{"0", "199", "other"} {
			assert.Equal(t, 4+9+2+2, strings.Count(all, "fairsem.name="+name+"}"), "%s with MaxNames %d", name, most)
		}
	}
}

// labelled are events that make each series of a name that has another attribute, and two that have none.
func labelled(name string) (all []fairsem.Event) {
	for _, by := range []fairsem.GrantedBy{fairsem.GrantedAtOnce, fairsem.GrantedByMessage, fairsem.GrantedByReply, fairsem.GrantedByRefresh} {
		all = append(all, fairsem.GrantedEvent{Context: background, Name: name, By: by})
	}
	for _, err := range []error{
		fairsem.ErrNotAcquired, fairsem.ErrQueueFull, fairsem.ErrUnavailable, fairsem.ErrExceedsLimit, fairsem.ErrEvicted, fairsem.ErrClosed,
		context.DeadlineExceeded, context.Canceled, errors.New("NOPERM"),
	} {
		all = append(all, fairsem.NotAcquiredEvent{Context: background, Name: name, Err: err}, fairsem.LostEvent{Context: background, Name: name, Err: err})
	}
	return all
}

func TestProvidersAreTheGlobalOnesUnlessSet(t *testing.T) {
	t.Parallel()
	observer, err := fairsemotel.New(fairsemotel.Options{})
	require.NoError(t, err)
	for _, event := range events(background, "db") {
		observer.Observe(event)
	}
}

func TestOptionsThatCanNeverWorkAreRefused(t *testing.T) {
	t.Parallel()
	_, err := fairsemotel.New(fairsemotel.Options{MaxNames: -1})
	require.ErrorIs(t, err, fairsem.ErrInvalid)
	assert.ErrorContains(t, err, "MaxNames is -1; give at least 1, or 0 for the default")
}

func TestNothingIsKeptOfPermitsThatEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fairsemotel.Options{})
	ctx, _ := w.tracer.Start(t.Context(), "a request")
	for _, event := range events(ctx, "db") {
		w.Observe(event)
	}
	assert.Len(t, w.spans.Started(), len(w.spans.Ended())+1, "only the request goes on")
	assert.Zero(t, fairsemotel.Holding(w.Observer))
}

func TestNothingIsKeptOfPermitsWhoseTraceIsNotSampled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fairsemotel.Options{})
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
	w.Observe(fairsem.GrantedEvent{At: time.Now(), Context: ctx, Name: "db", ID: "1", Weight: 1, By: fairsem.GrantedAtOnce})
	assert.Empty(t, w.spans.Started())
	assert.Zero(t, fairsemotel.Holding(w.Observer))
}

// Each Client calls its observer from a goroutine of its own.
func TestOneObserverServesSeveralClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fairsemotel.Options{MaxNames: 3})
	ctx, _ := w.tracer.Start(t.Context(), "a request")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // ends by itself
			for i := range 20 {
				for _, event := range events(ctx, fmt.Sprint(i%5)) {
					w.Observe(event)
				}
			}
		})
	}
	all.Wait()
	lost := 0
	for _, line := range w.read() {
		if found := regexp.MustCompile(`^fairsem\.client\.permit\.lost\{error\.type=expired,.*\} (\d+)$`).FindStringSubmatch(line); found != nil {
			var n int
			_, err := fmt.Sscan(found[1], &n)
			require.NoError(t, err)
			lost += n
		}
	}
	assert.Equal(t, 80, lost)
}

// The table for operators must list the metrics that exist.
func TestTableOfMetricsHasEveryInstrumentWithItsAttributes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	listed := make(map[string]string)
	for _, found := range regexp.MustCompile("(?m)^\\|.*`(fairsem\\.client\\.[a-z_.]+)(?:\\{([a-z_,.]+)\\})?`").FindAllStringSubmatch(string(text), -1) {
		listed[found[1]] = found[2]
	}
	w := newWorld(t, fairsemotel.Options{})
	for _, event := range events(background, "db") {
		w.Observe(event)
	}
	w.Admitted(background, "db")
	exist := make(map[string]string)
	for _, line := range w.read() {
		found := regexp.MustCompile(`^([a-z_.]+)\{(.*)\}`).FindStringSubmatch(line)
		exist[found[1]] = regexp.MustCompile(`=[^,]*`).ReplaceAllString(found[2], "")
	}
	assert.Equal(t, exist, listed)
}

func TestTableOfLabelsHasEachErrorTypeOfASpan(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	listed := strings.Join(regexp.MustCompile("(?m)^\\|.* `error\\.type` of .*$").FindAllString(string(text), -1), "\n")
	w := newWorld(t, fairsemotel.Options{})
	ctx, _ := w.tracer.Start(t.Context(), "a request")
	for _, event := range events(ctx, "db") {
		w.Observe(event)
	}
	for _, span := range w.spans.Ended() {
		if kind := attr(span, "error.type"); kind != "" {
			assert.Contains(t, listed, "`"+kind+"`", span.Name())
		}
	}
}
