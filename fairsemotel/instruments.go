package fairsemotel

import (
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/labels"
)

// instruments are named as in the semantic conventions of connection pools. docs/metrics.md has the same names.
type instruments struct {
	count, pending, disconnected metric.Int64UpDownCounter
	waitTime, useTime            metric.Float64Histogram
	failedRequests, lost         metric.Int64Counter
	unconfirmed, positionsLost   metric.Int64Counter
	admitted                     metric.Int64Counter
	callsFailed, unreturned      metric.Int64Counter
	disconnects                  metric.Int64Counter
}

// times are the bounds of the histograms in seconds, as those of fairsemprom: the default of OpenTelemetry is for milliseconds.
var times = []float64{0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384, 65.536, 262.144}

// maker makes instruments and keeps the errors.
type maker struct {
	meter metric.Meter
	errs  []error
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	m := &maker{meter: meter}
	i := &instruments{
		count:          m.level("permit.count", "{unit}", "Units that permits of this process hold."),
		pending:        m.level("permit.pending_requests", "{request}", "Calls of this process that wait in the queue."),
		waitTime:       m.time("permit.wait_time", "How long calls waited for what they were granted."),
		useTime:        m.time("permit.use_time", "How long permits were held."),
		failedRequests: m.counter("permit.failed_requests", "{request}", "Calls of this process that returned an error instead, or that Limiter.Allow refused."),
		admitted:       m.counter("permit.admitted_requests", "{request}", "Calls of this process that were let through without a permit, because Redis did not answer."),
		lost:           m.counter("permit.lost", "{permit}", "Permits that ended before this process released them."),
		unconfirmed:    m.counter("permit.unconfirmed_releases", "{permit}", "Releases that Redis has not confirmed: the units are free when the lease expires."),
		positionsLost:  m.counter("permit.positions_lost", "{request}", "Calls that lost their position in the queue and joined it again."),
		callsFailed:    m.counter("script_call.failures", "{call}", "Script calls that got no answer or an error. Most are tried again."),
		unreturned:     m.counter("unreturned_errors", "{error}", "Errors of methods of a Weighted that return none."),
		disconnects:    m.counter("subscription.disconnects", "{disconnect}", "How often the subscription for grants ended or could not be made."),
		disconnected:   m.level("subscription.disconnected", "{client}", "Clients of this process whose subscription for grants is lost."),
	}
	return i, errors.Join(m.errs...)
}

const namespace = "fairsem.client."

func (m *maker) level(name, unit, help string) metric.Int64UpDownCounter {
	i, err := m.meter.Int64UpDownCounter(namespace+name, metric.WithUnit(unit), metric.WithDescription(help))
	m.errs = append(m.errs, err)
	return i
}

func (m *maker) counter(name, unit, help string) metric.Int64Counter {
	i, err := m.meter.Int64Counter(namespace+name, metric.WithUnit(unit), metric.WithDescription(help))
	m.errs = append(m.errs, err)
	return i
}

func (m *maker) time(name, help string) metric.Float64Histogram {
	i, err := m.meter.Float64Histogram(namespace+name, metric.WithUnit("s"), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(times...))
	m.errs = append(m.errs, err)
	return i
}

// Keys of the attributes of metrics and spans.
const (
	nameKey    = attribute.Key("fairsem.name")
	weightKey  = attribute.Key("fairsem.weight")
	grantedKey = attribute.Key("fairsem.granted_by")
	verbKey    = attribute.Key("fairsem.verb")
	errorKey   = attribute.Key("error.type")
)

// attributes are those of a name, or of all names that share one. They are made once: each set is sorted and hashed.
type attributes struct {
	name        attribute.KeyValue
	add         []metric.AddOption
	record      []metric.RecordOption
	firstPermit sync.Once

	mu      sync.Mutex
	granted map[string][]metric.RecordOption // by how the process learned of it
	failure map[string][]metric.AddOption    // by reason
}

func attributesOf(label string) *attributes {
	set := metric.WithAttributeSet(attribute.NewSet(nameKey.String(label)))
	return &attributes{
		name: nameKey.String(label), add: []metric.AddOption{set}, record: []metric.RecordOption{set},
		granted: make(map[string][]metric.RecordOption), failure: make(map[string][]metric.AddOption),
	}
}

func (a *attributes) grantedBy(by fairsem.GrantedBy) []metric.RecordOption {
	a.mu.Lock()
	defer a.mu.Unlock()
	how := labels.Granted(by)
	if _, found := a.granted[how]; !found {
		a.granted[how] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(a.name, grantedKey.String(how)))}
	}
	return a.granted[how]
}

func (a *attributes) failed(reason string) []metric.AddOption {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, found := a.failure[reason]; !found {
		a.failure[reason] = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(a.name, errorKey.String(reason)))}
	}
	return a.failure[reason]
}

func verb(name string) metric.AddOption {
	return metric.WithAttributeSet(attribute.NewSet(verbKey.String(name)))
}
