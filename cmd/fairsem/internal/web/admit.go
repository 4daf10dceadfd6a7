package web

import "net/http"

// Bounds on the requests that are answered at a time. Each kind has its own, so that exhausting one leaves the others.
const (
	maxPages   = 96
	maxStreams = 96
	maxScrapes = 32
)

// admit answers no more at a time than there is room for. /healthz is never refused: it is answered at once.
func (p *Page) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		quota := p.pages
		switch r.URL.Path {
		case "/healthz":
			next.ServeHTTP(w, r)
			return
		case "/metrics":
			quota = p.scrapes
		case "/stream", "/semaphore/stream":
			quota = p.streams
		}
		if !quota.acquire(r.RemoteAddr, 1) {
			tooMany(w)
			return
		}
		defer quota.release(r.RemoteAddr, 1)
		next.ServeHTTP(w, r)
	})
}

// tooMany refuses a request, and its connection.
func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	w.Header().Set("Connection", "close")
	http.Error(w, "too many requests are being answered", http.StatusServiceUnavailable)
}
