package web

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/transcript"
)

// logIn returns the header with the cookie of a new session.
func (s *served) logIn() []string {
	s.t.Helper()
	answer := s.ask(http.MethodPost, "/login", url.Values{"token": {testToken}}.Encode())
	require.Equal(s.t, http.StatusSeeOther, answer.StatusCode)
	cookie := answer.Cookies()[0]
	return []string{"Cookie", cookie.Name + "=" + cookie.Value}
}

// form finds where the form of a page is sent, and its seal.
func form(t *testing.T, body string) (action, seal string) {
	t.Helper()
	found := regexp.MustCompile(`action="(/act/[^"]*)"><input type="hidden" name="seal" value="([0-9a-f]+)"`).FindStringSubmatch(body)
	require.NotNil(t, found, body)
	return html.UnescapeString(found[1]), found[2]
}

// perform asks for the confirmation and confirms it.
func (s *served) perform(cookie []string, path string, fields ...string) answer {
	s.t.Helper()
	question := s.get(path, cookie...)
	require.Equal(s.t, http.StatusOK, question.StatusCode)
	action, seal := form(s.t, question.body)
	return s.ask(http.MethodPost, action, "seal="+seal+"&"+strings.Join(fields, "&"), cookie...)
}

func TestWithoutATokenNothingCanBeChanged(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("gate", 1)
	for _, path := range []string{"/login", "/logout", "/act/evict", "/act/resize", "/act/pause", "/act/resume"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			answer := s.ask(method, path+"?name=gate&limit=7", "", "Authorization", "Bearer ")
			assert.Equal(t, http.StatusNotFound, answer.StatusCode, "%s %s", method, path)
			assert.Equal(t, "this fairsem serve changes nothing: start it with --allow-writes\n", answer.body, "%s %s", method, path)
		}
	}
	for _, path := range []string{"/", "/semaphore?name=gate", "/stream", "/metrics"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			assert.Equal(t, http.StatusMethodNotAllowed, s.ask(method, path, "").StatusCode, "%s %s", method, path)
		}
	}
	assert.NotContains(t, s.get("/").body, "Log in")
	assert.EqualValues(t, 1, s.status("gate").Limit)
}

func TestWithoutALoginNothingCanBeChanged(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	s.hold("gate", 1)
	s.seen(1)
	assert.NotContains(t, s.get("/semaphore?name=gate").body, "/act/")
	answer := s.get("/act/pause?name=gate")
	assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
	assert.Equal(t, "/login?next=%2Fact%2Fpause%3Fname%3Dgate", answer.Header.Get("Location"))
	name := cookieName(answer.Request)
	for _, refused := range []struct {
		status    int
		challenge string // how a program may log in
		headers   []string
	}{
		{http.StatusForbidden, "", nil},
		{http.StatusForbidden, "", []string{"Cookie", name + "="}},
		{http.StatusForbidden, "", []string{"Cookie", name + "=" + testToken}},
		{http.StatusForbidden, "", []string{"Authorization", "Basic " + testToken}},
		{http.StatusForbidden, "", []string{"Authorization", "Bearer "}},
		{http.StatusUnauthorized, "Bearer", []string{"Authorization", "Bearer " + testToken[1:]}},
	} {
		answer := s.ask(http.MethodPost, "/act/pause?name=gate", "token="+url.QueryEscape(testToken), refused.headers...)
		assert.Equal(t, refused.status, answer.StatusCode, refused.headers)
		assert.Equal(t, refused.challenge, answer.Header.Get("WWW-Authenticate"), refused.headers)
	}
	assert.False(t, s.status("gate").Pinned)
}

func TestALoginIsACookieThatIsWorthNothingElsewhere(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	answer := s.ask(http.MethodPost, "/login", url.Values{"token": {testToken}, "next": {"/semaphore?name=%FF"}}.Encode())
	assert.Equal(t, "/semaphore?name=%FF", answer.Header.Get("Location"))
	cookie := answer.Cookies()[0]
	assert.True(t, cookie.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	assert.Equal(t, "/", cookie.Path)
	assert.False(t, cookie.Secure, "it would not come back without TLS")
	assert.GreaterOrEqual(t, len(cookie.Value), 26)
	assert.NotContains(t, cookie.Value, testToken)
	assert.NotContains(t, answer.body, testToken)

	answer = s.ask(http.MethodPost, "/login", url.Values{"token": {testToken}}.Encode(), "X-Forwarded-Proto", "https")
	assert.True(t, answer.Cookies()[0].Secure)

	again := []string{"Cookie", cookie.Name + "=" + cookie.Value}
	assert.Contains(t, s.get("/", again...).body, "Log out")
	s.ask(http.MethodPost, "/logout", "", again...)
	assert.NotContains(t, s.get("/", again...).body, "Log out", "the session is over, not only the cookie")
}

func TestAPictureForASessionHasNoButtonsAfterItsEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	s.hold("gate", 2)
	session := s.logIn()
	lines := s.watch("/semaphore/stream?name=gate", session...)
	await(t, lines, "/act/evict?")
	s.ask(http.MethodPost, "/logout", "", session...)
	s.hold("gate", 2)
	await(t, lines, `2<span class="of"> / 2</span>`)
	for ; lines.Text() != ""; lines.Scan() {
		assert.NotContains(t, lines.Text(), "/act/")
	}
}

// A browser sends the cookies of a host to all its ports.
func TestPagesOnOneHostDoNotLogEachOtherOut(t *testing.T) {
	t.Parallel()
	staging, production := serve(t, writable), serve(t, writable)
	token := url.Values{"token": {testToken}}.Encode()
	one := staging.ask(http.MethodPost, "/login", token).Cookies()[0]
	other := production.ask(http.MethodPost, "/login", token).Cookies()[0]
	assert.NotEqual(t, one.Name, other.Name)

	behindProxy := production.ask(http.MethodPost, "/login", token, "Host", "localhost").Cookies()[0]
	assert.Equal(t, "fairsem_session", behindProxy.Name)
	assert.Contains(t, production.get("/", "Host", "localhost", "Cookie", behindProxy.Name+"="+behindProxy.Value).body, "Log out")
}

func TestALoginLeadsToNoOtherSite(t *testing.T) {
	t.Parallel()
	for next, to := range map[string]string{
		"/semaphore?name=a%26b":  "/semaphore?name=a%26b",
		"":                       "/",
		"/login":                 "/",
		"//evil.example":         "/",
		"https://evil.example":   "/",
		"javascript:alert(1)":    "/",
		"/\\evil.example":        "/%5Cevil.example",
		"/\t/evil.example":       "/",
		"relative":               "/",
		"https:///evil.example":  "/",
		"///evil.example/":       "/",
		"/%2F/evil.example":      "/",
		"/ok#//evil.example":     "/ok",
		"/.//evil.example":       "/.//evil.example",
		"http:evil.example":      "/",
		"\x00//evil.example":     "/",
		"/login?next=/act/evict": "/",
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/login?"+url.Values{"next": {next}}.Encode(), nil)
		require.NoError(t, err)
		assert.Equal(t, to, returnPath(r), "%q", next)
	}
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	l := newLogin(testToken)
	first := l.open(noon)
	for i := range mostSessions {
		l.open(noon.Add(time.Duration(i+1) * time.Minute))
	}
	assert.Len(t, l.sessions, mostSessions)
	assert.NotContains(t, l.sessions, first.id, "the oldest had to go")
	l.open(noon.Add(2 * sessionLimit))
	assert.Len(t, l.sessions, 1)

	old := l.open(time.Now().Add(-sessionLimit - time.Second))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	require.NoError(t, err)
	r.AddCookie(&http.Cookie{Name: cookieName(r), Value: old.id})
	assert.Nil(t, l.session(r))
}

func TestATokenCannotBeGuessed(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	s.hold("gate", 1)
	cookie := s.logIn()
	wrong := func() int { return s.ask(http.MethodPost, "/login", "token=wrong").StatusCode }
	assert.Equal(t, http.StatusForbidden, wrong())
	require.Eventually(t, func() bool { return wrong() == http.StatusTooManyRequests }, soon, time.Millisecond)
	other := s.ask(http.MethodPost, "/login", "token=wrong", "X-Forwarded-For", "192.0.2.1", "Forwarded", "for=192.0.2.1")
	assert.Equal(t, http.StatusTooManyRequests, other.StatusCode, "anybody can write such a header")
	assert.Equal(t, http.StatusSeeOther, s.perform(cookie, "/act/pause?name=gate").StatusCode, "who is logged in is not hindered")
}

// Ten wrong tokens used to lock out users with the right one; behind a proxy, all of them.
func TestWrongTokensDoNotLockOutTheRightOne(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	s.hold("gate", 1)
	for range 2 * mostTries {
		s.ask(http.MethodPost, "/login", "token=wrong")
	}
	s.logIn()
	right := s.ask(http.MethodPost, "/act/pause", "name=gate", "Authorization", "Bearer "+testToken)
	assert.Equal(t, http.StatusOK, right.StatusCode)
}

func TestChangesAndAttemptsAreLogged(t *testing.T) {
	t.Parallel()
	log := &transcript.Transcript{}
	s := serve(t, writable, logged(log))
	s.hold("gate", 1)
	s.perform(s.logIn(), "/act/pause?name=gate")
	s.ask(http.MethodPost, "/act/resize", "name=gate&limit=5", "Authorization", "Bearer "+testToken, "X-Forwarded-For", "192.0.2.7")
	s.ask(http.MethodPost, "/act/evict", "name=gate&id=no\u202Ebody", "Authorization", "Bearer "+testToken)
	for range 3 * mostTries {
		s.ask(http.MethodPost, "/act/pause", "name=gate", "Authorization", "Bearer wrong-"+testToken)
	}
	text := log.String()
	assert.Regexp(t, `(?m)^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d fairsem: login of session [0-9a-f]{8} from 127\.0\.0\.1:\d+$`, text)
	assert.Regexp(t, `(?m) fairsem: pause "gate" by session [0-9a-f]{8} from 127\.0\.0\.1:\d+: done$`, text)
	assert.Regexp(t, `(?m) fairsem: resize "gate" to 5 by token from 127\.0\.0\.1:\d+ \(X-Forwarded-For: "[^"]*192\.0\.2\.7[^"]*"\): done$`, text)
	assert.Regexp(t, `(?m) fairsem: evict "[^"]+" of "gate" by token from 127\.0\.0\.1:\d+: not done: `, text)
	assert.Regexp(t, `(?m) fairsem: wrong token from 127\.0\.0\.1:\d+$`, text)
	assert.Less(t, strings.Count(text, " wrong token from"), 2*mostTries, "who guesses fills no disk")
	assert.Equal(t, 1, strings.Count(text, "fairsem: more wrong tokens from 127.0.0.1:"), "it read as if there were no more")
	assert.NotContains(t, text, testToken)
	assert.NotContains(t, text, "\u202E")
}

// The change log said "not done" of a limit that was in force: only the answer was lost.
func TestAChangeWithoutAnAnswerIsNotLoggedAsNotDone(t *testing.T) {
	t.Parallel()
	log := &transcript.Transcript{}
	s := serve(t, writable, logged(log))
	s.hold("gate", 1)
	silent := verb{name: "resize", do: func(context.Context, *fairsem.Inspector, action) error { return fairsem.ErrUnavailable }}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/act/resize", nil)
	err := s.page.do(r, silent, action{verb: "resize", name: "gate", limit: 5}, "token")
	require.ErrorIs(t, err, change.ErrUncertain)
	assert.Equal(t, http.StatusServiceUnavailable, statusOf(err))
	assert.Contains(t, log.String(), `resize "gate" to 5 by token from 192.0.2.1:1234: the change may have been made all the same`)
	assert.NotContains(t, log.String(), "not done")
}

// RFC 9110: the names of schemes are not case-sensitive.
func TestTheSchemeOfATokenMayBeWrittenInAnyCase(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	s.hold("gate", 1)
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		assert.Equal(t, http.StatusOK, s.ask(http.MethodPost, "/act/pause", "name=gate", "Authorization", scheme+" "+testToken).StatusCode, scheme)
	}
	assert.Equal(t, http.StatusForbidden, s.ask(http.MethodPost, "/act/pause", "name=gate", "Authorization", "Basic "+testToken).StatusCode)
}

func TestGuessingDoesNotDelayOtherLogins(t *testing.T) {
	t.Parallel()
	l := newLogin(testToken)
	guess := func(from string) {
		t.Helper()
		for range mostTries {
			require.ErrorIs(t, l.check(from, "wrong"), errWrongToken)
		}
	}
	guess("192.0.2.1:1")
	require.ErrorIs(t, l.check("192.0.2.1:2", "wrong"), errTooOften, "another port is the same machine")
	require.ErrorIs(t, l.check("[::ffff:192.0.2.1]:2", "wrong"), errTooOften, "and so is the other way to write it")
	free := 0
	for i := range 255 {
		if errors.Is(l.check(fmt.Sprintf("198.51.100.%d:1", i), "wrong"), errWrongToken) {
			free++
		}
	}
	assert.Greater(t, free, 200) // by chance one or the other has the same limit
	l.tries = newRates(triesEvery, mostTries)
	guess("[2001:db8::1]:1")
	require.ErrorIs(t, l.check("[2001:db8::2]:1", "wrong"), errTooOften, "one machine has them all")
}

func TestTheRightTokenCanBeUsedAnyNumberOfTimes(t *testing.T) {
	t.Parallel()
	l := newLogin(testToken)
	for range 100 {
		require.NoError(t, l.check("192.0.2.1:1", testToken))
	}
	require.ErrorIs(t, l.check("192.0.2.1:1", testToken+" "), errWrongToken)
}

func TestAFormMakesItsChange(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	name := "gate \xff<b>&"
	permit := s.hold(name, 2)
	s.seen(1)
	cookie := s.logIn()
	page := s.get("/semaphore?"+named(name), cookie...).body
	for _, verb := range []string{"resize", "pause", "evict"} {
		assert.Contains(t, page, "/act/"+verb)
	}

	answer := s.perform(cookie, "/act/resize?"+named(name), "limit=7")
	assert.Equal(t, "/semaphore?"+named(name), answer.Header.Get("Location"))
	assert.EqualValues(t, 7, s.status(name).Limit)
	assert.Contains(t, s.get("/semaphore?name=another", cookie...).body, html.EscapeString(title(name))+": The limit is set to 7.", "as another tab may show it")
	assert.NotContains(t, s.get(answer.Header.Get("Location"), cookie...).body, "set to 7.", "it is shown once")

	s.perform(cookie, "/act/pause?"+named(name))
	assert.EqualValues(t, 0, s.status(name).Limit)
	s.perform(cookie, "/act/resume?"+named(name))
	assert.False(t, s.status(name).Pinned)
	assert.EqualValues(t, 2, s.status(name).Limit)

	evict := "/act/evict?" + named(name) + "&id=" + url.QueryEscape(permit.ID())
	assert.Contains(t, s.get(evict, cookie...).body, "host:1", "it says whom")
	assert.Equal(t, http.StatusSeeOther, s.perform(cookie, evict).StatusCode)
	<-permit.Context().Done()
	require.ErrorIs(t, context.Cause(permit.Context()), fairsem.ErrEvicted)
	assert.Equal(t, http.StatusNotFound, s.perform(cookie, evict).StatusCode, "it is gone")
}

// The question may stand for long, and the work of a new holder would be interrupted.
func TestAWaiterThatWasGrantedItsPermitBeforeTheYesIsNotEvicted(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	first := s.hold("gate", 1)
	sem, err := s.client.Semaphore("gate", 1)
	require.NoError(t, err)
	granted := make(chan *fairsem.Permit, 1)
	go func() { // ends with its grant
		p, err := sem.Acquire(t.Context(), 1)
		assert.NoError(t, err)
		granted <- p
	}()
	var waiter string
	require.Eventually(t, func() bool {
		for w, err := range sem.Waiters(t.Context()) {
			waiter = w.ID
			assert.NoError(t, err)
		}
		return waiter != ""
	}, time.Minute, time.Millisecond)
	cookie := s.logIn()
	page := s.get("/semaphore?name=gate", cookie...).body
	asked := url.Values{"name": {"gate"}, "id": {waiter}, "waits": {"1"}}.Encode()
	action, seal := form(t, s.get("/act/evict?name=gate&id="+url.QueryEscape(waiter), cookie...).body)
	require.NoError(t, first.Release(t.Context()))
	p := <-granted
	answer := s.ask(http.MethodPost, action, "seal="+seal, cookie...)
	assert.Equal(t, http.StatusConflict, answer.StatusCode)
	assert.Contains(t, answer.body, "was granted its permit meanwhile")

	// A question that Redis did not answer says no more of the ticket than one about a ticket that waits no longer.
	assert.Contains(t, page, "/act/evict?"+html.EscapeString(asked))
	action, seal = form(t, s.get("/act/evict?"+asked, cookie...).body)
	assert.Equal(t, http.StatusConflict, s.ask(http.MethodPost, action, "seal="+seal, cookie...).StatusCode)
	require.NoError(t, p.Context().Err())
	assert.Equal(t, http.StatusForbidden, s.ask(http.MethodPost, strings.Replace(action, "waits=1", "", 1), "seal="+seal, cookie...).StatusCode)
	require.NoError(t, p.Release(t.Context()))
}

// With a poll a minute the page showed the state before the change, beside the notice of it.
func TestAfterAChangeThePageShowsItWithoutAPoll(t *testing.T) {
	t.Parallel()
	s := serve(t, writable, seldom)
	s.seen(0)
	permit := s.hold("gate", 3)
	cookie := s.logIn()
	before := s.get("/semaphore?name=gate", cookie...).body
	require.Contains(t, before, `1<span class="of"> / 3</span>`)
	assert.Contains(t, s.get("/act/resize?name=gate", cookie...).body, `name="limit" min="1" step="1" value="3"`)
	assert.Contains(t, s.get("/act/resize?name=nobody", cookie...).body, `name="limit" min="1" step="1" value=""`)
	answer := s.perform(cookie, "/act/resize?name=gate", "limit=7")
	assert.Contains(t, s.get(answer.Header.Get("Location"), cookie...).body, `1<span class="of"> / 7</span>`)
	s.ask(http.MethodPost, "/act/resize", "name=gate&limit=8", "Authorization", "Bearer "+testToken)
	assert.Contains(t, s.get("/semaphore?name=gate").body, `1<span class="of"> / 8</span>`)
	s.perform(cookie, "/act/evict?name=gate&id="+url.QueryEscape(permit.ID()))
	assert.Contains(t, s.get("/semaphore?name=gate", cookie...).body, "No holders.")
}

// A query that began before a change may end after it.
func TestAnAnswerFromBeforeAChangeIsNotAsGoodAsNew(t *testing.T) {
	t.Parallel()
	ends := make(chan chan struct{})
	d := newDetails(soon, soon, func(context.Context, string) (inspect.Detail, error) {
		end := make(chan struct{})
		ends <- end
		<-end
		return inspect.Detail{Status: fairsem.Status{At: noon}}, nil
	})
	ask := func() (finish func()) {
		var asking sync.WaitGroup
		asking.Go(func() { // ends when the query does; waited for by finish
			_, err := d.get(context.Background(), here, "a")
			assert.NoError(t, err)
		})
		end := <-ends
		return func() {
			close(end)
			asking.Wait()
		}
	}
	before := ask()
	d.expire(here, "a")
	after := ask() // it does not share the query before
	before()
	last, fresh := d.kept("a")
	assert.False(t, last.at.IsZero(), "for an outage")
	assert.False(t, fresh)
	after()
	_, fresh = d.kept("a")
	assert.True(t, fresh)
}

func TestAFormIsOfOneSessionAndForOneDeed(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	s.hold("gate", 1)
	s.hold("other", 1)
	mine, theirs := s.logIn(), s.logIn()
	_, seal := form(t, s.get("/act/pause?name=gate", mine...).body)
	for path, cookie := range map[string][]string{
		"/act/pause?name=gate":          theirs,
		"/act/pause?name=other":         mine,
		"/act/resume?name=gate":         mine,
		"/act/evict?name=gate&id=x":     mine,
		"/act/resize?name=gate&limit=1": mine,
	} {
		assert.Equal(t, http.StatusForbidden, s.ask(http.MethodPost, path, "seal="+seal, cookie...).StatusCode, path)
	}
	assert.Equal(t, http.StatusForbidden, s.ask(http.MethodPost, "/act/pause?name=gate", "", mine...).StatusCode)
	assert.Equal(t, http.StatusForbidden, s.ask(http.MethodPost, "/act/pause?name=gate&seal="+seal, "", mine...).StatusCode, "a link is no form")
	assert.False(t, s.status("gate").Pinned)
	assert.False(t, s.status("other").Pinned)
}

func TestAnotherPageCannotHaveTheBrowserDoAnything(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	s.hold("gate", 1)
	cookie := s.logIn()
	action, seal := form(t, s.get("/act/pause?name=gate", cookie...).body)
	for _, sent := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "http://evil.example"},
		{"Origin", "null"},
		{"Origin", "http://127.0.0.1:1"},
	} {
		// Even with all that it can never have.
		answer := s.ask(http.MethodPost, action, "seal="+seal, append(sent, cookie...)...)
		assert.Equal(t, http.StatusForbidden, answer.StatusCode, sent)
		answer = s.ask(http.MethodPost, "/act/pause", "name=gate", append(sent, "Authorization", "Bearer "+testToken)...)
		assert.Equal(t, http.StatusForbidden, answer.StatusCode, sent)
		answer = s.ask(http.MethodPost, "/login", url.Values{"token": {testToken}}.Encode(), sent...)
		assert.Equal(t, http.StatusForbidden, answer.StatusCode, sent)
	}
	assert.False(t, s.status("gate").Pinned)
	assert.Equal(t, http.StatusSeeOther, s.ask(http.MethodPost, action, "seal="+seal, append([]string{"Origin", s.url}, cookie...)...).StatusCode)
}

func TestAProgramNeedsTheTokenOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	permit := s.hold("gate", 2)
	do := func(verb, fields string) answer {
		return s.ask(http.MethodPost, "/act/"+verb, fields, "Authorization", "Bearer "+testToken)
	}
	answer := do("resize", "name=gate&limit=5")
	assert.Equal(t, http.StatusOK, answer.StatusCode)
	assert.JSONEq(t, `{"did":"resize"}`, answer.body)
	assert.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	assert.Empty(t, answer.Cookies())
	assert.EqualValues(t, 5, s.status("gate").Limit)
	doubled := s.ask(http.MethodPost, "//act/resize", "name=gate&limit=6", "Authorization", "Bearer "+testToken)
	assert.Equal(t, http.StatusNotFound, doubled.StatusCode, "a redirect looks like success to curl")
	assert.EqualValues(t, 5, s.status("gate").Limit)
	for wrong, status := range map[string]int{
		"resize?name=gate":                 http.StatusBadRequest,
		"resize?name=gate&limit=-1":        http.StatusBadRequest,
		"resize?name=gate&limit=0":         http.StatusBadRequest, // a pause is another action
		"resize?name=gate&limit=x":         http.StatusBadRequest,
		"resize?name=gate&limit=1e3":       http.StatusBadRequest,
		"resize?limit=1":                   http.StatusBadRequest,
		"resize?name=gate&limit=1&limit=2": http.StatusBadRequest,
		"pause?name=gate&name=gate":        http.StatusBadRequest,
		"evict?name=gate&id=a&id=b":        http.StatusBadRequest,
		"evict?name=gate":                  http.StatusBadRequest,
		"evict?name=gate&id=nobody":        http.StatusNotFound,
		"resize?name=nowhere&limit=1":      http.StatusNotFound,
		"pause?name=nowhere":               http.StatusNotFound,
		"pause?name=" + "%7Dnot-a-name":    http.StatusBadRequest,
	} {
		answer := do(wrong, "")
		assert.Equal(t, status, answer.StatusCode, wrong)
		assert.Regexp(t, `^\{"error":".+"\}`, answer.body)
	}
	assert.Equal(t, http.StatusOK, do("evict", "name=gate&id="+url.QueryEscape(permit.ID())).StatusCode)
	<-permit.Context().Done()
	sem, err := s.client.Semaphore("gate", 2)
	require.NoError(t, err)
	permit, err = sem.With(fairsem.CallOptions{Tenant: "acme"}).Acquire(t.Context(), 1)
	require.NoError(t, err)
	shown := "name=gate&id=" + url.QueryEscape(inspect.PlainID(permit.ID()))
	assert.Equal(t, http.StatusConflict, do("evict", shown+"&waits=1").StatusCode, "it holds a permit")
	require.NoError(t, permit.Context().Err())
	assert.Equal(t, http.StatusOK, do("evict", shown).StatusCode)
	<-permit.Context().Done()
	assert.False(t, s.status("nowhere").Exists, "a slip pins nothing")
}
