package fairsemprom_test

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/fairsemprom"
	"github.com/fairsem/fairsem/internal/redistest"
	"github.com/fairsem/fairsem/internal/worldtest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // a test that ends a server has it log each dial
	worldtest.Main[order](func() int {
		defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		return redistest.Main(m)
	})
}

const (
	soon  = time.Minute // only a hang takes so long
	often = 10 * time.Millisecond
)

// newObserver is New for options that are right.
func newObserver(t testing.TB, o fairsemprom.Options) *fairsemprom.Observer {
	t.Helper()
	observer, err := fairsemprom.New(o)
	require.NoError(t, err)
	return observer
}

// read returns the text that Prometheus reads, without comments.
func read(t testing.TB, c prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	var text strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToOpenMetrics(&text, family)
		require.NoError(t, err)
	}
	var lines strings.Builder
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// has asserts that Prometheus reads these lines.
func has(t testing.TB, c prometheus.Collector, lines ...string) {
	t.Helper()
	all := strings.Split(read(t, c), "\n")
	for _, line := range lines {
		metric := regexp.MustCompile(`^\w+`).FindString(line)
		assert.Contains(t, slices.DeleteFunc(slices.Clone(all), func(l string) bool { return !strings.HasPrefix(l, metric) }), line)
	}
}

// background has no trace.
var background = context.Background()
