package fairsemotel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/labels"
)

// spans are those of calls that have a trace: a call without one would begin a trace of its own.
type spans struct {
	tracer trace.Tracer

	mu      sync.Mutex
	holding map[string]holding // guarded by mu; of the permits whose span is recorded, by ID
}

type holding struct {
	span  trace.Span
	since time.Time
}

func newSpans(tracer trace.Tracer) *spans {
	return &spans{tracer: tracer, holding: make(map[string]holding)}
}

func traced(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }

func (s *spans) start(ctx context.Context, what string, at time.Time, name string, weight int64) trace.Span {
	_, span := s.tracer.Start(ctx, what, trace.WithTimestamp(at),
		trace.WithAttributes(nameKey.String(labels.Text(name)), weightKey.Int64(weight)))
	return span
}

// waited makes the span of a wait that is over. by is empty, or err is nil.
func (s *spans) waited(ctx context.Context, name string, weight int64, at time.Time, waited time.Duration, by fairsem.GrantedBy, err error) {
	if !traced(ctx) {
		return
	}
	span := s.start(ctx, "fairsem.wait", at.Add(-waited), name, weight)
	if err != nil {
		fail(span, err, labels.NotAcquired(err))
	} else {
		span.SetAttributes(grantedKey.String(labels.Granted(by)))
	}
	span.End(trace.WithTimestamp(at))
}

// hold starts the span of a permit.
func (s *spans) hold(e fairsem.GrantedEvent) {
	if !traced(e.Context) {
		return
	}
	span := s.start(e.Context, "fairsem.hold", e.At, e.Name, e.Weight)
	if !span.IsRecording() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding[e.ID] = holding{span, e.At}
}

// held ends the span of a permit, if it has one.
func (s *spans) held(id string, held time.Duration, err error, reason string) {
	s.mu.Lock()
	h, found := s.holding[id]
	delete(s.holding, id)
	s.mu.Unlock()
	if !found {
		return
	}
	if err != nil {
		fail(h.span, err, reason)
	}
	h.span.End(trace.WithTimestamp(h.since.Add(held)))
}

func fail(span trace.Span, err error, reason string) {
	span.SetAttributes(errorKey.String(reason))
	span.SetStatus(codes.Error, labels.Text(err.Error()))
}
