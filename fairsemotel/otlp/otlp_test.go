package otlp_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metricsservice "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traceservice "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

const scope = "github.com/fairsem/fairsem/fairsemotel"

// exported is the data of one scope that a receiver got.
type exported struct {
	metrics   map[string]*metrics.Metric // the last of each, by name
	spans     []*traces.Span
	requests  []*traces.Span // of the program itself
	resources []*resource.Resource
}

// runProgram has a program export to a receiver, each a process of its own, and returns the received data.
func runProgram(t *testing.T) *exported {
	t.Helper()
	server := redistest.NewServer(t)
	require.NoError(t, server.AwaitAge(2)) // a younger one grants nothing for a while
	receiver := worldtest.Start(t, order{})
	lines := json.NewDecoder(receiver.Out)
	var hello received
	require.NoError(t, lines.Decode(&hello))

	require.NoError(t, worldtest.Start(t, order{Endpoint: hello.Address, Redis: server.Addr(), Env: map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + hello.Address,
		"OTEL_SERVICE_NAME":           "orders",
	}}).Wait())

	require.NoError(t, receiver.Process.Signal(syscall.SIGTERM)) // it has written the requests that it has answered
	e := &exported{metrics: make(map[string]*metrics.Metric)}
	for lines.More() {
		var line received
		require.NoError(t, lines.Decode(&line))
		e.add(t, line)
	}
	return e
}

func (e *exported) add(t *testing.T, line received) {
	t.Helper()
	var m metricsservice.ExportMetricsServiceRequest
	require.NoError(t, proto.Unmarshal(line.Metrics, &m))
	for _, r := range m.ResourceMetrics {
		e.resources = append(e.resources, r.Resource)
		for _, s := range r.ScopeMetrics {
			for _, one := range s.Metrics {
				assert.Equal(t, scope, s.Scope.Name, one.Name)
				e.metrics[one.Name] = one
			}
		}
	}
	var spans traceservice.ExportTraceServiceRequest
	require.NoError(t, proto.Unmarshal(line.Spans, &spans))
	for _, r := range spans.ResourceSpans {
		e.resources = append(e.resources, r.Resource)
		for _, s := range r.ScopeSpans {
			if s.Scope.Name == scope {
				e.spans = append(e.spans, s.Spans...)
			} else {
				e.requests = append(e.requests, s.Spans...)
			}
		}
	}
}

func TestReceiverOfOTLPGetsWhatTheDocsSay(t *testing.T) {
	t.Parallel()
	e := runProgram(t)
	t.Run("metrics", e.checkMetrics)
	t.Run("figures", e.checkFigures)
	t.Run("spans", e.checkSpans)
	t.Run("resource", e.checkResource)
}

// checkMetrics compares names, attributes and units with the table for users.
func (e *exported) checkMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	listed := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\|.*`(fairsem\\.client\\.[a-z_.]+)(?:\\{([a-z_,.]+)\\})?` \\| `([^`]+)` \\|$").FindAllStringSubmatch(string(text), -1) {
		listed[row[1]] = row[2] + " in " + row[3]
	}
	arrived := make(map[string]string)
	for name, m := range e.metrics {
		keys := make(map[string]bool)
		for _, p := range points(m) {
			for _, a := range p.GetAttributes() {
				keys[a.Key] = true
			}
		}
		arrived[name] = strings.Join(slices.Sorted(maps.Keys(keys)), ",") + " in " + m.Unit
	}
	assert.Equal(t, listed, arrived)
}

type point interface{ GetAttributes() []*common.KeyValue }

func points(m *metrics.Metric) (all []point) {
	for _, p := range m.GetSum().GetDataPoints() {
		all = append(all, p)
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		all = append(all, p)
	}
	return all
}

// checkFigures compares the figures with the calls of the program.
func (e *exported) checkFigures(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"permit.count", "permit.pending_requests"} {
		sum := e.metrics["fairsem.client."+level].GetSum()
		assert.False(t, sum.GetIsMonotonic(), level)
		for _, p := range sum.GetDataPoints() {
			assert.Zero(t, p.GetAsInt(), "%s: the program has ended", level)
		}
	}
	for _, p := range e.metrics["fairsem.client.permit.wait_time"].GetHistogram().GetDataPoints() {
		a := values(p.Attributes)
		assert.NotEmpty(t, p.Exemplars, "the trace was sampled: %v", a)
		assert.InDelta(t, 0.001, p.ExplicitBounds[0], 0, "the bounds are in seconds")
		if a["fairsem.name"] == jobs && a["fairsem.granted_by"] == "at_once" {
			assert.Equal(t, uint64(22), p.Count)
		}
	}
	lost := make(map[string]int64)
	for _, p := range e.metrics["fairsem.client.permit.lost"].GetSum().GetDataPoints() {
		a := values(p.Attributes)
		lost[a["fairsem.name"]+" "+a["error.type"]] = p.GetAsInt()
	}
	assert.Equal(t, int64(1), lost[jobs+" evicted"])
	assert.Zero(t, lost[jobs+" expired"])
}

// checkSpans expects a wait and a hold of each call, as children of the span of the program.
func (e *exported) checkSpans(t *testing.T) {
	t.Parallel()
	require.Len(t, e.requests, 1)
	request := e.requests[0]
	seen := make(map[string]int)
	for _, s := range e.spans {
		assert.Equal(t, request.TraceId, s.TraceId)
		assert.Equal(t, request.SpanId, s.ParentSpanId)
		assert.LessOrEqual(t, s.StartTimeUnixNano, s.EndTimeUnixNano)
		a := values(s.Attributes)
		if a["fairsem.name"] == jobs {
			seen[strings.Join(append([]string{s.Name, a["error.type"]}, slices.Sorted(maps.Keys(a))...), " ")]++
		}
		assert.Equal(t, a["error.type"] != "", s.GetStatus().GetCode() == traces.Status_STATUS_CODE_ERROR)
	}
	assert.Equal(t, map[string]int{
		"fairsem.wait  fairsem.granted_by fairsem.name fairsem.weight":      23,
		"fairsem.wait limit_reached error.type fairsem.name fairsem.weight": 1,
		"fairsem.hold  fairsem.name fairsem.weight":                         22,
		"fairsem.hold evicted error.type fairsem.name fairsem.weight":       1,
	}, seen)
}

func (e *exported) checkResource(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, e.resources)
	for _, r := range e.resources {
		a := values(r.Attributes)
		assert.Equal(t, "orders", a["service.name"])
		assert.Equal(t, "go", a["telemetry.sdk.language"])
	}
}

func values(all []*common.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, a := range all {
		m[a.Key] = a.Value.GetStringValue()
	}
	return m
}
