package top

import (
	"strings"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// keys are all bindings. Bindings without a meaning in the current view are disabled, and so are not in the help.
type keys struct {
	up, down, pageUp, pageDown, home, end    key.Binding
	open, back, filter, clear, tenants       key.Binding
	sort, sortLeft, sortRight, reverse       key.Binding
	resize, pause, resume, evict             key.Binding
	help, quit, suspend, yes, accept, cancel key.Binding
}

func bind(shown, does string, names ...string) key.Binding {
	return key.NewBinding(key.WithKeys(names...), key.WithHelp(shown, does))
}

var bindings = keys{
	up:        bind("↑ k", "up", "up", "k"),
	down:      bind("↓ j", "down", "down", "j"),
	pageUp:    bind("pgup", "page up", "pgup", "ctrl+b"),
	pageDown:  bind("pgdn", "page down", "pgdown", "ctrl+f", "space"),
	home:      bind("home g", "first", "home", "g"),
	end:       bind("end G", "last", "end", "G"),
	open:      bind("enter", "open", "enter"),
	back:      bind("esc", "back", "esc", "backspace"),
	filter:    bind("/", "filter", "/"),
	clear:     bind("esc", "show all", "esc"),
	tenants:   bind("t", "tenants", "t"),
	sort:      bind("s", "sort", "s"),
	sortLeft:  bind("<", "sort by the previous column", "<"),
	sortRight: bind(">", "sort by the next column", ">"),
	reverse:   bind("r", "reverse", "r"),
	resize:    bind("R l", "resize", "R", "l"),
	pause:     bind("p", "pause", "p"),
	resume:    bind("u", "resume", "u"),
	evict:     bind("x", "evict", "x"),
	help:      bind("?", "help", "?"),
	quit:      bind("q", "quit", "q", "ctrl+c"),
	suspend:   bind("ctrl+z", "suspend", "ctrl+z"),
	yes:       bind("y", "yes", "y", "Y"),
	accept:    bind("enter", "continue", "enter"),
	cancel:    bind("esc", "cancel", "esc"),
}

// arrows move while something is typed.
var arrows = keys{
	up:       bind("", "", "up"),
	down:     bind("", "", "down"),
	pageUp:   bind("", "", "pgup"),
	pageDown: bind("", "", "pgdown"),
}

// at are the keys that mean something where one is.
func (k keys) at(inside, shared, byTenant, filtered, readOnly bool) keys {
	only := func(enabled bool, all ...*key.Binding) {
		for _, b := range all {
			b.SetEnabled(enabled)
		}
	}
	only(inside && shared && !byTenant, &k.tenants)
	only(!inside || byTenant, &k.open)
	only(!inside, &k.filter, &k.sort, &k.sortLeft, &k.sortRight, &k.reverse)
	only(!inside && filtered, &k.clear)
	only(inside, &k.back)
	only(!readOnly, &k.resize, &k.pause, &k.resume)
	only(inside && !byTenant && !readOnly, &k.evict)
	return k
}

// ShortHelp is the help that is always on the screen. The last bindings are cut off first.
func (k keys) ShortHelp() []key.Binding {
	return []key.Binding{k.back, k.open, k.clear, k.filter, k.sort, k.tenants, k.evict, k.help, k.quit, k.resize, k.pause, k.resume}
}

// FullHelp is everything.
func (k keys) FullHelp() [][]key.Binding {
	return [][]key.Binding{
		{k.up, k.down, k.pageUp, k.pageDown, k.home, k.end},
		{k.open, k.back, k.tenants, k.filter, k.clear, k.sort, k.sortLeft, k.sortRight, k.reverse},
		{k.resize, k.pause, k.resume, k.evict, k.help, k.quit, k.suspend},
	}
}

// legend explains the columns.
var legend = []string{
	"IN USE    units held, and the limit in force; the bar is yellow where nothing can be granted",
	"WAITING   calls in the queue; OLDEST is how long the first of them has waited",
	"GRANTS/S  permits and calls granted a second, as a mean of the last " + text.Span(rateSpan),
	"EXPIRED   permits whose lease ended before they were released; +1 is within the last " + text.Span(expirySpan),
	"FOR       how long it has held or waited, by the server's clock",
	"SHARE     of a tenant beside others; LIMIT is the most units that it may hold",
	"EXPIRES   when the lease ends unless it is renewed",
}

// manual is the whole help, in columns where there is room for them.
func manual(h help.Model, k keys, width int) string {
	groups := h.FullHelpView(k.FullHelp())
	if lipgloss.Width(groups) > width-1 {
		var one []key.Binding
		for _, group := range k.FullHelp() {
			one = append(one, group...)
		}
		groups = h.FullHelpView([][]key.Binding{one})
	}
	page := groups + "\n\n" + text.Wrap(strings.Join(legend, "\n"), max(1, width-2))
	return lipgloss.NewStyle().PaddingLeft(1).Render(page)
}

// helper draws help. Its width is the screen's.
func helper(width int) help.Model {
	h := help.New()
	h.ShortSeparator = "  "
	h.Styles = help.Styles{Ellipsis: faint, ShortKey: strong, ShortDesc: faint, ShortSeparator: faint, FullKey: strong, FullSeparator: faint}
	h.SetWidth(width)
	return h
}
