package fairsemhttp

import (
	"context"
	"fmt"
	"net/http"

	"github.com/fairsem/fairsem/internal/gate"
	"github.com/fairsem/fairsem/internal/held"
)

// Transport is an [http.RoundTripper] whose requests hold their permit until the body of the response was read to its end or
// closed. It is safe for concurrent use; it must not be changed after the first call.
//
// Each call of RoundTrip acquires a permit. So do each redirect that an [http.Client] follows and each retry of a caller, but
// not the requests that Base repeats by itself. A caller that keeps one response open while it sends the next request holds two permits;
// with as many such callers as units, all wait for each other.
type Transport struct {
	// Base sends the requests. If nil, it is [http.DefaultTransport]; a Transport that is a part of that needs a Base.
	Base http.RoundTripper

	// Limit is that of all requests. It must be nil if Options.LimitOf is set.
	Limit Limit

	// Options change how requests wait. OnRefused and PolicyName are not used.
	Options Options
}

// RoundTrip waits until the limit lets the request through, and sends it. While it waits, the end of the request's context ends
// it. The errors of the limit are those of [fairsem.Semaphore.Acquire] or [fairsem.Limiter.Wait], with
// [fairsem.ErrNotAcquired] after MaxWait; nothing was sent then. A Transport that cannot work returns
// [fairsem.ErrInvalid] before any I/O.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	l := new(loan)
	switch err := t.enter(&l.Loan, r); {
	case err != nil:
		return nil, err
	case l.Permit == nil:
		l.End()
		return t.pass(context.WithValue(r.Context(), sentBy{t}, true), r)
	}
	return t.send(r, l)
}

// CloseIdleConnections calls that of Base, if it has one.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// base returns nil if it would be t itself.
func (t *Transport) base() http.RoundTripper {
	base := http.DefaultTransport
	if t != nil && t.Base != nil {
		base = t.Base
	}
	if base == http.RoundTripper(t) {
		return nil
	}
	return base
}

// sentBy is the key of a mark in the contexts of requests that a Transport has sent: it finds those that come back to it.
type sentBy struct{ *Transport }

const transportName = "fairsemhttp.Transport" // in errors

// enter lends a permit to a request, none if it needs none. Beside an error, and after a panic of a function of Options, the loan has
// ended and the body is closed.
func (t *Transport) enter(loan *held.Loan, r *http.Request) error {
	entered := false
	defer func() {
		if !entered && r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must; its error changes nothing
		}
	}()
	switch {
	case t == nil:
		return gate.Invalid(transportName, "it is nil")
	case t.base() == nil || r.Context().Value(sentBy{t}) != nil:
		return gate.Invalid(transportName, "it is its own Base: if it is a part of http.DefaultTransport, set Base to the transport that this replaces")
	}
	g := gateOf(transportName, t.Limit, t.Options)
	err := g.Check()
	if err == nil {
		_, err = g.Lend(r.Context(), loan, r)
	}
	entered = err == nil
	return err
}

// send sends a request that has a permit. The permit is released here unless there is a body that holds it.
func (t *Transport) send(r *http.Request, l *loan) (resp *http.Response, err error) {
	lent := false
	defer func() {
		if !lent {
			l.end()
		}
	}()
	resp, err = t.pass(sending{&l.Scope, t}, r)
	if err != nil || resp == nil {
		return resp, l.explain(err)
	}
	if resp.Body != nil && resp.Body != http.NoBody {
		resp.Body = l.body(resp)
		lent = true
	}
	return resp, nil
}

// pass sends a request with that context.
func (t *Transport) pass(ctx context.Context, r *http.Request) (*http.Response, error) {
	inner := r.WithContext(ctx)
	resp, err := t.base().RoundTrip(inner)
	if resp != nil && resp.Request == inner {
		resp.Request = r
	}
	return resp, err
}

// sending is the context of a request that t sends.
type sending struct {
	*held.Scope
	by *Transport
}

func (s sending) Value(key any) any {
	if key == (sentBy{s.by}) {
		return true
	}
	return s.Scope.Value(key)
}

// loan is the permit of a request until it ends.
type loan struct {
	held.Loan
	stop func() bool // of the function that closes a connection that was taken over; nil: there is none
}

// end may be called any number of times.
func (l *loan) end() {
	if l.stop != nil {
		l.stop()
	}
	l.End()
}

// explain adds to an error that the permit was lost, or its Client closed.
func (l *loan) explain(err error) error {
	ended := l.Ended()
	if err == nil || ended == nil || held.IsEnd(err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ended)
}
