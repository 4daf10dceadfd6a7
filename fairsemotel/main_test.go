package fairsemotel_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairsem/fairsem/fairsemotel"
	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

const (
	soon  = time.Minute // only a hang takes so long
	often = 10 * time.Millisecond
)

// background has no trace.
var background = context.Background()

// world is an Observer and its exports.
type world struct {
	*testing.T
	*fairsemotel.Observer
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
}

func newWorld(t *testing.T, o fairsemotel.Options, provider ...metric.Option) *world {
	t.Helper()
	w := &world{T: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	meters := metric.NewMeterProvider(append(provider, metric.WithReader(w.reader))...)
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
	w.tracer = tracers.Tracer("test")
	o.MeterProvider, o.TracerProvider = meters, tracers
	var err error
	w.Observer, err = fairsemotel.New(o)
	require.NoError(t, err)
	return w
}

func (w *world) collect() (all metricdata.ResourceMetrics) {
	w.Helper()
	require.NoError(w, w.reader.Collect(w.Context(), &all))
	return all
}

// read returns the measurements, a line for each series: its name, its attributes, and its value, or of a histogram the count
// and the sum.
func (w *world) read() (lines []string) {
	w.Helper()
	for _, scope := range w.collect().ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s{%s} %d", m.Name, encode(p.Attributes), p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					lines = append(lines, fmt.Sprintf("%s{%s} %d of %v", m.Name, encode(p.Attributes), p.Count, p.Sum))
				}
			default:
				w.Fatalf("%s is a %T", m.Name, data)
			}
		}
	}
	return lines
}

func encode(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

// has asserts that lines were read.
func (w *world) has(lines ...string) {
	w.Helper()
	all := w.read()
	for _, line := range lines {
		metric, _, _ := strings.Cut(line, "{")
		assert.Contains(w, slices.DeleteFunc(slices.Clone(all), func(l string) bool { return !strings.HasPrefix(l, metric) }), line)
	}
}

// eventually waits until lines are read.
func (w *world) eventually(lines ...string) {
	w.Helper()
	require.Eventually(w, func() bool {
		all := w.read()
		for _, line := range lines {
			if !slices.Contains(all, line) {
				return false
			}
		}
		return true
	}, soon, often, "%v", lines)
}
