package fairsemprom

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/labels"
)

// Options of an Observer. The zero value is good for programs with some hundred names at most.
type Options struct {
	// Allow reports whether a name has series of its own; nil: every name. The others share the series with name="other".
	// It must always answer the same, and quickly: for a name without series it is called with each event.
	Allow func(name string) bool
	// MaxNames is how many names have series of their own at most; 0: 1,000. Later ones share the series with name="other".
	// A name has up to 51 series, with the default Buckets.
	MaxNames int
	// Buckets are the upper bounds of the two histograms, in seconds; nil: 1 ms to 262 s, each four times the one before.
	Buckets []float64
	// TraceID returns the trace of a call, from the values of the context that it was given, or "" if it has none. It becomes
	// the exemplar of both histograms, with the label trace_id. nil: no exemplars, at no cost.
	TraceID func(ctx context.Context) string
}

// Observer makes metrics from the events of one or more Clients. It is a [prometheus.Collector].
// Its methods may be called from any goroutine.
type Observer struct {
	names   *labels.Names[*series]
	traceID func(context.Context) string
	metrics *metrics
}

// New returns an Observer without any events. It fails, with [fairsem.ErrInvalid], if an option can never work.
func New(o Options) (*Observer, error) {
	if err := checkBuckets(o.Buckets); err != nil {
		return nil, err
	}
	if len(o.Buckets) == 0 {
		o.Buckets = prometheus.ExponentialBuckets(0.001, 4, 10)
	}
	m := newMetrics(slices.Clone(o.Buckets)) // the histogram of each new name is made of them
	names, err := labels.NewNames(o.Allow, o.MaxNames, m.named)
	if err != nil {
		return nil, fmt.Errorf("fairsemprom: %w", err)
	}
	return &Observer{names: names, traceID: o.TraceID, metrics: m}, nil
}

func checkBuckets(all []float64) error {
	last := math.Inf(-1)
	for i, bound := range all {
		if !(bound > last) { // nor is NaN
			return fmt.Errorf("fairsemprom: %w: bucket %d is %v, after %v; give bounds that increase", fairsem.ErrInvalid, i, bound, last)
		}
		last = bound
	}
	return nil
}

// Describe implements [prometheus.Collector].
func (o *Observer) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range o.metrics.all {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (o *Observer) Collect(ch chan<- prometheus.Metric) {
	for _, c := range o.metrics.all {
		c.Collect(ch)
	}
}

// Observe counts an event. It is a [fairsem.Observer], for [fairsem.Options].
func (o *Observer) Observe(event fairsem.Event) {
	switch e := event.(type) {
	case fairsem.WaitStartedEvent:
		o.names.Of(e.Name).waiters.Inc()
	case fairsem.PositionLostEvent:
		s := o.names.Of(e.Name)
		s.leaveQueue(e.Queued)
		s.positionsLost.Inc()
	case fairsem.GrantedEvent:
		o.granted(e)
	case fairsem.AllowedEvent:
		s := o.names.Of(e.Name)
		s.leaveQueue(e.Queued)
		s.allowed().WithLabelValues(labels.Granted(e.By)).Inc()
		o.record(e.Context, s.waited, e.Waited)
	case fairsem.NotAcquiredEvent:
		s := o.names.Of(e.Name)
		s.leaveQueue(e.Queued)
		s.notAcquired.WithLabelValues(labels.NotAcquired(e.Err)).Inc()
	case fairsem.ReleasedEvent:
		o.released(e)
	case fairsem.LostEvent:
		o.lost(e)
	default:
		o.ofClient(event)
	}
}

// Admitted counts a call that was let through without a permit of a name, because Redis did not answer. No event says so: call it in
// OnAdmitted of fairsemhttp or fairsemgrpc. The call is also counted as one that returned an error.
func (o *Observer) Admitted(name string) { o.names.Of(name).admitted.Inc() }

func (o *Observer) granted(e fairsem.GrantedEvent) {
	s := o.names.Of(e.Name)
	s.leaveQueue(e.Queued)
	p := s.permits()
	p.inUse.Add(float64(e.Weight))
	p.granted.WithLabelValues(labels.Granted(e.By)).Inc()
	o.record(e.Context, s.waited, e.Waited)
}

func (o *Observer) released(e fairsem.ReleasedEvent) {
	p := o.names.Of(e.Name).permits()
	p.inUse.Sub(float64(e.Weight))
	p.released.Inc()
	if e.Err != nil {
		p.unconfirmed.Inc()
	}
	o.record(e.Context, p.held, e.Held)
}

func (o *Observer) lost(e fairsem.LostEvent) {
	p := o.names.Of(e.Name).permits()
	p.inUse.Sub(float64(e.Weight))
	p.lost.WithLabelValues(labels.Lost(e.Err)).Inc()
	o.record(e.Context, p.held, e.Held)
}

// ofClient counts the events that have no permit. A subscription without a Node is the one for grants; the others only
// show whether a node goes away.
func (o *Observer) ofClient(event fairsem.Event) {
	switch e := event.(type) {
	case fairsem.CallFailedEvent:
		o.metrics.callsFailed.WithLabelValues(e.Verb).Inc()
	case fairsem.UnreturnedEvent:
		o.metrics.unreturned.WithLabelValues(e.Verb).Inc()
	case fairsem.DisconnectedEvent:
		if e.Node == "" {
			o.metrics.disconnects.Inc()
			o.metrics.disconnected.Inc()
		}
	case fairsem.ReconnectedEvent:
		if e.Node == "" {
			o.metrics.disconnected.Dec()
		}
	}
}

// record is Observe with the trace of the call, if it has one.
func (o *Observer) record(ctx context.Context, to prometheus.Observer, took time.Duration) {
	if o.traceID != nil {
		id := o.traceID(ctx)
		if with, can := to.(prometheus.ExemplarObserver); can && isExemplar(id) {
			with.ObserveWithExemplar(took.Seconds(), prometheus.Labels{traceLabel: id})
			return
		}
	}
	to.Observe(took.Seconds())
}

const traceLabel = "trace_id"

// isExemplar reports whether an exemplar can have that id: an invalid one would panic.
func isExemplar(id string) bool {
	return id != "" && utf8.ValidString(id) && utf8.RuneCountInString(id) <= prometheus.ExemplarMaxRunes-len(traceLabel)
}
