package web

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// What operators find in the table must be what there is.
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
	s := serve(t)
	s.holdAll(append(hostile, "twin\xff", `twin\xff`)...)
	answer := s.get("/metrics")
	assert.Equal(t, 200, answer.StatusCode)
	assert.Contains(t, answer.body, `fairsem_waiters{name="not\\xff\\xfeutf8"} 0`)
	assert.Contains(t, answer.body, `lines\n\ndata: owned\n`)
	assert.Equal(t, len(hostile)+1, strings.Count(answer.body, "\nfairsem_waiters{"), "two that read alike are one")
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
