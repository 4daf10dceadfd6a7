package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	sessionLimit = 8 * time.Hour
	mostSessions = 100
	mostTries    = 10 // wrong tokens that are answered and logged as such, and then one every triesEvery
	triesEvery   = 6 * time.Second
	dropsEvery   = time.Minute // between two reports of wrong tokens that are not logged
)

var (
	errWrongToken = errors.New("that is not the token")
	errTooOften   = errors.New("too many wrong tokens: wait a minute")
)

// login keeps the sessions that have sent the token and may change something.
type login struct {
	token [sha256.Size]byte // so that a comparison takes as long for any

	tries *rates // wrong tokens
	drops *rates // reports of more of them

	mu       sync.Mutex
	sessions map[string]*session // by id; guarded by mu
}

// session is a browser that has sent the token.
type session struct {
	id     string
	secret []byte // makes the forms of this session
	until  time.Time
	notice string // for the next page; guarded by login.mu
}

func newLogin(token string) *login {
	return &login{
		token:    sha256.Sum256([]byte(token)),
		tries:    newRates(triesEvery, mostTries),
		drops:    newRates(dropsEvery, 1),
		sessions: make(map[string]*session),
	}
}

// check compares a token that came from an address. The right token is accepted whatever came before: behind a proxy all
// clients have one address, and one that guesses must not lock out the others. The length of the token protects it from
// being guessed.
func (l *login) check(from, token string) error {
	sum := sha256.Sum256([]byte(token))
	switch {
	case subtle.ConstantTimeCompare(sum[:], l.token[:]) == 1:
		return nil
	case l.tries.of(from).Allow():
		return errWrongToken
	}
	return errTooOften
}

// open makes a session. Where there are too many the oldest ends.
func (l *login) open(now time.Time) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &session{id: rand.Text(), secret: []byte(rand.Text()), until: now.Add(sessionLimit)}
	l.sessions[s.id] = s
	oldest := s
	for _, other := range l.sessions {
		if now.After(other.until) {
			delete(l.sessions, other.id)
		} else if other.until.Before(oldest.until) {
			oldest = other
		}
	}
	if len(l.sessions) > mostSessions {
		delete(l.sessions, oldest.id)
	}
	return s
}

// session is that of the browser that asks, or nil.
func (l *login) session(r *http.Request) *session {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[cookie.Value]
	if s == nil || time.Now().After(s.until) {
		return nil
	}
	return s
}

func (l *login) close(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s.id)
}

// setNotice leaves a notice for the next page of the session.
func (l *login) setNotice(s *session, notice string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.notice = notice
}

// notice takes the notice of a session. A nil session has none.
func (l *login) notice(s *session) (notice string) {
	if s == nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	notice, s.notice = s.notice, ""
	return notice
}

// seal authenticates a form of this session for one action. A limit is filled in later.
func (s *session) seal(d action) string {
	mac := hmac.New(sha256.New, s.secret)
	_, _ = fmt.Fprintf(mac, "%q %t", []string{d.verb, d.name, d.id}, d.waits) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil))
}

func (s *session) sealed(d action, seal string) bool {
	return hmac.Equal([]byte(s.seal(d)), []byte(seal))
}

func (p *Page) askToken(w http.ResponseWriter, r *http.Request, status int, problem string) {
	f := p.frame(r, "Log in")
	f.Again = returnPath(r)
	f.Content = problem
	p.show(w, r, status, "login.html", f)
}

// logIn takes the token once. From then on the browser has a cookie, which is worth nothing anywhere else, later
// than sessionLimit, or to a script.
func (p *Page) logIn(w http.ResponseWriter, r *http.Request) {
	switch err := p.checkToken(r, r.PostFormValue("token")); {
	case errors.Is(err, errTooOften):
		p.askToken(w, r, http.StatusTooManyRequests, "Too many wrong tokens. Wait a minute.")
		return
	case err != nil:
		p.askToken(w, r, http.StatusForbidden, "That is not the token.")
		return
	}
	s := p.login.open(time.Now())
	p.journal.Printf("login of %s from %s", s.label(), origin(r))
	http.SetCookie(w, cookie(r, s.id, int(sessionLimit/time.Second)))
	http.Redirect(w, r, returnPath(r), http.StatusSeeOther)
}

func (p *Page) logOut(w http.ResponseWriter, r *http.Request) {
	if s := p.login.session(r); s != nil {
		p.login.close(s)
	}
	http.SetCookie(w, cookie(r, "", -1))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// cookieName has the port in it: a browser sends a cookie to every port of a host, so that the pages of two servers
// would log each other's people out.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host) // there may be none
	return strings.TrimSuffix("fairsem_session_"+port, "_")
}

func cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
}

// returnPath is the path to open after a login: always a page of this server, even if a link names another.
func returnPath(r *http.Request) string {
	u, err := url.Parse(r.FormValue("next"))
	if err != nil || !isOwnPath(u) || u.Path == "/login" {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

// isOwnPath reports whether a browser stays on this server with u.
func isOwnPath(u *url.URL) bool {
	return u.Scheme == "" && u.Host == "" && u.Opaque == "" && strings.HasPrefix(u.Path, "/") && !strings.HasPrefix(u.Path, "//")
}
