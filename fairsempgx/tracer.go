package fairsempgx

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tracer is how a pool learns of calls: pgxpool has no other hook that can have a call wait, or give it a reason. It belongs to the
// pool; connections get the tracer of the user, so no query is slower for it.
type tracer struct {
	pool    *pool
	acquire pgxpool.AcquireTracer // of the user, or nil
	release pgxpool.ReleaseTracer
}

func newTracer(p *pool, user pgx.QueryTracer) *tracer {
	t := &tracer{pool: p}
	t.acquire, _ = user.(pgxpool.AcquireTracer)
	t.release, _ = user.(pgxpool.ReleaseTracer)
	return t
}

// TraceQueryStart makes a tracer of t.
func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd makes a tracer of t.
func (t *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceAcquireStart has a call wait until there is a connection for it, or a permit to dial one.
func (t *tracer) TraceAcquireStart(ctx context.Context, p *pgxpool.Pool, data pgxpool.TraceAcquireStartData) context.Context {
	if isInside(ctx) {
		return ctx
	}
	if t.acquire != nil {
		ctx = t.acquire.TraceAcquireStart(ctx, p, data)
	}
	return t.pool.enter(ctx, p)
}

// TraceAcquireEnd ends the call that TraceAcquireStart began.
func (t *tracer) TraceAcquireEnd(ctx context.Context, p *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	if isInside(ctx) {
		return
	}
	if c, is := ctx.(*call); is {
		t.pool.end(c, data.Conn)
	}
	if t.acquire != nil {
		t.acquire.TraceAcquireEnd(ctx, p, data)
	}
}

// TraceRelease is called right before a connection becomes idle.
func (t *tracer) TraceRelease(p *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	t.pool.release(data.Conn)
	if t.release != nil {
		t.release.TraceRelease(p, data)
	}
}

// marker is the tracer of an attempt to connect: the context that it returns is that of the dials for the connection, and of no request to
// cancel. The connection has the tracer of the user.
type marker struct {
	pgx.QueryTracer // of the user, or nil
	attempt         *attempt
}

type attemptKey struct{}

// TraceConnectStart calls that of the user, if there is one.
func (m *marker) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	data.ConnConfig.Tracer = m.QueryTracer
	m.attempt.begin()
	if user, is := m.QueryTracer.(pgx.ConnectTracer); is {
		ctx = user.TraceConnectStart(ctx, data)
	}
	return context.WithValue(ctx, attemptKey{}, m.attempt)
}

// TraceConnectEnd ends the attempt, and calls that of the user, if there is one.
func (m *marker) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	m.attempt.end()
	if user, is := m.QueryTracer.(pgx.ConnectTracer); is {
		user.TraceConnectEnd(ctx, data)
	}
}
