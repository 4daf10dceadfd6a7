package fairsemprom

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairsem/fairsem/internal/labels"
)

// metrics are the metrics that Prometheus reads. docs/metrics.md has the same names.
type metrics struct {
	all []prometheus.Collector

	waiters, inUse                *prometheus.GaugeVec
	granted, allowed, notAcquired *prometheus.CounterVec
	admitted                      *prometheus.CounterVec
	released, unconfirmed         *prometheus.CounterVec
	lost, positionsLost           *prometheus.CounterVec
	waited, held                  *prometheus.HistogramVec
	callsFailed, unreturned       *prometheus.CounterVec
	disconnects                   prometheus.Counter
	disconnected                  prometheus.Gauge
}

// namespace separates these metrics, which are of one process, from those of fairsem serve, which are of all processes: a sum that
// takes both counts everything twice.
const namespace = "fairsem_client"

func newMetrics(buckets []float64) *metrics {
	m := &metrics{}
	m.waiters = m.gauge("waiters", "Calls of this process that wait in the queue.")
	m.inUse = m.gauge("permits_in_use", "Units that permits of this process hold.")
	m.granted = m.counter("permits_granted_total", "Permits granted to this process, by how it learned of the grant.", "name", "by")
	m.allowed = m.counter("calls_allowed_total", "Calls of this process that a Limiter allowed, by how it learned of it.", "name", "by")
	m.notAcquired = m.counter("calls_not_acquired_total", "Calls of this process that returned an error instead, or that Limiter.Allow refused.", "name", "reason")
	m.admitted = m.counter("calls_admitted_total", "Calls of this process that were let through without a permit, because Redis did not answer.", "name")
	m.released = m.counter("permits_released_total", "Permits that this process released.", "name")
	m.unconfirmed = m.counter("releases_unconfirmed_total", "Releases that Redis has not confirmed: the units are free when the lease expires.", "name")
	m.lost = m.counter("permits_lost_total", "Permits that ended before this process released them.", "name", "reason")
	m.positionsLost = m.counter("positions_lost_total", "Calls that lost their position in the queue and joined it again.", "name")
	m.waited = m.histogram("wait_duration_seconds", "How long calls waited for what they were granted.", buckets)
	m.held = m.histogram("hold_duration_seconds", "How long permits were held.", buckets)
	m.callsFailed = m.counter("script_calls_failed_total", "Script calls that got no answer or an error. Most are tried again.", "verb")
	m.unreturned = m.counter("errors_unreturned_total", "Errors of methods of a Weighted that return none.", "verb")
	m.disconnects = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Name: "disconnects_total", Help: "How often the subscription for grants ended or could not be made.",
	})
	m.disconnected = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "disconnected", Help: "Clients of this process whose subscription for grants is lost.",
	})
	m.all = append(m.all, m.disconnects, m.disconnected)
	for _, verb := range []string{"try-acquire", "release"} {
		m.unreturned.WithLabelValues(verb)
	}
	for _, verb := range labels.Verbs() {
		m.callsFailed.WithLabelValues(verb)
	}
	return m
}

func (m *metrics) gauge(name, help string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, []string{"name"})
	m.all = append(m.all, v)
	return v
}

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func (m *metrics) histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, []string{"name"})
	m.all = append(m.all, v)
	return v
}

// series are those of a name, or of all names that share a label.
type series struct {
	waiters       prometheus.Gauge
	waited        prometheus.Observer
	positionsLost prometheus.Counter
	admitted      prometheus.Counter
	notAcquired   *prometheus.CounterVec
	permits       func() permitSeries           // made with the first permit
	allowed       func() *prometheus.CounterVec // made with the first call that a Limiter allows
}

type permitSeries struct {
	inUse                 prometheus.Gauge
	granted, lost         *prometheus.CounterVec
	released, unconfirmed prometheus.Counter
	held                  prometheus.Observer
}

func (m *metrics) named(label string) *series {
	return &series{
		waiters:       m.waiters.WithLabelValues(label),
		waited:        m.waited.WithLabelValues(label),
		positionsLost: m.positionsLost.WithLabelValues(label),
		admitted:      m.admitted.WithLabelValues(label),
		notAcquired:   of(m.notAcquired, label, labels.Unavailable, labels.Other),
		permits:       sync.OnceValue(func() permitSeries { return m.permits(label) }),
		allowed:       sync.OnceValue(func() *prometheus.CounterVec { return of(m.allowed, label, labels.Grants()...) }),
	}
}

func (m *metrics) permits(label string) permitSeries {
	return permitSeries{
		inUse:       m.inUse.WithLabelValues(label),
		granted:     of(m.granted, label, labels.Grants()...),
		lost:        of(m.lost, label, labels.Evicted, labels.Expired),
		released:    m.released.WithLabelValues(label),
		unconfirmed: m.unconfirmed.WithLabelValues(label),
		held:        m.held.WithLabelValues(label),
	}
}

// of returns the counters of a name. Those of the values exist from now on: an increase from nothing to 1 is none for
// Prometheus.
func of(v *prometheus.CounterVec, label string, values ...string) *prometheus.CounterVec {
	mine := v.MustCurryWith(prometheus.Labels{"name": label})
	for _, value := range values {
		mine.WithLabelValues(value)
	}
	return mine
}

func (s *series) leaveQueue(queued bool) {
	if queued {
		s.waiters.Dec()
	}
}
