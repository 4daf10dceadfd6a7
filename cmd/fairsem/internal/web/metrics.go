package web

import (
	"bytes"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/labels"
)

func about(name, help string, variable ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, variable, nil)
}

var (
	upDesc   = about("fairsem_up", "Whether Redis answers PING, in a cluster any primary, and the user may query it: 1 or 0. If not, there are no figures of names.")
	ageDesc  = about("fairsem_last_poll_age_seconds", "Age of the figures.")
	badDesc  = about("fairsem_names_unreadable", "Names whose keys cannot be read.")
	moreDesc = about("fairsem_names_truncated", "Whether there are names that are not polled, because there are too many, a primary of a cluster does not answer, all polls fail, or the first search goes on: 1 or 0.")
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
	{about("fairsem_waiters", "Calls that wait in the queue.", "name"),
		prometheus.GaugeValue, func(s fairsem.Status) float64 { return float64(s.Waiting) }},
	{about("fairsem_oldest_waiter_age_seconds", "How long the head of the queue has waited, and its head start.", "name"),
		prometheus.GaugeValue, func(s fairsem.Status) float64 { return s.OldestWait.Seconds() }},
	{about("fairsem_permits_granted_total", "Permits granted since the name exists.", "name"),
		prometheus.CounterValue, func(s fairsem.Status) float64 { return float64(s.Granted) }},
	{about("fairsem_permits_expired_total", "Permits that expired before they were released.", "name"),
		prometheus.CounterValue, func(s fairsem.Status) float64 { return float64(s.Expired) }},
}

// register makes a registry with the metrics of Redis as a whole, and none of this process, and one with the figures of every name.
func (p *Page) register() {
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "fairsem_poll_duration_seconds",
		Help:    "How long it took to query all names.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 7),
	})
	p.sampler.polled = func(d time.Duration) { took.Observe(d.Seconds()) }
	p.registry, p.perName = prometheus.NewRegistry(), prometheus.NewRegistry()
	p.registry.MustRegister(took, prometheus.CollectorFunc(p.collectServer))
	p.perName.MustRegister(prometheus.CollectorFunc(p.collectNames))
	if p.TenantMetrics {
		p.perName.MustRegister(prometheus.CollectorFunc((&tenantFigures{page: p}).collect))
	}
}

// encode writes figures as Prometheus reads them. They come from here, so that it cannot fail.
func encode(registry *prometheus.Registry) []byte {
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	var b bytes.Buffer
	for _, family := range families {
		_, _ = expfmt.MetricFamilyToText(&b, family) // a buffer takes everything
	}
	return b.Bytes()
}

func (p *Page) figuresOf(polls int64) []byte {
	return p.figures.get(polls, "", func() []byte { return encode(p.perName) })
}

// metrics serves the figures of the latest poll. It does not query Redis.
func (p *Page) metrics(w http.ResponseWriter, _ *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pictureLimit)) // where there is none it ends later
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	_, _ = w.Write(encode(p.registry)) // the client is gone
	if now := p.sampler.latest(); p.trouble(now) == "" {
		_, _ = w.Write(p.figuresOf(now.polls)) // as above
	}
}

// collectServer makes metrics of Redis as a whole. It leaves out figures that are too old to be true.
func (p *Page) collectServer(ch chan<- prometheus.Metric) {
	now := p.sampler.latest()
	if !now.at.IsZero() {
		sendGauge(ch, ageDesc, time.Since(now.at).Seconds())
	}
	up, polled := p.away(now) == "", p.trouble(now) == ""
	sendGauge(ch, upDesc, boolValue(up))
	if up {
		sendGauge(ch, moreDesc, boolValue(!polled || now.More || now.Partial || now.Missing != nil))
	}
	if polled {
		sendGauge(ch, badDesc, float64(len(now.Unreadable)))
	}
}

// collectNames makes metrics of each name of the latest poll. No two have the same labels, which a registry would not accept: see
// labels.Text.
func (p *Page) collectNames(ch chan<- prometheus.Metric) {
	for _, s := range p.sampler.latest().Statuses {
		name := labels.Text(s.Name)
		for _, f := range families {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(s), name)
		}
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
