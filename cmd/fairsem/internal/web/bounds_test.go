package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func matching(pattern string) func(*Options) { return func(o *Options) { o.Pattern = pattern } }

func TestOnlyNamesThatThePatternMatchesAreSeen(t *testing.T) {
	t.Parallel()
	s := serve(t, matching("team-a/*"))
	s.hold("team-b/db", 1)
	s.hold("team-a/db", 2)
	s.hold("team-a/x/y", 3)
	s.seen(2)
	page := s.get("/")
	assert.Contains(t, page.body, "team-a/x/y")
	assert.Contains(t, page.body, "only names that match <bdi>team-a/*</bdi>")
	metrics := s.get("/metrics").body
	assert.Contains(t, metrics, `fairsem_permits_limit{name="team-a/db"} 2`)
	for path, text := range map[string]string{"/": page.body, "/metrics": metrics, "/?q=db": s.get("/?q=db").body} {
		assert.NotContains(t, text, "team-b", path)
	}
	assert.Equal(t, http.StatusOK, s.get("/semaphore?name=team-a%2Fdb").StatusCode)
	assert.Equal(t, http.StatusOK, s.get("/semaphore?name=team-a%2Fnew").StatusCode, "one that Redis does not know yet")
}

// The pattern is a bound: a reader learns nothing about another name, not even whether it exists.
func TestANameOutsideOfThePatternIsRefusedWhetherItIsThereOrNot(t *testing.T) {
	t.Parallel()
	s := serve(t, matching("team-a/*"), writable)
	s.hold("team-b/db", 1)
	s.hold("team-a/db", 1)
	s.seen(1)
	cookie := s.logIn()
	token := []string{"Authorization", "Bearer " + testToken}
	const reason = "his page does not show that name: only names that match team-a/*"
	for _, name := range []string{"team-b/db", "team-b/nothing"} {
		query := "?name=" + url.QueryEscape(name)
		page := s.get("/semaphore" + query)
		require.Equal(t, http.StatusNotFound, page.StatusCode, name) // else the stream would have no end
		for what, answer := range map[string]answer{
			"page":    page,
			"stream":  s.get("/semaphore/stream" + query),
			"ask":     s.get("/act/evict"+query+"&id=x", cookie...),
			"act":     s.ask(http.MethodPost, "/act/pause"+query, "seal=x", cookie...),
			"program": s.ask(http.MethodPost, "/act/resize"+query, "limit=5", token...),
		} {
			assert.Equal(t, http.StatusNotFound, answer.StatusCode, "%s of %s", what, name)
			assert.Contains(t, answer.body, reason, "%s of %s", what, name)
		}
		found := s.get("/?q=" + url.QueryEscape(name)).body
		assert.Contains(t, found, "This page does not show the name that is exactly that.")
		assert.NotContains(t, found, "/semaphore"+query)
	}
	assert.False(t, s.status("team-b/db").Pinned)
	inside := s.get("/?q=team-a%2Fnew").body
	assert.Contains(t, inside, "/semaphore?name=team-a%2Fnew", "one that may be there")
	assert.NotContains(t, inside, "just that is outside")
	assert.Equal(t, http.StatusOK, s.ask(http.MethodPost, "/act/resize?name=team-a%2Fdb", "limit=5", token...).StatusCode)
}

func TestAPatternThatIsNoneShowsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, matching("[a"))
	s.hold("[a", 1)
	s.seen(0)
	assert.Equal(t, http.StatusNotFound, s.get("/semaphore?name=%5Ba").StatusCode)
}

func TestOnlyBusyNamesAreListedIfThatIsWanted(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Busy = true })
	idle := s.hold("idle", 1)
	s.seen(1)
	require.NoError(t, idle.Release(t.Context()))
	require.Eventually(t, func() bool { return strings.Contains(s.get("/").body, "No holders, no waiters.") }, soon, often)
	s.hold("held", 1)
	s.seen(2)
	page := s.get("/").body
	assert.Contains(t, page, `href="/semaphore?name=held"`)
	assert.NotContains(t, page, `href="/semaphore?name=idle"`)
	assert.Contains(t, page, "1 idle name is not listed")
	found := s.get("/?q=idle").body
	assert.Contains(t, found, "No name with a holder or a waiter contains that.")
	assert.Contains(t, found, `href="/semaphore?name=idle"`, "the way to it")
	assert.Equal(t, http.StatusOK, s.get("/semaphore?name=idle").StatusCode)
	assert.Contains(t, s.get("/metrics").body, `fairsem_permits_in_use{name="idle"} 0`, "a counter that comes and goes is none")
}
