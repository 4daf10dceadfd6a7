package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestEveryResponseHasStrictSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	for _, path := range []string{"/", "/semaphore?name=x", "/semaphore", "/login", "/metrics", "/healthz", "/static/style.css", "/nowhere"} {
		h := s.get(path).Header
		assert.Equal(t, policy, h.Get("Content-Security-Policy"), path)
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		assert.Equal(t, "same-origin", h.Get("Referrer-Policy"), path)
		assert.Equal(t, "no-store", h.Get("Cache-Control"), path)
	}
	for _, wanted := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
		assert.Contains(t, policy, wanted)
	}
	assert.NotContains(t, policy, "unsafe")
}

// A page whose name leads to this machine counts as ours for a browser, and could read everything.
func TestThePageGoesByKnownNamesOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, writable, func(o *Options) { o.Hosts = []string{"fairsem.internal"} })
	for host, status := range map[string]int{
		"evil.example":              http.StatusMisdirectedRequest,
		"evil.example:7420":         http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example":    http.StatusMisdirectedRequest,
		"localhost.evil.example":    http.StatusMisdirectedRequest,
		"localhost..":               http.StatusMisdirectedRequest,
		".":                         http.StatusMisdirectedRequest,
		"fairsem.internal.evil.com": http.StatusMisdirectedRequest,
		"localhost":                 http.StatusOK,
		"LOCALHOST:80":              http.StatusOK,
		"localhost.:7420":           http.StatusOK,
		"fairsem.internal.":         http.StatusOK,
		"127.0.0.1:7420":            http.StatusOK,
		"[::1]:7420":                http.StatusOK,
		"[::1]":                     http.StatusOK,
		"10.1.2.3:7420":             http.StatusOK,
		"Fairsem.internal:443":      http.StatusOK,
	} {
		for _, path := range []string{"/", "/semaphore?name=x", "/metrics", "/login", "/static/live.js"} {
			assert.Equal(t, status, s.get(path, "Host", host).StatusCode, "%s as %s", path, host)
		}
		assert.NotEqual(t, http.StatusMisdirectedRequest, s.get("/healthz", "Host", host).StatusCode, "it reveals nothing")
	}
	assert.Equal(t, http.StatusMisdirectedRequest, s.ask(http.MethodPost, "/login", "token=x", "Host", "evil.example").StatusCode)
}

func TestARequestIsSmall(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	token := "token=" + string(make([]byte, 2*maxRequest))
	answer := s.ask(http.MethodPost, "/login", token)
	assert.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
	assert.Contains(t, answer.body, "The form has more than 16384 bytes.")
	answer = s.ask(http.MethodPost, "/act/resize?name=gate", token, "Authorization", "Bearer "+testToken)
	assert.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
	assert.JSONEq(t, `{"error":"the form has more than 16384 bytes"}`, answer.body)
}

func TestAFormThatCannotBeReadIsNotTakenForAnEmptyOne(t *testing.T) {
	t.Parallel()
	s := serve(t, writable)
	answer := s.ask(http.MethodPost, "/login", "token=%zz")
	assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
	assert.Contains(t, answer.body, "The form cannot be read")
	answer = s.ask(http.MethodPost, "/act/resize", "name=gate&limit=%zz", "Authorization", "bearer "+testToken)
	assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
	assert.Contains(t, answer.body, `{"error":"the form cannot be read`)
}

func TestFilesOfThePageAreNotListed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	assert.Equal(t, http.StatusNotFound, s.get("/static/").StatusCode)
	assert.Equal(t, http.StatusNotFound, s.get("/static/nothing").StatusCode)
	assert.Contains(t, s.get("/static/style.css").Header.Get("Content-Type"), "text/css")
}
