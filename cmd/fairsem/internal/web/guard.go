package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// policy lets the page use what it brings and nothing else: even a name that became markup could run no script,
// load nothing and send nothing anywhere.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guard is what every request has to pass.
func (p *Page) guard(next http.Handler) http.Handler {
	// Of what other pages have a browser send, only reading comes through.
	next = http.NewCrossOriginProtection().Handler(next)
	next = http.MaxBytesHandler(next, maxRequest)
	next = p.admit(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		// Not no-referrer: with that browsers send "Origin: null" with our own forms, which nobody can tell from
		// those of others where the address is not one that browsers trust. Other sites hear as little.
		h.Set("Referrer-Policy", "same-origin")
		if r.URL.Path != "/healthz" && !p.knownHost(r.Host) { // which tells nothing, and probes have names of their own
			http.Error(w, "this page has another name: start fairsem serve with --host to allow that one", http.StatusMisdirectedRequest)
			return
		}
		if crossSite(r) {
			http.Error(w, "other sites may not load this page", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign tells whether a page of another site has the browser ask. Following a link is not that: then people see where
// they go, and the other site sees nothing.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// knows tells whether a browser that asks for host means this page. A foreign page can have its own name lead here,
// and then counts as ours for the browser: so names must be known. With an address that cannot be done.
func (p *Page) knownHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	same := func(known string) bool { return strings.EqualFold(known, name) }
	return same("localhost") || slices.ContainsFunc(p.Hosts, same)
}
