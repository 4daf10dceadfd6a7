package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// policy lets the page use its own files and nothing else: even a name that became markup could run no script,
// load nothing and send nothing anywhere.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guard wraps next in the checks that every request has to pass.
func (p *Page) guard(next http.Handler) http.Handler {
	// Of the requests that other pages have a browser send, only reads pass.
	next = http.NewCrossOriginProtection().Handler(next)
	next = http.MaxBytesHandler(next, maxRequest)
	next = p.admit(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.ContentLength != 0 { // for the unread rest of a body the server would wait, beyond all quotas
			h.Set("Connection", "close")
			defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now()) }() // a writer without deadlines waits
		}
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		// Not no-referrer: with that browsers send "Origin: null" with our own forms, which then look like those of other
		// sites where browsers do not trust the address. Other sites receive no more than with it.
		h.Set("Referrer-Policy", "same-origin")
		if r.URL.Path != "/healthz" && !p.knownHost(r.Host) { // /healthz reveals nothing, and probes use names of their own
			http.Error(w, "this page has another name: start fairsem serve with --host to allow that one", http.StatusMisdirectedRequest)
			return
		}
		if strings.HasPrefix(r.URL.Path, "//") { // ServeMux redirects to the path that it means, which curl does not follow
			http.NotFound(w, r)
			return
		}
		if crossSite(r) {
			http.Error(w, "other sites may not load this page", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// changesNothing answers what only a page with a login does. Its address alone may be all that a script knows of this page.
func changesNothing(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "this fairsem serve changes nothing: start it with --allow-writes", http.StatusNotFound)
}

// crossSite reports whether a page of another site made the browser send the request, if the browser says so. Following a link does
// not count: then people see where they go, and the other site sees nothing.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "": // browsers send it with TLS or on loopback only. Not Referer: a link has one, too, and the other site can leave it out
		return foreign(r)
	case "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// foreign reports whether the request has the origin of another page. Scripts send it, but pictures and links do not.
func foreign(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	return origin != "" && (err != nil || u.Host != r.Host)
}

// knownHost reports whether host is a name of this page. A foreign page can make its own name resolve to this address,
// and the browser then takes this page for its own: so names must be known. That cannot be done with an address.
func (p *Page) knownHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	plain := func(name string) string { return strings.TrimSuffix(name, ".") } // a dot at the end makes it no other name
	same := func(known string) bool { return strings.EqualFold(plain(known), plain(name)) }
	return same("localhost") || slices.ContainsFunc(p.Hosts, same)
}
