package fairsemhttp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/gate"
)

// problem is an application/problem+json: RFC 9457. The types are those of draft-ietf-httpapi-ratelimit-headers-11.
type problem struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Violated []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// refuse answers a request that was not let through. The response has no part of the request, and no name of a limit.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, g gate.Grant[Limit], err error) {
	if h.onRefused != nil {
		h.onRefused(r, err)
	}
	limiter, rate := g.Limit.(*fairsem.Limiter)
	p, retry := h.problem(rate, err), gate.RetryAfter(r.Context(), g.Limit, err)
	if rate && p.Violated != nil {
		h.quoteLimit(w.Header(), limiter)
		h.quoteRest(w.Header(), g.Remaining, retry)
	}
	if retry > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(seconds(retry), 10))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that is gone needs no answer
}

// problem returns the response to a refused request.
func (h *handler) problem(rate bool, err error) problem {
	switch gate.VerdictOf(err) {
	case gate.Busy:
		if rate {
			return problem{Type: problemTypes + "quota-exceeded", Title: "A rate limit is exceeded", Status: http.StatusTooManyRequests, Violated: []string{h.policy}}
		}
		return problem{
			Type: problemTypes + "temporary-reduced-capacity", Title: "All units of a limit are in use",
			Status: http.StatusServiceUnavailable, Violated: []string{h.policy},
		}
	case gate.TooHeavy: // neither type of problem: waiting does not help
		p := problem{Title: "The request weighs more than a limit", Status: http.StatusServiceUnavailable, Violated: []string{h.policy}}
		if rate {
			p.Status = http.StatusTooManyRequests
		}
		return p
	case gate.Closing:
		return problem{Title: "The server is shutting down", Status: http.StatusServiceUnavailable}
	case gate.Unavailable:
		return problem{Title: "A limit cannot be checked", Status: http.StatusServiceUnavailable}
	}
	return problem{Title: http.StatusText(http.StatusInternalServerError), Status: http.StatusInternalServerError}
}

// quote sets the fields of a request that a Limiter has let through.
func (h *handler) quote(header http.Header, g gate.Grant[Limit]) {
	limiter, rate := g.Limit.(*fairsem.Limiter)
	if !rate || g.Remaining < 0 {
		return
	}
	_, per := limiter.Declared()
	h.quoteLimit(header, limiter)
	h.quoteRest(header, g.Remaining, per)
}

// quoteRest sets the field that says how many units are left for how long, if that is known.
func (h *handler) quoteRest(header http.Header, remaining int64, d time.Duration) {
	if remaining >= 0 {
		header.Add("RateLimit", h.item("r", remaining, "t", seconds(d)))
	}
}

func (h *handler) quoteLimit(header http.Header, limiter *fairsem.Limiter) {
	limit, per := limiter.Declared()
	window := seconds(per)
	if per%time.Second != 0 { // the field cannot say it
		window = 0
	}
	header.Add("RateLimit-Policy", h.item("q", limit, "w", window))
}

// item returns an item of a structured field. The second parameter is left out if it is 0.
func (h *handler) item(key string, value int64, second string, optional int64) string {
	text := make([]byte, 0, 64)
	text = append(text, '"')
	text = append(text, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(h.policy)...)
	text = append(append(append(text, `";`...), key...), '=')
	text = strconv.AppendInt(text, min(value, maxInteger), 10)
	if optional > 0 {
		text = append(append(append(text, ';'), second...), '=')
		text = strconv.AppendInt(text, optional, 10)
	}
	return string(text)
}

const maxInteger = 999_999_999_999_999 // of a structured field

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
