package fairsemprom_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/fairsemprom"
	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMain(m *testing.M) {
	if redis := os.Getenv(workerEnv); redis != "" {
		os.Exit(worker(redis))
	}
	os.Exit(redistest.Main(m))
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

// newClient returns a Client of a server that all tests share. For Redis it is another process.
func newClient(t *testing.T, observer fairsem.Observer) *fairsem.Client {
	t.Helper()
	server := redistest.SharedServer(t)
	require.NoError(t, server.AwaitAge(2)) // a younger one grants nothing for a while
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	client, err := fairsem.New(rdb, fairsem.Options{Observer: observer})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // most tests have closed it
	return client
}

// unique is a name of this test alone.
func unique(t *testing.T) string { return t.Name() + "-" + uuid.NewString() }

// read returns what Prometheus reads, without comments.
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
