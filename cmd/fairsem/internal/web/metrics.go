package web

import (
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

func about(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	upDesc   = about("fairsem_up", "Whether Redis answers: 1 or 0. If it does not, there are no figures of names.")
	ageDesc  = about("fairsem_last_look_age_seconds", "How old the figures are.")
	badDesc  = about("fairsem_names_unreadable", "How many names have keys that are not as they should be.")
	moreDesc = about("fairsem_names_truncated", "Whether there are more names than are looked at: 1 or 0.")
)

// family is a figure that every name has.
type family struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(fairsem.Status) float64
}

var families = []family{
	{about("fairsem_permits_limit", "Units that may be in use at once.", "name"),
		prometheus.GaugeValue, func(s fairsem.Status) float64 { return float64(s.Limit) }},
	{about("fairsem_permits_in_use", "Units that are in use.", "name"),
		prometheus.GaugeValue, func(s fairsem.Status) float64 { return float64(s.Used) }},
	{about("fairsem_waiters", "Calls that wait in line.", "name"),
		prometheus.GaugeValue, func(s fairsem.Status) float64 { return float64(s.Waiting) }},
	{about("fairsem_oldest_waiter_age_seconds", "How long the head of the line has waited.", "name"),
		prometheus.GaugeValue, func(s fairsem.Status) float64 { return s.OldestWait.Seconds() }},
	{about("fairsem_permits_granted_total", "Permits granted since Redis got to know the name.", "name"),
		prometheus.CounterValue, func(s fairsem.Status) float64 { return float64(s.Granted) }},
	{about("fairsem_permits_lapsed_total", "Permits that nobody gave back or renewed in time.", "name"),
		prometheus.CounterValue, func(s fairsem.Status) float64 { return float64(s.Lapsed) }},
}

// newRegistry has what is told of Redis, and nothing of this process.
func newRegistry(p *Page) *prometheus.Registry {
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "fairsem_look_duration_seconds",
		Help:    "How long it took to look at all names.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 7),
	})
	p.sampler.looked = func(d time.Duration) { took.Observe(d.Seconds()) }
	registry := prometheus.NewRegistry()
	registry.MustRegister(took, collector{p})
	return registry
}

// metrics serves the figures of the latest look. Asking for them asks Redis nothing.
func (p *Page) metrics() http.Handler {
	return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// collector makes metrics of the latest look.
type collector struct{ page *Page }

// Describe is what a prometheus.Collector needs.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- upDesc
	ch <- ageDesc
	ch <- moreDesc
	ch <- badDesc
	for _, f := range families {
		ch <- f.desc
	}
}

// Collect leaves names out if they are too old to be true, and one that reads like another.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	now := c.page.sampler.latest()
	if !now.at.IsZero() {
		gauge(ageDesc, time.Since(now.at).Seconds())
	}
	if c.page.trouble(now) != "" {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	gauge(moreDesc, truth(now.more))
	gauge(badDesc, float64(len(now.unreadable)))
	told := make(map[string]bool, len(now.all))
	for _, s := range now.all {
		name := label(s.Name)
		if told[name] {
			continue
		}
		told[name] = true
		for _, f := range families {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(s), name)
		}
	}
}

// label is the name, or if that is no UTF-8, which labels must be, how it is shown.
func label(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return text.Clean(name)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
