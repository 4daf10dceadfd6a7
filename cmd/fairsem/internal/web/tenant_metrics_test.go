package web

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
	"github.com/fairsem/fairsem/internal/redistest"
)

func perTenant(o *Options) { o.TenantMetrics = true }

func TestMetricsHaveTenantsOnlyIfAsked(t *testing.T) {
	t.Parallel()
	s, quiet := serve(t, perTenant), serve(t)
	s.hold("plain", 2)
	for _, one := range []*served{s, quiet} {
		one.holdAs("gate", 9, 3, fairsem.CallOptions{Tenant: "acme", Share: 2, TenantLimit: 4})
		one.holdAs("gate", 9, 6, fairsem.CallOptions{})
		one.wait("gate", 9)
	}
	for _, line := range []string{
		`fairsem_tenant_permits_in_use{name="gate",tenant="acme"} 3`,
		`fairsem_tenant_permits_in_use{name="gate",tenant=""} 6`,
		`fairsem_tenant_waiters{name="gate",tenant="acme"} 0`,
		`fairsem_tenant_waiters{name="gate",tenant=""} 1`,
		`fairsem_tenant_share{name="gate",tenant="acme"} 2`,
		`fairsem_tenant_permits_limit{name="gate",tenant="acme"} 4`,
		`fairsem_tenant_permits_limit{name="gate",tenant=""} 0`,
	} {
		require.Eventually(t, func() bool { return strings.Contains(s.get("/metrics").body, line+"\n") }, soon, often, line)
	}
	body := s.get("/metrics").body
	assert.Regexp(t, `fairsem_tenant_oldest_waiter_age_seconds\{name="gate",tenant=""\} [0-9.e-]+\n`, body)
	assert.NotContains(t, body, `{name="plain",tenant=`)
	assert.NotContains(t, body, `tenant="\\others"`)
	problems, err := testutil.GatherAndLint(prometheus.Gatherers{s.page.registry, s.page.perName})
	require.NoError(t, err)
	assert.Empty(t, problems)
	docs, err := os.ReadFile("../../../../docs/metrics.md")
	require.NoError(t, err)
	for _, family := range regexp.MustCompile(`(?m)^# TYPE (fairsem_\w+) `).FindAllStringSubmatch(body, -1) {
		assert.Regexp(t, "`"+family[1]+"[`{]", string(docs), "the page that lists all metrics")
	}
	quiet.seen(1)
	assert.NotContains(t, quiet.get("/metrics").body, "tenant")
}

// Without the right to HSCAN, which is for tenants only, there were no figures of them and no word about it.
func TestTenantsThatCannotBeReadHaveFiguresTogether(t *testing.T) {
	t.Parallel()
	server := redistest.SharedServer(t)
	user := "no-hscan-" + uuid.NewString()
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all", "-hscan").Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: user, Password: "secret"})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	log := &transcript.Transcript{}
	s := serveOn(t, rdb, perTenant, logged(log))
	client, err := fairsem.New(server.Client(), fairsem.Options{Prefix: s.prefix})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	rights := &served{t: t, client: client}
	for _, name := range []string{"gate", "door"} {
		rights.holdAs(name, 9, 3, fairsem.CallOptions{Tenant: "acme"})
	}
	s.hold("plain", 2)
	for _, name := range []string{"gate", "door"} {
		line := fmt.Sprintf(`fairsem_tenant_permits_in_use{name=%q,tenant="\\others"} 3`, name)
		require.Eventually(t, func() bool { return strings.Contains(s.get("/metrics").body, line+"\n") }, soon, often, line)
	}
	assert.NotContains(t, s.get("/metrics").body, `{name="plain",tenant=`)
	first := s.page.sampler.latest().polls
	require.Eventually(t, func() bool { return s.page.sampler.latest().polls > first+3 }, soon, often)
	assert.Regexp(t, `(?m) fairsem: the tenants of "(gate|door)" cannot be read, so metrics have them together: .+$`, log.String())
	assert.Equal(t, 1, strings.Count(log.String(), "cannot be read"))
}

func TestALabelOfATenantIsTextWhateverItIs(t *testing.T) {
	t.Parallel()
	s := serve(t, perTenant)
	tenants := append(fits128(), `\others`, `others`, "\xffothers", "twin\xff", `twin\xff`)
	for _, tenant := range tenants {
		s.holdAs("gate", 99, 1, fairsem.CallOptions{Tenant: tenant})
	}
	require.Eventually(t, func() bool {
		return strings.Contains(s.get("/metrics").body, fmt.Sprintf("fairsem_permits_in_use{name=\"gate\"} %d\n", len(tenants)))
	}, soon, often)
	body := s.get("/metrics").body
	assert.Contains(t, body, `fairsem_tenant_permits_in_use{name="gate",tenant="\\\\others"} 1`+"\n", "the tenant of that name")
	assert.Contains(t, body, `fairsem_tenant_permits_in_use{name="gate",tenant="\\xffothers"} 1`+"\n")
	assert.Contains(t, body, `fairsem_tenant_permits_in_use{name="gate",tenant="not\\xff\\xfeutf8"} 1`+"\n")
	assert.Contains(t, body, `fairsem_tenant_permits_in_use{name="gate",tenant="twin\\xff"} 1`+"\n", "a byte")
	assert.Contains(t, body, `fairsem_tenant_permits_in_use{name="gate",tenant="twin\\\\xff"} 1`+"\n", "four characters")
	assert.NotContains(t, body, `tenant="\\others"`)
	assert.Contains(t, body, `lines\n\ndata: owned\n`)
	assert.Equal(t, len(tenants), strings.Count(body, "\nfairsem_tenant_permits_in_use{"))
}

func TestTheNumberOfTenantsWithFiguresIsBoundedAndThoseThatHaveThemKeepThem(t *testing.T) {
	t.Parallel()
	page := New(Options{Interval: time.Hour, Names: 1, Log: t.Output(), TenantMetrics: true}) // it is not served, so it polls nothing
	poll := func(first int) []string {
		var all []fairsem.Tenant
		for i := range mostTenantFigures + 5 {
			all = append(all, fairsem.Tenant{Name: fmt.Sprintf("t%05d", first+i), Used: 1, Waiting: 2})
		}
		now := *page.sampler.latest()
		now.Statuses = []fairsem.Status{{Name: "gate", Used: 2000, Waiting: 3000}}
		now.tenants = map[string]inspect.Tenants{"gate": {All: all}}
		page.sampler.now.Store(&now)
		return strings.Split(string(encode(page.perName)), "\n")
	}
	lines := poll(100)
	assert.Contains(t, lines, `fairsem_tenant_permits_in_use{name="gate",tenant="t00100"} 1`)
	assert.Contains(t, lines, `fairsem_tenant_permits_in_use{name="gate",tenant="t01099"} 1`)
	assert.NotContains(t, lines, `fairsem_tenant_permits_in_use{name="gate",tenant="t01100"} 1`)
	assert.Contains(t, lines, `fairsem_tenant_permits_in_use{name="gate",tenant="\\others"} 1000`)
	assert.Contains(t, lines, `fairsem_tenant_waiters{name="gate",tenant="\\others"} 1000`)
	lines = poll(98)
	assert.NotContains(t, lines, `fairsem_tenant_permits_in_use{name="gate",tenant="t00098"} 1`, "it came later")
	assert.Contains(t, lines, `fairsem_tenant_permits_in_use{name="gate",tenant="t01099"} 1`)
}
