package fairsemhttp

import (
	"cmp"
	"net/http"
)

// Handler returns a handler that calls next for the requests that limit lets through, and refuses the others; see the
// package. The limit must be nil if Options.LimitOf is set. The error is [fairsem.ErrInvalid].
//
// next gets the ResponseWriter of the server, except with HTTP/1 and a Semaphore or Mutex: then it gets one that holds the permit
// of a hijacked connection. It has Flush if that of the server has it, ReadFrom, and Unwrap for [http.ResponseController].
func Handler(next http.Handler, limit Limit, opts Options) (http.Handler, error) {
	if next == nil {
		return nil, invalid("Handler", "next is nil")
	}
	if err := check("Handler", limit, opts); err != nil {
		return nil, err
	}
	if err := checkPolicyName(opts.PolicyName); err != nil {
		return nil, err
	}
	return &handler{
		gate:   gate{who: "Handler", limit: limit, opts: opts, maxWait: cmp.Or(opts.MaxWait, defaultMaxWait), quotes: true},
		next:   next,
		policy: cmp.Or(opts.PolicyName, "default"),
	}, nil
}

type handler struct {
	gate
	next   http.Handler
	policy string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := new(exchange)
	e.scope.Begin(r.Context())
	defer e.finish()
	granted, err := h.enter(&e.scope, r)
	if err != nil {
		h.refuse(w, r, granted.limit, err)
		return
	}
	h.quote(w.Header(), granted)
	if granted.permit == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	e.permit, e.name = granted.permit, granted.limit.Name()
	h.next.ServeHTTP(e.wrap(w), r.WithContext(&e.scope))
}
