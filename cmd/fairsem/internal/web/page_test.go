package web

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/redistest"
)

func TestThePageShowsWhatIsInUse(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("disk", 3)
	s.hold("gate", 1)
	s.wait("gate", 1)
	s.seen(2)
	require.Eventually(t, func() bool { return strings.Contains(s.get("/").body, `data-label="Waiting">1<`) }, soon, often)
	body := s.get("/").body
	assert.Contains(t, body, `1<span class="of"> / 3</span>`)
	assert.Contains(t, body, "redis.example:6379")
	assert.Contains(t, body, `<noscript><meta http-equiv="refresh"`, "without JavaScript it goes on, too")
	assert.Less(t, strings.Index(body, ">disk<"), strings.Index(body, ">gate<"), "by name")

	body = s.get("/?sort=waiting").body
	assert.Greater(t, strings.Index(body, ">disk<"), strings.Index(body, ">gate<"))
	assert.Regexp(t, `<th[^>]*class="waiting" aria-sort="descending"`, body)

	body = s.get("/?q=DIS&sort=nonsense").body
	assert.Contains(t, body, ">disk<")
	assert.NotContains(t, body, ">gate<")
	assert.Contains(t, s.get("/?q=%3Cb%3E").body, "No name contains that")
}

func TestThePageOfANameShowsHoldersAndWaiters(t *testing.T) {
	t.Parallel()
	s := serve(t)
	permit := s.hold("gate", 1)
	s.wait("gate", 1)
	s.seen(1)
	body := s.get("/semaphore?name=gate").body
	assert.Contains(t, body, permit.ID())
	assert.Contains(t, body, "host:1")
	assert.Contains(t, body, `data-label="Position">1<`)
	assert.NotContains(t, body, "/act/", "nothing can be changed")

	answer := s.get("/semaphore?name=other")
	assert.Contains(t, answer.body, "Redis does not know the name")
	assert.Equal(t, http.StatusBadRequest, s.get("/semaphore").StatusCode)
	assert.Equal(t, http.StatusBadRequest, s.get("/semaphore?"+named(strings.Repeat("x", 513))).StatusCode)
	assert.Equal(t, http.StatusBadRequest, s.get("/semaphore/stream?name=").StatusCode)
	assert.Equal(t, http.StatusNotFound, s.get("/nowhere").StatusCode)
}

func TestThePageShowsTheNumbersOfUnits(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("plain", 1)
	s.holdAs("gate", 9, 3, fairsem.CallOptions{Numbered: true})
	s.holdAs("gate", 9, 1, fairsem.CallOptions{})
	s.seen(2)
	body := s.get("/semaphore?name=gate").body
	assert.Contains(t, body, `data-label="Numbers">0-2</td>`)
	assert.Contains(t, body, `data-label="Numbers"></td>`, "of one that asked for none")
	assert.NotContains(t, s.get("/semaphore?name=plain").body, "Numbers")
}

// The clock of this machine may be any time apart.
func TestHowLongIsByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("gate", 1)
	s.seen(1)
	s.page.details.query = func(context.Context, string) (inspect.Detail, error) {
		return inspect.Detail{
			Status:  fairsem.Status{Name: "gate", Exists: true, At: noon},
			Holders: []fairsem.Ticket{{ID: "h", Since: noon.Add(-90 * time.Second)}},
			Waiters: []fairsem.Ticket{{ID: "w", Since: noon.Add(-30 * time.Second)}},
		}, nil
	}
	body := s.get("/semaphore?name=gate").body
	assert.Contains(t, body, `data-label="Held">1m30s<`)
	assert.Contains(t, body, `data-label="Waited">30s<`)
}

// A server that is up is not reported as down.
func TestAMissingRightIsNotReportedAsAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.SharedServer(t)
	name := "blind-" + uuid.NewString()
	require.NoError(t, server.Client().Do(t.Context(), "ACL", "SETUSER", name, "on", ">secret", "~*", "&*", "+@all", "-scan").Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: name, Password: "secret"})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	s := serveOn(t, rdb)
	var health answer
	require.Eventually(t, func() bool {
		health = s.get("/healthz")
		return strings.Contains(health.body, "lacks a right")
	}, soon, often)
	assert.Equal(t, http.StatusServiceUnavailable, health.StatusCode)
	assert.Contains(t, s.get("/").body, "fairsem doctor names it")
	assert.NotContains(t, s.get("/").body, name)
}

// Names that a client of Redis may give a semaphore.
var hostile = []string{
	`<script>document.title="owned"</script>`,
	`"><img src=x onerror=document.title='owned'>`,
	`' onmouseover='document.title="owned"' x='`,
	"</script></title></textarea><svg onload=document.title='owned'>",
	"javascript:document.title='owned'",
	"{{.}} ${1} &lt;b&gt; %3Cb%3E",
	"two\r\nlines\n\ndata: owned\n\nevent: owned",
	"bidi\u202Etxt.exe\u2066\u200b\x1b[31m\x00",
	"not\xff\xfeutf8",
	strings.Repeat("long-", 100),
	"../../act/evict?name=x&id=y#z",
}

func TestANameIsTextWhateverItIs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.holdAll(hostile...)
	body := s.get("/").body
	links := regexp.MustCompile(`<a href="(/semaphore\?name=[^"]*)"`).FindAllStringSubmatch(body, -1)
	require.Len(t, links, len(hostile))
	pages := body
	for _, link := range links {
		answer := s.get(html.UnescapeString(link[1]))
		assert.Equal(t, http.StatusOK, answer.StatusCode)
		assert.Contains(t, answer.body, "host:1", "the link leads to that very name: %s", link[1])
		pages += answer.body
	}
	assert.NotContains(t, pages, "\u202E")
	assert.NotContains(t, pages, "\x1b")
	assert.NotContains(t, pages, "\x00")
	assert.NotContains(t, pages, "\r")
	assert.Contains(t, pages, `not\xff\xfeutf8`)
	// A tag or an attribute of ours never says "owned": it stands in text, or within quotes.
	outside := regexp.MustCompile(`"[^"<>]*"`).ReplaceAllString(pages, `""`)
	for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(outside, -1) {
		assert.NotContains(t, tag, "owned")
		assert.NotContains(t, tag, "onerror")
	}
	assert.Equal(t, 1+len(links), strings.Count(pages, "<script"), "ours, once a page")
}

// A picture that was made before an outage went on to say that it is live until the next poll.
func TestAnOutageIsReportedBetweenTwoPolls(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	s := serveOn(t, server.Client(), seldom, func(o *Options) { o.Timeout = 0 })
	s.seen(0)
	s.hold("gate", 1)
	paths := []string{"/", "/semaphore?name=gate"}
	for _, path := range paths {
		require.Eventually(t, func() bool { return strings.Contains(s.get(path).body, `role="status">Live<`) }, soon, often)
	}
	require.NoError(t, server.Pause())
	require.Eventually(t, func() bool { return s.get("/healthz").StatusCode == http.StatusServiceUnavailable }, soon, often)
	for _, path := range paths {
		body := s.get(path).body
		assert.Contains(t, body, `role="status">Not live<`)
		assert.Contains(t, body, "Redis has not answered for ")
	}
	require.NoError(t, server.Resume())
}

func TestAnOutageIsReported(t *testing.T) {
	t.Parallel()
	server := redistest.NewServer(t)
	s := serveOn(t, server.Client(), func(o *Options) { o.Timeout = 0; o.Interval *= 10 })
	s.hold("gate", 1)
	s.seen(1)
	require.Eventually(t, func() bool {
		return strings.Contains(s.get("/semaphore?name=gate").body, "host:1") && s.get("/healthz").StatusCode == http.StatusOK
	}, soon, often)

	require.NoError(t, server.Pause())
	require.Eventually(t, func() bool { return s.get("/healthz").StatusCode == http.StatusServiceUnavailable }, soon, often)
	assert.Contains(t, s.get("/healthz").body, "Redis has not answered for ")
	body := s.get("/").body
	assert.Contains(t, body, "Redis has not answered for ")
	assert.Contains(t, body, ">gate<", "and what was seen last")
	assert.Contains(t, s.get("/semaphore?name=gate").body, "host:1")
	assert.Contains(t, s.get("/semaphore?name=other").body, "No answer about it yet")
	metrics := s.get("/metrics").body
	assert.Contains(t, metrics, "fairsem_up 0")
	assert.NotContains(t, metrics, "gate", "a figure that may be wrong is none")

	require.NoError(t, server.Resume())
	for path, fine := range map[string]func(answer) bool{ // at last: on a busy machine one more query may be late
		"/healthz": func(r answer) bool { return r.StatusCode == http.StatusOK },
		"/":        func(r answer) bool { return !strings.Contains(r.body, "has not answered") },
		"/metrics": func(r answer) bool { return strings.Contains(r.body, "fairsem_up 1") },
	} {
		require.Eventually(t, func() bool { return fine(s.get(path)) }, soon, often, path)
	}
}

func TestANameThatCannotBeReadHidesNoOther(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.hold("good", 1)
	s.hold("bad<b>", 1)
	s.seen(2)
	rdb := redistest.SharedServer(t).Client()
	keys, err := rdb.Keys(t.Context(), s.prefix+":*bad*meta").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.NoError(t, rdb.Set(t.Context(), keys[0], "text", 0).Err())
	t.Cleanup(func() { _ = rdb.Del(context.Background(), keys[0]).Err() })
	s.seen(1)
	body := s.get("/").body
	assert.Contains(t, body, ">good<")
	assert.Contains(t, body, `hint bad`)
	assert.NotContains(t, body, "bad<b>")
	assert.Equal(t, http.StatusOK, s.get("/semaphore?"+named("bad<b>")).StatusCode)
	assert.Contains(t, s.get("/metrics").body, "fairsem_names_unreadable 1")
	assert.Contains(t, s.get("/metrics").body, "fairsem_up 1")
}

func TestTheNumberOfPolledNamesIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Names = 3 })
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.hold(name, 1)
	}
	require.Eventually(t, func() bool { return s.page.sampler.latest().More }, soon, often)
	before := s.page.sampler.latest()
	assert.Len(t, before.Statuses, 3)
	for i := range 50 {
		s.hold(fmt.Sprint("flood ", i), 1)
	}
	require.Eventually(t, func() bool { return s.page.sampler.latest().polls > before.polls+3 }, soon, often)
	assert.Equal(t, before.byName, s.page.sampler.latest().byName, "those that are shown stay")
	assert.Contains(t, s.get("/").body, "Not all are shown: there are more names on the server than the 3")
	assert.Contains(t, s.get("/metrics").body, "fairsem_names_truncated 1")

	// A name beyond those is no name that does not exist.
	body := s.get("/?q=flood+49").body
	assert.Contains(t, body, "None of the 3 names that are polled contains that, and there are more.")
	assert.Contains(t, body, `<a href="/semaphore?name=flood&#43;49">`)
	assert.Contains(t, s.get("/semaphore?name=flood+49").body, "host:1")
}
