package fairsemotel

import (
	"cmp"
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/labels"
)

// scope names this package in metrics and traces.
const scope = "github.com/fairsem/fairsem/fairsemotel"

// defaultNames have all their series within the limit of the SDK: 201 names with 9 errors each.
const defaultNames = 200

// Options of an Observer. The zero value uses the global providers, and is good for programs with 200 names at most.
type Options struct {
	// MeterProvider makes the instruments; nil: the global one.
	MeterProvider metric.MeterProvider
	// TracerProvider makes the spans; nil: the global one. go.opentelemetry.io/otel/trace/noop has one that makes none.
	TracerProvider trace.TracerProvider
	// Allow reports whether a name is the attribute fairsem.name of metrics; nil: every name. The others are "other" there.
	// It must always answer the same, and quickly: for such a name it is called with each event. Spans have the real name.
	Allow func(name string) bool
	// MaxNames is how many names are attributes of metrics at most; 0: 200. Later ones are "other". A name has up to 9 sets of attributes
	// of one instrument, and the SDK keeps 2,000. To set more than 200, make the MeterProvider with
	// WithCardinalityLimit(10 * MaxNames) of go.opentelemetry.io/otel/sdk/metric.
	MaxNames int
}

// Observer makes metrics and spans of the events of one or more Clients. Its methods may be called from any goroutine.
type Observer struct {
	names       *labels.Names[*attributes]
	instruments *instruments
	spans       *spans
}

// New returns an Observer. It fails, with [fairsem.ErrInvalid], if an option can never work, and with the error of the provider
// if that makes no instruments.
func New(o Options) (*Observer, error) {
	names, err := labels.NewNames(o.Allow, cmp.Or(o.MaxNames, defaultNames), attributesOf)
	if err != nil {
		return nil, fmt.Errorf("fairsemotel: %w", err)
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	i, err := newInstruments(o.MeterProvider.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("fairsemotel: %w", err)
	}
	return &Observer{names: names, instruments: i, spans: newSpans(o.TracerProvider.Tracer(scope))}, nil
}

// Observe counts an event and ends or starts its span. It is a [fairsem.Observer], for [fairsem.Options].
func (o *Observer) Observe(event fairsem.Event) {
	i := o.instruments
	switch e := event.(type) {
	case fairsem.WaitStartedEvent:
		i.pending.Add(e.Context, 1, o.names.Of(e.Name).add...)
	case fairsem.PositionLostEvent:
		a := o.leaveQueue(e.Context, e.Name, e.Queued)
		i.positionsLost.Add(e.Context, 1, a.add...)
	case fairsem.GrantedEvent:
		o.granted(e)
	case fairsem.AllowedEvent:
		a := o.leaveQueue(e.Context, e.Name, e.Queued)
		i.waitTime.Record(e.Context, e.Waited.Seconds(), a.grantedBy(e.By)...)
		o.spans.waited(e.Context, e.Name, e.Weight, e.At, e.Waited, e.By, nil)
	case fairsem.NotAcquiredEvent:
		a := o.leaveQueue(e.Context, e.Name, e.Queued)
		i.failedRequests.Add(e.Context, 1, a.failed(labels.NotAcquired(e.Err))...)
		o.spans.waited(e.Context, e.Name, e.Weight, e.At, e.Waited, "", e.Err)
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
func (o *Observer) Admitted(ctx context.Context, name string) {
	o.instruments.admitted.Add(ctx, 1, o.names.Of(name).add...)
}

func (o *Observer) leaveQueue(ctx context.Context, name string, queued bool) *attributes {
	a := o.names.Of(name)
	if queued {
		o.instruments.pending.Add(ctx, -1, a.add...)
	}
	return a
}

func (o *Observer) granted(e fairsem.GrantedEvent) {
	i, a := o.instruments, o.leaveQueue(e.Context, e.Name, e.Queued)
	a.firstPermit.Do(func() { // an increase from nothing to 1 is none for some backends
		for _, how := range []string{labels.Evicted, labels.Expired} {
			i.lost.Add(e.Context, 0, a.failed(how)...)
		}
	})
	i.count.Add(e.Context, e.Weight, a.add...)
	i.waitTime.Record(e.Context, e.Waited.Seconds(), a.grantedBy(e.By)...)
	o.spans.waited(e.Context, e.Name, e.Weight, e.At, e.Waited, e.By, nil)
	o.spans.hold(e)
}

func (o *Observer) released(e fairsem.ReleasedEvent) {
	i, a := o.instruments, o.names.Of(e.Name)
	i.count.Add(e.Context, -e.Weight, a.add...)
	i.useTime.Record(e.Context, e.Held.Seconds(), a.record...)
	if e.Err != nil {
		i.unconfirmed.Add(e.Context, 1, a.add...)
	}
	o.spans.held(e.ID, e.Held, e.Err, "unconfirmed")
}

func (o *Observer) lost(e fairsem.LostEvent) {
	i, a := o.instruments, o.names.Of(e.Name)
	how := labels.Lost(e.Err)
	i.count.Add(e.Context, -e.Weight, a.add...)
	i.useTime.Record(e.Context, e.Held.Seconds(), a.record...)
	i.lost.Add(e.Context, 1, a.failed(how)...)
	o.spans.held(e.ID, e.Held, e.Err, how)
}

// ofClient counts the events that have no permit. A subscription without a Node is the one for grants; the others only show whether
// a node goes away.
func (o *Observer) ofClient(event fairsem.Event) {
	i, ctx := o.instruments, context.Background()
	switch e := event.(type) {
	case fairsem.CallFailedEvent:
		i.callsFailed.Add(ctx, 1, verb(e.Verb))
	case fairsem.UnreturnedEvent:
		i.unreturned.Add(ctx, 1, verb(e.Verb))
	case fairsem.DisconnectedEvent:
		if e.Node == "" {
			i.disconnects.Add(ctx, 1)
			i.disconnected.Add(ctx, 1)
		}
	case fairsem.ReconnectedEvent:
		if e.Node == "" {
			i.disconnected.Add(ctx, -1)
		}
	}
}
