package fairsemhttp

import (
	"cmp"
	"net/http"

	"github.com/fairsem/fairsem/internal/gate"
)

// Handler returns a handler that calls next for the requests that limit lets through, and refuses the others; see the
// package. The limit must be nil if Options.LimitOf is set. The error is [fairsem.ErrInvalid].
//
// next gets the ResponseWriter of the server, except with HTTP/1 and a Semaphore or Mutex: then it gets one that holds the permit
// of a hijacked connection. It has Flush if that of the server has it, ReadFrom, CloseNotify, and Unwrap for
// [http.ResponseController].
// An [http.MaxBytesReader] on it limits the body, but does not have the connection closed.
func Handler(next http.Handler, limit Limit, opts Options) (http.Handler, error) {
	if f, isFunc := next.(http.HandlerFunc); next == nil || isFunc && f == nil {
		return nil, gate.Invalid(handlerName, "next is nil")
	}
	if err := checkPolicyName(opts.PolicyName); err != nil {
		return nil, err
	}
	h := &handler{
		gate:      gateOf(handlerName, limit, opts),
		next:      next,
		onRefused: opts.OnRefused,
		policy:    cmp.Or(opts.PolicyName, "default"),
	}
	h.gate.MaxWait = cmp.Or(opts.MaxWait, gate.DefaultMaxWait)
	if err := h.gate.Check(); err != nil {
		return nil, err
	}
	return h, nil
}

const handlerName = "fairsemhttp.Handler" // in errors

type handler struct {
	gate      gate.Gate[*http.Request, Limit]
	next      http.Handler
	onRefused func(*http.Request, error) // nil: none
	policy    string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := new(exchange)
	e.scope.Begin(r.Context())
	defer e.finish()
	granted, err := h.gate.Enter(r.Context(), &e.scope, r)
	if err != nil {
		h.refuse(w, r, granted, err)
		return
	}
	h.quote(w.Header(), granted)
	if granted.Permit == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	e.permit, e.name = granted.Permit, granted.Limit.Name()
	inner := r.WithContext(&e.scope)
	defer func() { // also after a panic
		r.MultipartForm = inner.MultipartForm // net/http removes its files
		r.Pattern = inner.Pattern             // an http.ServeMux sets it for those around it, such as metrics of routes
	}()
	h.next.ServeHTTP(e.wrap(w), inner)
}
