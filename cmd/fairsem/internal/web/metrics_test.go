package web

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
)

func TestMetricsAreOfTheLatestPoll(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("gate", 2)
	s.hold("gate", 2)
	s.wait("gate", 2)
	for _, line := range []string{
		`fairsem_permits_limit{name="gate"} 2`,
		`fairsem_permits_in_use{name="gate"} 2`,
		`fairsem_waiters{name="gate"} 1`,
		`fairsem_permits_granted_total{name="gate"} 2`,
		`fairsem_permits_expired_total{name="gate"} 0`,
		`fairsem_up 1`,
		`fairsem_names_truncated 0`,
	} {
		require.Eventually(t, func() bool { return strings.Contains(s.get("/metrics").body, line+"\n") }, soon, often, line)
	}
	assert.Regexp(t, `fairsem_oldest_waiter_age_seconds\{name="gate"\} [0-9.e-]+\n`, s.get("/metrics").body)
	assert.Regexp(t, `fairsem_poll_duration_seconds_count [1-9]`, s.get("/metrics").body)
}

func TestMetricsAreNamedAsPrometheusWants(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("gate", 2)
	s.seen(1)
	problems, err := testutil.GatherAndLint(prometheus.Gatherers{s.page.registry, s.page.perName})
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// The table for operators must list the metrics that exist.
func TestTableOfMetricsHasEveryMetricOfThePage(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("gate", 2)
	s.seen(1)
	var exist, listed []string
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (\w+)`).FindAllStringSubmatch(s.get("/metrics").body, -1) {
		exist = append(exist, found[1])
	}
	text, err := os.ReadFile("../../../../docs/metrics.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\nOf `fairsem serve`")
	require.True(t, found)
	for _, row := range regexp.MustCompile("(?m)^\\|.*`(fairsem_[a-z_]+)(\\{name\\})?` \\|$").FindAllStringSubmatch(table, -1) {
		listed = append(listed, row[1])
	}
	assert.ElementsMatch(t, exist, listed)
}

func TestALabelIsTextWhateverANameIs(t *testing.T) {
	t.Parallel()
	s := serve(t, perTenant)
	names := slices.Concat(hostile, []string{"twin\xff", `twin\xff`, `team\a`})
	for _, name := range names {
		s.holdAs(name, 2, 1, fairsem.CallOptions{Tenant: "acme"})
	}
	s.seen(len(names))
	answer := s.get("/metrics")
	assert.Equal(t, 200, answer.StatusCode)
	assert.Contains(t, answer.body, `fairsem_waiters{name="not\\xff\\xfeutf8"} 0`)
	assert.Contains(t, answer.body, `lines\n\ndata: owned\n`)
	assert.Contains(t, answer.body, `fairsem_waiters{name="team\\a"} 0`, "as the program that made it has it")
	assert.Contains(t, answer.body, `fairsem_waiters{name="twin\\xff"} 0`, "a byte")
	assert.Contains(t, answer.body, `fairsem_waiters{name="twin\\\\xff"} 0`, "four characters")
	assert.Equal(t, len(names), strings.Count(answer.body, "\nfairsem_waiters{"))
	assert.Equal(t, len(names), strings.Count(answer.body, "\nfairsem_tenant_waiters{"))
	page := s.get("/").body
	assert.Contains(t, page, `title="twin\xff"`)
	assert.Contains(t, page, `title="twin\\xff"`)
	assert.Contains(t, s.get("/semaphore?"+named("twin\xff")).body, `<h1 title="twin\xff">`)
	assert.Contains(t, s.get("/semaphore?"+named(`twin\xff`)).body, `<h1 title="twin\\xff">`)
}

// Four slow readers used to block Prometheus, and figures were made for each.
func TestFiguresOfNamesAreEncodedOncePerPoll(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("gate", 1)
	s.seen(1)
	first := s.page.figuresOf(1)
	require.Contains(t, string(first), `fairsem_permits_limit{name="gate"} 1`)
	assert.Same(t, &first[0], &s.page.figuresOf(1)[0])
	assert.NotSame(t, &first[0], &s.page.figuresOf(2)[0])
}
