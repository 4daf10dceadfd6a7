package web

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

// They are generous: other tests use the machine too.
const (
	browserLimit = 90 * time.Second // for a page to show something
	tabLimit     = 5 * time.Minute  // for all that one test does
)

// tab is one tab of a real browser, with cookies of its own.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// chromium is started by the first test that wants it, and stopped by TestMain.
var chromium struct {
	sync.Mutex
	ctx  context.Context // guarded by Mutex
	stop func()          // guarded by Mutex
}

func openTab(t *testing.T) *tab {
	t.Helper()
	path := redistest.Program(t, "chromium")
	ctx, cancel := chromedp.NewContext(startChromium(t, path), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx), "open a tab")
	ctx, stop := context.WithTimeout(ctx, tabLimit)
	t.Cleanup(stop)
	return &tab{t, ctx}
}

func startChromium(t *testing.T, path string) context.Context {
	t.Helper()
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.ctx != nil {
		return chromium.ctx
	}
	profile, err := os.MkdirTemp("", "fairsem-chromium-") //nolint:usetesting // it outlives this test: stopChromium removes it
	require.NoError(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile),
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.1"))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, quit := chromedp.NewContext(ctx)
	chromium.stop = func() {
		_ = chromedp.Cancel(ctx) // it waits for the end, however that comes
		quit()
		stop()
		_ = os.RemoveAll(profile) // it is in the temporary folder
	}
	require.NoError(t, chromedp.Do(ctx), "start Chromium")
	chromium.ctx = ctx
	return ctx
}

func stopChromium() {
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.stop != nil {
		chromium.stop()
	}
}

// look sets the size of the tab, and the light or dark scheme of the user.
func (b *tab) look(scheme string, width, height int64) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
	})
	require.NoError(b.t, err)
	_, err = chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
}

func (b *tab) open(url string) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.Navigate(url)))
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// get evaluates JavaScript.
func get[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	require.NoError(b.t, err, expression)
	return value
}

// await waits until JavaScript says true. While a page changes there is none to ask.
func (b *tab) await(expression string, args ...any) {
	b.t.Helper()
	expression = fmt.Sprintf(expression, args...)
	require.Eventually(b.t, func() bool {
		yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		return err == nil && yes
	}, browserLimit, 50*time.Millisecond, "%s", expression)
}

// click takes the element as it is at that moment: a page may change under a slower hand.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.await("document.querySelector(%q) !== null", selector)
	get[any](b, fmt.Sprintf("document.querySelector(%q).click()", selector))
}

// text is the text of the page.
func (b *tab) text() string {
	b.t.Helper()
	return get[string](b, "document.body.innerText")
}

// screenshot is for developers of the page: FAIRSEM_SCREENSHOTS names the folder.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv("FAIRSEM_SCREENSHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(dir+"/"+name+".png", picture, 0o600))
}
