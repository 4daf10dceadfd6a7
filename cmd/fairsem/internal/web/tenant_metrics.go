package web

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/labels"
)

// mostTenantFigures is how many tenants, of all names together, have figures of their own: any client can name new ones.
const mostTenantFigures = 1000

// otherTenants is the label of all others of a name together. No tenant has it: see tenantLabel.
const otherTenants = `\others`

var (
	tenantUsedDesc    = about("fairsem_tenant_permits_in_use", `Units that the tenant holds; of the tenant \others, all that have no figures of their own.`, "name", "tenant")
	tenantWaitersDesc = about("fairsem_tenant_waiters", `Calls of the tenant that wait in the queue; \others as above.`, "name", "tenant")
	tenantOldestDesc  = about("fairsem_tenant_oldest_waiter_age_seconds", "How long the first waiter of the tenant has waited, and its head start.", "name", "tenant")
	tenantShareDesc   = about("fairsem_tenant_share", "Share of the tenant beside others.", "name", "tenant")
	tenantLimitDesc   = about("fairsem_tenant_permits_limit", "Units that the tenant may hold at once; 0: as many as the limit of the name.", "name", "tenant")
)

// tenantFigures makes metrics of the tenants of the latest poll. Tenants with figures keep them while they hold or wait, so that
// the series do not change with every poll.
type tenantFigures struct {
	page *Page

	mu   sync.Mutex
	kept map[seriesKey]bool // guarded by mu
}

// seriesKey is a tenant of a name, as labels.
type seriesKey struct{ name, tenant string }

// collect makes the figures of all tenants, and for each name where some have none of their own, one of the others.
func (c *tenantFigures) collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.page.sampler.latest()
	own := c.choose(now.Statuses, now.tenants)
	for _, s := range now.Statuses {
		of, name := now.tenants[s.Name], labels.Text(s.Name)
		if len(of.All) == 0 && !of.Unread {
			continue
		}
		used, waiting, others := s.Used, s.Waiting, of.Unread
		for _, t := range of.All {
			key := seriesKey{name, tenantLabel(t.Name)}
			if !own[key] {
				others = true
				continue
			}
			used, waiting = used-t.Used, waiting-t.Waiting
			sendGauge(ch, tenantUsedDesc, float64(t.Used), key.name, key.tenant)
			sendGauge(ch, tenantWaitersDesc, float64(t.Waiting), key.name, key.tenant)
			sendGauge(ch, tenantOldestDesc, t.OldestWait.Seconds(), key.name, key.tenant)
			sendGauge(ch, tenantShareDesc, float64(t.Share), key.name, key.tenant)
			sendGauge(ch, tenantLimitDesc, float64(t.Limit), key.name, key.tenant)
		}
		if others { // the parts of a poll are of slightly different moments
			sendGauge(ch, tenantUsedDesc, float64(max(0, used)), name, otherTenants)
			sendGauge(ch, tenantWaitersDesc, float64(max(0, waiting)), name, otherTenants)
		}
	}
	c.kept = own
}

func sendGauge(ch chan<- prometheus.Metric, desc *prometheus.Desc, value float64, values ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, values...)
}

// choose returns which tenants have figures of their own: first those that had them, then others, by name.
func (c *tenantFigures) choose(all []fairsem.Status, of map[string]inspect.Tenants) map[seriesKey]bool {
	var keys []seriesKey
	for _, s := range all {
		for _, t := range of[s.Name].All {
			keys = append(keys, seriesKey{labels.Text(s.Name), tenantLabel(t.Name)})
		}
	}
	slices.SortFunc(keys, func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(boolValue(c.kept[b]), boolValue(c.kept[a])), cmp.Compare(a.name, b.name), cmp.Compare(a.tenant, b.tenant))
	})
	own := make(map[seriesKey]bool)
	for _, key := range keys[:min(len(keys), mostTenantFigures)] {
		own[key] = true
	}
	return own
}

// tenantLabel is the tenant, or if that is no UTF-8, which labels must be, how it is shown. Either way a backslash has another one before
// it, so no two tenants have the same label.
func tenantLabel(tenant string) string {
	if utf8.ValidString(tenant) {
		return strings.ReplaceAll(tenant, `\`, `\\`)
	}
	return text.Distinct(tenant)
}
