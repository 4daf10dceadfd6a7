package web

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

// holdAs holds units on the account of a tenant.
func (s *served) holdAs(name string, limit, units int64, account fairsem.CallOptions) *fairsem.Permit {
	s.t.Helper()
	sem, err := s.client.Semaphore(name, limit)
	require.NoError(s.t, err)
	permit, err := sem.With(account).Acquire(s.t.Context(), units)
	require.NoError(s.t, err)
	return permit
}

// fits128 are the hostile names that a tenant may have, too.
func fits128() (all []string) {
	for _, name := range hostile {
		if len(name) <= 128 {
			all = append(all, name)
		}
	}
	return all
}

func TestThePageOfANameShowsItsTenants(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("plain", 1)
	s.holdAs("gate", 9, 3, fairsem.CallOptions{Tenant: "acme", Share: 2, TenantLimit: 4})
	s.holdAs("gate", 9, 6, fairsem.CallOptions{})
	s.wait("gate", 9)
	s.seen(2)
	body := s.get("/semaphore?name=gate").body
	assert.Contains(t, body, `aria-label="Tenants"`)
	assert.Contains(t, body, `<bdi title="acme">acme</bdi></th><td role="cell" data-label="In use">3</td><td role="cell" data-label="Share">2</td>`+
		`<td role="cell" data-label="Limit">4</td><td role="cell" data-label="Waiting">0</td><td role="cell" data-label="Oldest">-</td>`)
	assert.Contains(t, body, `<span class="of">no name</span></th><td role="cell" data-label="In use">6</td><td role="cell" data-label="Share">1</td>`+
		`<td role="cell" data-label="Limit">-</td><td role="cell" data-label="Waiting">1</td>`)
	assert.Contains(t, body, `<span class="of tenant"><bdi title="acme">acme</bdi></span>`, "that of the holder")
	assert.NotContains(t, s.get("/semaphore?name=plain").body, "Tenants")

	s.holdAs("twins", 9, 1, fairsem.CallOptions{Tenant: "\xff"})
	s.holdAs("twins", 9, 1, fairsem.CallOptions{Tenant: `\xff`})
	s.seen(3)
	body = s.get("/semaphore?name=twins").body
	for _, reads := range []string{`\xff`, `\\xff`} { // as a tenant and as that of a holder
		assert.Equal(t, 2, strings.Count(body, `<bdi title="`+reads+`">`+reads+`</bdi>`), reads)
	}
}

func TestThePageShowsHowManyTenantsItLeavesOut(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]inspect.Tenants{
		"":                            {All: make([]fairsem.Tenant, 1)},
		"3 more tenants.":             {All: make([]fairsem.Tenant, 1), More: 3},
		"More than 3 more tenants.":   {All: make([]fairsem.Tenant, 1), More: 3, Unread: true},
		"The tenants cannot be read:": {Err: http.ErrBodyNotAllowed},
	} {
		_, more := newTenants(of)
		assert.True(t, strings.HasPrefix(more, want) && (want != "" || more == ""), more)
	}
}

func TestATenantIsTextWhateverItIs(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	tenants := fits128()
	for _, tenant := range tenants {
		s.holdAs("gate", 99, 1, fairsem.CallOptions{Tenant: tenant})
	}
	s.seen(1)
	cookie := s.logIn()
	body := s.get("/semaphore?name=gate", cookie...).body
	assert.Equal(t, 2*len(tenants), strings.Count(body, `<th role="rowheader"`), "each is a tenant and a holder")
	links := regexp.MustCompile(`href="(/act/evict\?[^"]*)"`).FindAllStringSubmatch(body, -1)
	require.Len(t, links, len(tenants))
	pages := body
	for _, link := range links {
		question := s.get(html.UnescapeString(link[1]), cookie...)
		assert.Equal(t, http.StatusOK, question.StatusCode)
		assert.Contains(t, question.body, "host:1", "it is about that very permit: %s", link[1])
		pages += question.body
	}
	for _, raw := range []string{"\u202E", "\x1b", "\x00", "\r"} {
		assert.NotContains(t, pages, raw)
	}
	assert.Contains(t, pages, `not\xff\xfeutf8`)
	outside := regexp.MustCompile(`"[^"<>]*"`).ReplaceAllString(pages, `""`)
	for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(outside, -1) {
		assert.NotContains(t, tag, "owned")
		assert.NotContains(t, tag, "onerror")
	}
	for _, link := range links {
		assert.Equal(t, http.StatusSeeOther, s.perform(cookie, html.UnescapeString(link[1])).StatusCode)
	}
	assert.Zero(t, s.status("gate").Holders, "each of them could be evicted")
}

// The page shows ids without their tenants.
func TestAProgramEvictsByTheIDThatThePageShows(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	evicted, kept := s.holdAs("gate", 2, 1, fairsem.CallOptions{Tenant: "a\x1b b"}), s.holdAs("gate", 2, 1, fairsem.CallOptions{Tenant: "a\x1b b"})
	id := inspect.PlainID(evicted.ID())
	require.Eventually(t, func() bool { return strings.Contains(s.get("/semaphore?name=gate").body, "<bdi>"+id+"</bdi>") }, soon, often)
	form := url.Values{"name": {"gate"}, "id": {id}}.Encode()
	answer := s.ask(http.MethodPost, "/act/evict", form, "Authorization", "Bearer "+testToken)
	require.Equal(t, http.StatusOK, answer.StatusCode, answer.body)
	<-evicted.Context().Done()
	assert.NoError(t, kept.Context().Err())
	answer = s.ask(http.MethodPost, "/act/evict", form, "Authorization", "Bearer "+testToken)
	assert.Equal(t, http.StatusNotFound, answer.StatusCode)
}

func TestInABrowserTenantsRunNothingAndBreakNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried)
	for _, tenant := range fits128() {
		s.holdAs("gate", 99, 1, fairsem.CallOptions{Tenant: tenant})
	}
	b := openTab(t)
	b.open(s.url + "/semaphore?name=gate")
	b.await(`%s === %d`, rows("Tenants"), len(fits128()))
	assert.Equal(t, 1, get[int](b, "document.scripts.length"))
	assert.Zero(t, get[int](b, `document.querySelectorAll("[onerror], [onload], [onmouseover], #live img, #live script").length`))
	assert.NotEqual(t, "owned", get[string](b, "document.title"))
	b.canBeRead("tenants")
}
