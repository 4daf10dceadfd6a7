package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/internal/redistest"
)

// These tests use the page as people do: in a real browser.

// unreloaded marks the page, so that a reload shows.
const unreloaded = "window.unreloaded === true"

// unhurried has a page poll five times a second. Each poll updates every open tab, and a browser needs ten times the CPU
// time of the page that is tested.
func unhurried(o *Options) { o.Interval = 200 * time.Millisecond }

// rows is how many rows the table of that name has; 0 if there is none.
func rows(table string) string {
	return fmt.Sprintf(`document.querySelectorAll('[aria-label=%q] tbody tr').length`, table)
}

// fits says that nothing is wider than the window. On a phone innerWidth grows with content that is too wide; this does not.
const fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"

// faint are the texts whose contrast is below level AA of WCAG.
const faint = `(() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const parse = (s) => s.match(/[\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.body.querySelectorAll("*")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim()) || !e.checkVisibility() || e.closest(".sr, .skip")) continue;
    const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(ground(e))];
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) bad.push(e.outerHTML);
  }
  return bad.join("\n");
})()`

// looks are how people look at the page.
var looks = []struct {
	name, scheme  string
	width, height int64
}{
	{"light", "light", 1280, 900}, {"dark", "dark", 1280, 900}, {"in a part of the screen", "light", 940, 900},
	{"on a tablet", "light", 768, 1024}, {"on a phone", "light", 360, 780}, {"on a phone at night", "dark", 360, 780},
}

// identified says that each row of a table shows so much of its name or label that it can be told from others.
const identified = `[...document.querySelectorAll("tbody th")].every((e) => e.getBoundingClientRect().width >= 100)`

// canBeRead checks the page as it is now in every look.
func (b *tab) canBeRead(what string) {
	b.t.Helper()
	for _, look := range looks {
		b.look(look.scheme, look.width, look.height)
		assert.True(b.t, get[bool](b, fits), "%s: nothing is wider than the window", look.name)
		assert.True(b.t, get[bool](b, identified), "%s: a row has no room for its name", look.name)
		assert.Empty(b.t, get[string](b, faint), "%s: every text can be read", look.name)
		dark := get[bool](b, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).every((c) => c < 64)`)
		assert.Equal(b.t, look.scheme == "dark", dark, look.name)
		b.screenshot(look.name + " " + what)
	}
}

func TestInABrowserOneSeesThemComeWaitAndLeave(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried)
	all, one := openTab(t), openTab(t)
	all.open(s.url + "/")
	one.open(s.url + "/semaphore?name=gate")
	for _, b := range []*tab{all, one} {
		get[bool](b, "window.unreloaded = true")
	}
	all.await(`document.body.innerText.includes("No semaphore is in use")`)

	permit := s.hold("gate", 1)
	all.await(`%s === 1 && document.querySelector("td.used").innerText.includes("1 / 1")`, rows("Semaphores"))
	one.await(`%s === 1 && document.body.innerText.includes(%q)`, rows("Holders"), permit.ID())
	leave := s.wait("gate", 1)
	all.await(`document.querySelector("td.waiting").innerText.trim().endsWith("1")`)
	one.await(`%s === 1 && %s === 1`, rows("Holders"), rows("Waiters"))
	all.canBeRead("all")
	one.canBeRead("one")

	require.NoError(t, permit.Release(t.Context()))
	one.await(`%s === 1 && %s === 0 && !document.body.innerText.includes(%q)`, rows("Holders"), rows("Waiters"), permit.ID())
	leave() // it holds by now, and goes on; its client gives everything back
	require.NoError(t, s.client.Close())
	for _, b := range []*tab{all, one} {
		assert.True(t, get[bool](b, unreloaded), "all this without a reload")
	}
}

func TestInABrowserANameRunsNothingAndBreaksNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried)
	s.holdAll(hostile...)
	b := openTab(t)
	b.look("light", 360, 780)
	b.open(s.url + "/")
	get[bool](b, `addEventListener("securitypolicyviolation", (e) => { window.violation = e.blockedURI + e.sourceFile }), true`)
	first := s.page.sampler.latest().polls
	require.Eventually(t, func() bool { return s.page.sampler.latest().polls > first+5 }, soon, often)
	assert.Equal(t, len(hostile), get[int](b, rows("Semaphores")))
	assert.True(t, get[bool](b, fits))
	assert.Equal(t, 1, get[int](b, "document.scripts.length"))
	assert.Zero(t, get[int](b, `document.querySelectorAll("[onerror], [onload], [onmouseover], #live img, #live script").length`))
	b.screenshot("hostile phone")
	b.look("light", 1280, 900)
	assert.True(t, get[bool](b, fits))
	b.screenshot("hostile wide")
	assert.Equal(t, "Semaphores · fairsem", get[string](b, "document.title"))
	b.look("light", 360, 780)
	for _, name := range hostile {
		b.open(s.url + "/semaphore?" + named(name))
		b.await(`%s === 1`, rows("Holders"))
		assert.NotEqual(t, "owned", get[string](b, "document.title"))
		assert.True(t, get[bool](b, fits), name)
	}
	assert.False(t, get[bool](b, "Boolean(window.violation)"))
}

func TestInABrowserFocusScrollingAndWhatWasTypedStay(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried)
	for i := range 60 {
		s.hold(fmt.Sprintf("name-%02d", i), 2)
	}
	s.seen(60)
	b := openTab(t)
	b.look("light", 1280, 600)
	b.open(s.url + "/")
	b.await("%s === 60", rows("Semaphores"))
	get[bool](b, `window.row = document.querySelectorAll("tbody tr")[50], window.row.querySelector("a").focus(),
		document.querySelector("[name=q]").value = "typed", scrollTo(0, 700), window.top0 = row.getBoundingClientRect().top, true`)
	s.hold("name-000", 2) // above
	s.hold("name-99", 2)  // and below
	b.await("%s === 62", rows("Semaphores"))
	assert.True(t, get[bool](b, `document.activeElement === row.querySelector("a") && row.isConnected`), "it is the same element")
	assert.Equal(t, "typed", get[string](b, `document.querySelector("[name=q]").value`))
	assert.InDelta(t, 0, get[float64](b, "row.getBoundingClientRect().top - top0"), 60, "at most a row further")

	// A row that is sorted elsewhere keeps the focus, too.
	b.open(s.url + "/?sort=waiting")
	b.await("%s === 62", rows("Semaphores"))
	get[bool](b, `window.row = document.querySelectorAll("tbody tr")[30], row.querySelector("a").focus(), true`)
	name := get[string](b, "row.querySelector('a').innerText")
	s.hold(name, 2)
	s.wait(name, 2)
	b.await(`document.querySelector("tbody tr") === row`)
	assert.True(t, get[bool](b, `document.activeElement === row.querySelector("a")`))
}

// What comes and goes on the page of a name takes nothing with it.
func TestInABrowserTheFocusStaysOnAHolderWhateverComesAndGoes(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried, writable)
	s.hold("gate", 2)
	b := openTab(t)
	b.open(s.url + "/login?next=" + url.QueryEscape("/semaphore?name=gate"))
	b.do(chromedp.SendKeys(chromedp.CSS("[name=token]"), testToken+"\r"))
	b.await(`(window.button = document.querySelector("[aria-label=Holders] a.button")) !== null &&
		(button.focus(), getSelection().selectAllChildren(document.querySelector("[aria-label=Holders] bdi")), true)`) // in one go: the page may change
	stays := func(what string) {
		t.Helper()
		assert.True(t, get[bool](b, `document.activeElement === button && button.isConnected`), what)
		label := get[string](b, `document.querySelector("[aria-label=Holders] bdi").innerText`) // ? once the process stood still for long
		assert.Contains(t, []string{"host:1", "?"}, label)
		assert.Equal(t, label, get[string](b, "getSelection().toString()"), what)
	}

	tenant := s.holdAs("gate", 2, 1, fairsem.CallOptions{Tenant: "a"})
	b.await("%s > 0 && %s === 2", rows("Tenants"), rows("Holders"))
	stays("tenants came")
	require.NoError(t, tenant.Release(t.Context()))
	b.await("%s === 0 && %s === 1", rows("Tenants"), rows("Holders"))
	stays("tenants went")

	numbered := s.holdAs("gate", 2, 1, fairsem.CallOptions{Numbered: true})
	b.await(`document.querySelector("th.numbers") !== null && %s === 2`, rows("Holders"))
	stays("a column came")
	require.NoError(t, numbered.Release(t.Context()))
	b.await("%s === 1", rows("Holders"))
	looks := s.client.Inspect("gate")
	require.NoError(t, looks.SetLimit(t.Context(), 3))
	b.await(`document.body.innerText.includes("set by hand")`)
	stays("a limit was set by hand")
	require.NoError(t, looks.ResetLimit(t.Context()))
	b.await(`!document.body.innerText.includes("set by hand")`)
	stays("it was reset")
}

func TestInABrowserOneLogsInResizesAndEvicts(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried, writable, func(o *Options) { o.Hosts = []string{"fairsem.test"} })
	for _, host := range []string{"127.0.0.1", "fairsem.test"} { // browsers trust the first, and send it more
		name := "gate of " + host
		permit := s.hold(name, 1)
		b := openTab(t)
		b.look("light", 360, 780)
		at := strings.Replace(s.url, "127.0.0.1", host, 1)
		b.open(at + "/semaphore?" + named(name))
		b.click("header a.quiet")
		b.await(`document.querySelector("h1").innerText === "Log in" && document.activeElement.name === "token"`)
		b.do(chromedp.SendKeys(chromedp.CSS("[name=token]"), "a wrong token\r"))
		b.await(`document.body.innerText.includes("That is not the token.")`)
		assert.Empty(t, get[string](b, faint))
		b.do(chromedp.SendKeys(chromedp.CSS("[name=token]"), testToken+"\r"))
		b.await(`document.querySelector("h1").innerText === %q && document.body.innerText.includes("Resize…")`, name)
		assert.Empty(t, get[string](b, "document.cookie"), "no script can read it")

		b.click(`a[href^="/act/resize"]`)
		b.await(`document.querySelector("[name=limit]").value === "1"`)
		assert.True(t, get[bool](b, fits))
		b.do(chromedp.SetValue(chromedp.CSS("[name=limit]"), "12"))
		b.click("button.main")
		b.await(`document.body.innerText.includes("The limit is set to 12.")`)
		assert.EqualValues(t, 12, s.status(name).Limit)
		assert.True(t, s.status(name).Pinned)

		b.await("%s === 1", rows("Holders"))
		b.click(`tbody a[href^="/act/evict"]`)
		b.await(`document.querySelector("h1").innerText === "Evict?" && document.body.innerText.includes(%q)`, permit.ID())
		assert.Empty(t, get[string](b, faint))
		require.NoError(t, permit.Context().Err(), "it has only been asked")
		b.screenshot("evict " + host)
		b.click("button.danger")
		<-permit.Context().Done()
		b.await(`document.body.innerText.includes("Evicted ") && document.body.innerText.includes("No holders.")`)
		b.click("header button")
		b.await(`document.querySelector("header a.quiet").innerText === "Log in"`)
	}
}

// attack is a page that tries to have a browser pause a semaphore: with forms and with scripts.
func attack(target string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><title>attack</title><iframe name="hidden"></iframe>
<form method="post" action="%[1]s/act/pause?name=gate" target="hidden"><input name="seal" value="0"></form>
<script>
const target = %[1]q;
document.forms[0].submit();
const tries = [
  fetch(target + "/act/pause?name=gate", {method: "POST", mode: "no-cors", credentials: "include"}),
  fetch(target + "/act/pause?name=gate", {method: "POST", credentials: "include", headers: {Authorization: "Bearer %[2]s"}}),
  fetch(target + "/", {credentials: "include"}).then((r) => r.text()).then((text) => { window.stolen = text }),
  fetch(target + "/semaphore/stream?name=gate", {credentials: "include"}).then(() => { window.stolen = "stream" }),
];
Promise.allSettled(tries).then(() => { window.tried = true });
</script>`, target, testToken)
	})
}

func TestInABrowserAnotherPageCanDoAndReadNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried, writable)
	s.hold("gate", 1)
	evil := httptest.NewServer(attack(s.url))
	t.Cleanup(evil.Close)
	b := openTab(t)
	b.open(s.url + "/login")
	b.do(chromedp.SendKeys(chromedp.CSS("[name=token]"), testToken+"\r"))
	b.await(`document.querySelector("header button") !== null`)
	for _, host := range []string{"127.0.0.1", "localhost", "evil.test"} { // another port, another site, not even trusted
		b.open(strings.Replace(evil.URL, "127.0.0.1", host, 1))
		b.await(`document.title === "attack" && window.tried === true`)
		assert.False(t, get[bool](b, "Boolean(window.stolen)"))
	}
	assert.False(t, s.status("gate").Pinned)

	b.open(strings.Replace(s.url, "127.0.0.1", "evil.test", 1) + "/") // a name of theirs that leads here
	assert.Contains(t, b.text(), "this page has another name")
	b.open(s.url + "/")
	assert.Contains(t, b.text(), "Log out", "the session was there all the time")
}

func TestInABrowserAnOutageOfThePageIsShown(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried)
	s.hold("gate", 1)
	u, err := url.Parse(s.url)
	require.NoError(t, err)
	proxy, err := redistest.StartProxy(u.Host)
	require.NoError(t, err)
	b := openTab(t)
	b.look("light", 360, 780)
	b.open("http://" + proxy.Addr() + "/")
	b.await(`%s === 1 && document.getElementById("lost").hidden`, rows("Semaphores"))
	require.NoError(t, proxy.Close())
	b.await(`!document.getElementById("lost").hidden`)
	assert.Contains(t, b.text(), "Not live")
	assert.Contains(t, b.text(), "fairsem serve does not answer")
	assert.True(t, get[bool](b, fits))
	assert.Empty(t, get[string](b, faint))
	b.screenshot("gone")
	assert.Equal(t, 1, get[int](b, rows("Semaphores")))
}

func TestInABrowserWithoutJavaScriptThePageIsUpdated(t *testing.T) {
	t.Parallel()
	s := serve(t, unhurried)
	b := openTab(t)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	b.open(s.url + "/")
	assert.Contains(t, b.text(), "No semaphore is in use")
	s.hold("gate", 1)
	b.await(`document.body.innerText.includes("gate")`)
}
