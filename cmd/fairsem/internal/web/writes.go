package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/render"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// action is a requested change.
type action struct {
	verb, name, id string
	waits          bool // the id was that of a waiter when the question was asked
	limit          int64
}

// verb is one kind of action.
type verb struct {
	name, button string
	danger       bool
	ask          string
	did          func(action) string
	do           func(context.Context, *fairsem.Inspector, action) error
}

var verbs = []verb{
	{
		name: "evict", button: "Evict", danger: true,
		ask: "This revokes the permit, or removes the waiter from the queue. The units are free at once; " +
			"the holder may use them for a moment longer, until it is notified.",
		did: func(d action) string { return "Evicted " + shownID(d.id) + "." },
		do:  func(ctx context.Context, s *fairsem.Inspector, d action) error { return evict(ctx, s, d.id) },
	},
	{
		name: "resize", button: "Set the limit",
		ask: "This sets the limit for all callers, whatever processes declare, until it is reset. " +
			"No permit is revoked.",
		did: func(d action) string { return fmt.Sprintf("The limit is set to %d.", d.limit) },
		do:  func(ctx context.Context, s *fairsem.Inspector, d action) error { return s.SetLimit(ctx, d.limit) },
	},
	{
		name: "pause", button: "Pause", danger: true,
		ask: "This sets the limit to 0: nothing is granted until it is resumed, and all calls wait in the queue. " +
			"Holders keep their permits.",
		did: func(action) string { return "Paused." },
		do:  func(ctx context.Context, s *fairsem.Inspector, _ action) error { return s.SetLimit(ctx, 0) },
	},
	{
		name: "resume", button: "Reset the limit",
		ask: "This removes the limit that was set by hand: the limit that processes declare applies again.",
		did: func(action) string { return "The limit is what processes declare." },
		do:  func(ctx context.Context, s *fairsem.Inspector, _ action) error { return s.ResetLimit(ctx) },
	},
}

func (p *Page) writeRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { p.askToken(w, r, http.StatusOK, "") })
	mux.HandleFunc("POST /login", p.withForm(p.logIn))
	mux.HandleFunc("POST /logout", p.logOut)
	for _, v := range verbs {
		mux.HandleFunc("GET /act/"+v.name, func(w http.ResponseWriter, r *http.Request) { p.confirm(w, r, v) })
		mux.HandleFunc("POST /act/"+v.name, p.withForm(func(w http.ResponseWriter, r *http.Request) { p.act(w, r, v) }))
	}
}

// withForm calls next with a form that was read: FormValue takes one that cannot be read for an empty one.
func (p *Page) withForm(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := r.ParseForm()
		if err == nil {
			err = r.ParseMultipartForm(maxRequest)
		}
		if err == nil || errors.Is(err, http.ErrNotMultipart) {
			next(w, r)
			return
		}
		status, why := http.StatusBadRequest, fmt.Errorf("the form cannot be read: %w", err)
		if large := new(http.MaxBytesError); errors.As(err, &large) {
			status, why = http.StatusRequestEntityTooLarge, fmt.Errorf("the form has more than %d bytes", large.Limit)
		}
		if _, program := bearer(r); program {
			answerProgram(w, status, "error", why.Error())
			return
		}
		p.problem(w, r, status, sentence(why))
	}
}

// confirmation asks before anything is done.
type confirmation struct {
	Name, ID, Whose string
	Ask, Button     string
	Danger, Sized   bool
	Limit           string // in force; "" if it is not known
	Action, Back    string
	Seal            string
}

// confirm is a page with a form that makes one change.
func (p *Page) confirm(w http.ResponseWriter, r *http.Request, v verb) {
	s := p.login.session(r)
	if s == nil {
		http.Redirect(w, r, "/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return
	}
	d, err := p.read(r, v)
	if err != nil {
		p.problem(w, r, badStatus(err), sentence(err))
		return
	}
	f := p.frame(r, v.button)
	whose, waits := p.ticketOf(r, d)
	d.waits = d.waits || waits // the page that asks knows it, too: Redis may not answer now
	f.Content = confirmation{
		Name: title(d.name), ID: shownID(d.id), Whose: whose, Ask: v.ask, Button: v.button, Danger: v.danger,
		Action: d.path(), Back: link(d.name), Seal: s.seal(d),
		Sized: v.name == "resize", Limit: p.limitOf(r, d.name),
	}
	p.show(w, r, http.StatusOK, "confirm.html", f)
}

// limitOf is the limit in force, also of a name that is not polled; "" if it is not known, or the name is paused: 0 is refused.
func (p *Page) limitOf(r *http.Request, name string) string {
	now := p.sampler.latest()
	s := now.one(name)
	if _, polled := now.byName[name]; !polled {
		s = p.detail(r.Context(), now, r.RemoteAddr, name).Status
	}
	if !s.Exists || s.Limit == 0 {
		return ""
	}
	return strconv.FormatInt(s.Limit, 10)
}

// ticketOf is the label of the ticket that would be evicted, and whether it waits; "" if it cannot be found.
func (p *Page) ticketOf(r *http.Request, d action) (label string, waits bool) {
	if d.id == "" {
		return "", false
	}
	seen := p.detail(r.Context(), p.sampler.latest(), r.RemoteAddr, d.name)
	for i, t := range slices.Concat(seen.Holders, seen.Waiters) {
		if isNamed(t.ID, d.id) {
			return shown(render.Label(t)), i >= len(seen.Holders)
		}
	}
	return "", false
}

// path is where d is asked about, and where the form is sent. The name is not in a field of it: browsers make UTF-8 of fields.
func (d action) path() string {
	q := url.Values{"name": {d.name}}
	if d.id != "" {
		q.Set("id", d.id)
	}
	if d.waits {
		q.Set("waits", "1")
	}
	return "/act/" + d.verb + "?" + q.Encode()
}

// read reads an action from a request, and refuses one that can never work.
func (p *Page) read(r *http.Request, v verb) (action, error) {
	d := action{verb: v.name, name: r.FormValue("name")}
	if err := p.checkName(d.name); err != nil {
		return d, err
	}
	for _, field := range []string{"name", "id", "limit"} { // of the address and the body
		if len(r.Form[field]) > 1 {
			return d, errors.New(field + " is there more than once")
		}
	}
	switch {
	case v.name == "evict":
		if d.id = r.FormValue("id"); d.id == "" {
			return d, errors.New("id is missing: give the id to evict")
		}
		d.waits = r.FormValue("waits") != ""
	case v.name == "resize" && r.Method == http.MethodPost: // a question comes without one
		limit, err := change.ParseLimit(r.FormValue("limit"))
		switch {
		case err != nil:
			return d, fmt.Errorf("limit %w", err)
		case limit == 0:
			return d, errors.New("limit 0 would stop all grants: pause the name for that")
		}
		d.limit = limit
	}
	return d, nil
}

// act makes the change of a confirmed form, or of a program that knows the token.
func (p *Page) act(w http.ResponseWriter, r *http.Request, v verb) {
	if token, program := bearer(r); program {
		p.actForProgram(w, r, v, token)
		return
	}
	d, err := p.read(r, v)
	s := p.login.session(r)
	switch {
	case s == nil:
		p.problem(w, r, http.StatusForbidden, "You are not logged in.")
		return
	case err != nil:
		p.problem(w, r, badStatus(err), sentence(err))
		return
	case !s.sealed(d, r.PostFormValue("seal")):
		p.problem(w, r, http.StatusForbidden, "This form is from another session. Go back, reload the page and try again.")
		return
	}
	if err := p.do(r, v, d, s.label()); err != nil {
		p.problem(w, r, statusOf(err), sentence(err))
		return
	}
	p.login.setNotice(s, title(d.name)+": "+v.did(d)) // the next page may be that of another name
	http.Redirect(w, r, link(d.name), http.StatusSeeOther)
}

// bearer returns the token that a program sends with its request.
func bearer(r *http.Request) (token string, program bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, ok && strings.EqualFold(scheme, "Bearer")
}

// actForProgram answers in JSON.
func (p *Page) actForProgram(w http.ResponseWriter, r *http.Request, v verb, token string) {
	err := p.checkToken(r, token)
	var d action
	if err == nil {
		d, err = p.read(r, v)
		if err != nil && !errors.Is(err, errNotShown) {
			err = fmt.Errorf("%w: %w", fairsem.ErrInvalid, err)
		}
	}
	if err == nil {
		err = p.do(r, v, d, "token")
	}
	if err != nil {
		answerProgram(w, statusOf(err), "error", strings.TrimPrefix(err.Error(), "fairsem: "))
		return
	}
	answerProgram(w, http.StatusOK, "did", v.name)
}

func answerProgram(w http.ResponseWriter, status int, key, value string) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{key: value}) // the client is gone
}

var errNoName = errors.New("there is no semaphore of that name")

// do makes the change and logs it, whatever the result.
func (p *Page) do(r *http.Request, v verb, d action, who string) error {
	err := p.try(r.Context(), v, d)
	p.details.expire(r.RemoteAddr, d.name) // whatever the result: it may be done all the same
	outcome := "done"
	switch {
	case errors.Is(err, change.ErrUncertain):
		outcome = shown(err.Error())
	case err != nil:
		outcome = "not done: " + shown(err.Error())
	}
	p.journal.Printf("%s by %s from %s: %s", d, who, origin(r), outcome)
	return err
}

// try does it, if there is such a name: a limit that is pinned to a name by mistake would stay for ever.
func (p *Page) try(ctx context.Context, v verb, d action) error {
	ctx, cancel := context.WithTimeout(ctx, p.pollTimeout())
	defer cancel()
	inspector := p.Client.Inspect(d.name)
	status, err := inspector.Status(ctx)
	if err != nil {
		return err
	}
	if !status.Exists {
		return errNoName
	}
	if d.waits {
		if d.id, err = wholeID(ctx, inspector, d.id); err != nil {
			return err
		}
		if err := change.StillWait(ctx, inspector, []fairsem.Ticket{{ID: d.id, Label: d.id}}); err != nil {
			return err
		}
		return change.Outcome(inspector.Evict(ctx, d.id)) // no other, as a holder may have come to light by now
	}
	return change.Outcome(v.do(ctx, inspector, d))
}

// evict evicts by the whole id, or else by the id as the page shows it, of which only programs make use.
func evict(ctx context.Context, s *fairsem.Inspector, given string) error {
	err := s.Evict(ctx, given)
	if !errors.Is(err, fairsem.ErrNotFound) {
		return err
	}
	id, unread := wholeID(ctx, s, given)
	if unread != nil || id == given {
		return cmp.Or(unread, err)
	}
	return s.Evict(ctx, id)
}

// wholeID is the id of the holder or waiter that is given by its id or as the page shows that; given if there is none.
func wholeID(ctx context.Context, s *fairsem.Inspector, given string) (string, error) {
	for _, tickets := range []iter.Seq2[fairsem.Ticket, error]{s.Holders(ctx), s.Waiters(ctx)} {
		for t, err := range tickets {
			if err != nil {
				return "", err
			}
			if isNamed(t.ID, given) {
				return t.ID, nil
			}
		}
	}
	return given, nil
}

// isNamed reports whether given is id, or how the page shows it.
func isNamed(id, given string) bool {
	return given == id || given == inspect.PlainID(id) || given == text.Distinct(id)
}

// shownID is an id on the page; "" if there is none.
func shownID(id string) string {
	if id == "" {
		return ""
	}
	return shown(text.Word(inspect.PlainID(id)))
}

// statusOf is the HTTP status for an error of a change.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errTooOften):
		return http.StatusTooManyRequests
	case errors.Is(err, errWrongToken):
		return http.StatusUnauthorized
	case errors.Is(err, fairsem.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, change.ErrDeclined):
		return http.StatusConflict
	case errors.Is(err, fairsem.ErrNotFound), errors.Is(err, errNoName), errors.Is(err, errNotShown):
		return http.StatusNotFound
	}
	return http.StatusServiceUnavailable
}

// sentence is an error as people read it. It may quote a name.
func sentence(err error) string {
	s := shown(strings.TrimPrefix(err.Error(), "fairsem: "))
	if errors.Is(err, fairsem.ErrNotFound) {
		s = "it is gone"
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
