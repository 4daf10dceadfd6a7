package top

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/internal/testclient"
)

// bench drives a model by hand: it feeds answers, and only counts the commands.
type bench struct {
	t *testing.T
	model
	source *fake
	at     time.Time
}

// newBench returns a bench that shows names, if there are any.
func newBench(t *testing.T, o Options, all ...fairsem.Status) *bench {
	t.Helper()
	o.Address = "127.0.0.1:6379"
	if o.Sort == "" {
		o.Sort = "name"
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	source := &fake{}
	b := &bench{t: t, model: newModel(t.Context(), source, o), source: source, at: time.Unix(1_700_000_000, 0)}
	b.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	b.send(started(b.at))
	if len(all) > 0 {
		b.show(all...)
	}
	return b
}

// openBench returns a bench on which a name is open.
func openBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, Options{}, api)
	b.press("<enter>")
	b.showDetail(inside)
	return b
}

// fake records the changes requested of it.
type fake struct {
	asked   []string
	err     error
	granted error // to a waiter, meanwhile
	gone    bool  // Redis has forgotten the name, meanwhile
}

func (f *fake) Survey(context.Context) (inspect.Survey, error)               { return inspect.Survey{}, f.err }
func (f *fake) Detail(context.Context, string) (d inspect.Detail, err error) { return d, f.err }
func (f *fake) Status(_ context.Context, name string) (fairsem.Status, error) {
	return fairsem.Status{Name: name, Exists: !f.gone}, f.err
}
func (f *fake) SetLimit(_ context.Context, name string, limit int64) error {
	f.asked = append(f.asked, fmt.Sprintf("resize %s %d", name, limit))
	return f.err
}
func (f *fake) ResetLimit(_ context.Context, name string) error {
	f.asked = append(f.asked, "unpin "+name)
	return f.err
}
func (f *fake) Evict(_ context.Context, name, id string) error {
	f.asked = append(f.asked, "evict "+name+" "+id)
	return f.err
}
func (f *fake) StillWaits(context.Context, string, fairsem.Ticket) error { return f.granted }

func (b *bench) send(msg tea.Msg) tea.Cmd {
	b.t.Helper()
	next, cmd := b.Update(msg)
	b.model = next.(model)
	return cmd
}

// press presses keys: those with a name of several letters have it in angle brackets.
func (b *bench) press(keys string) (cmd tea.Cmd) {
	b.t.Helper()
	named := map[string]rune{"<enter>": tea.KeyEnter, "<esc>": tea.KeyEscape, "<up>": tea.KeyUp, "<down>": tea.KeyDown, "<back>": tea.KeyBackspace, "<pgdn>": tea.KeyPgDown}
	for keys != "" {
		name, rest, found := strings.Cut(keys, ">")
		if code, ok := named[name+">"]; found && ok {
			cmd, keys = b.send(tea.KeyPressMsg{Code: code}), rest
			continue
		}
		r := []rune(keys)[0]
		cmd, keys = b.send(tea.KeyPressMsg{Code: r, Text: string(r)}), keys[len(string(r)):]
	}
	return cmd
}

// show answers the query of all names a second later.
func (b *bench) show(all ...fairsem.Status) tea.Cmd {
	b.t.Helper()
	return b.back(answer{survey: inspect.Survey{Statuses: all}})
}

// showDetail is show for one name.
func (b *bench) showDetail(d inspect.Detail) tea.Cmd {
	b.t.Helper()
	d.At = serverTime
	return b.back(answer{detail: &d})
}

func (b *bench) back(l answer) tea.Cmd {
	b.t.Helper()
	b.at = b.at.Add(time.Second)
	l.at = b.at
	if !b.schedule.inFlight {
		b.send(due(b.schedule.number))
	}
	require.True(b.t, b.schedule.inFlight)
	return b.send(l)
}

func (b *bench) screen() string { return ansi.Strip(b.View().Content) }

func (b *bench) sees(want string) {
	b.t.Helper()
	assert.Contains(b.t, b.screen(), want)
}

func (b *bench) seesNot(want string) {
	b.t.Helper()
	assert.NotContains(b.t, b.screen(), want)
}

// row returns the line of the screen that begins with a name.
func (b *bench) row(name string) string {
	b.t.Helper()
	for line := range strings.SplitSeq(b.screen(), "\n") {
		if strings.HasPrefix(line, " "+name) {
			return line
		}
	}
	b.t.Fatalf("no line begins with %q:\n%s", name, b.screen())
	return ""
}

// serverTime is far from that of this machine.
var serverTime = time.Unix(99, 0)

func holder(id, label string) fairsem.Ticket {
	return fairsem.Ticket{ID: id, Label: label, Token: 7, Weight: 2, Since: serverTime.Add(-3 * time.Minute), ExpiresIn: 8 * time.Second}
}

func waiter(id, label string) fairsem.Ticket {
	return fairsem.Ticket{ID: id, Label: label, Weight: 1, Since: serverTime.Add(-12 * time.Second), ExpiresIn: 9 * time.Second}
}

var (
	api    = fairsem.Status{Name: "api", Limit: 4, Declared: 4, Used: 4, Holders: 2, Waiting: 1, OldestWait: 12 * time.Second, Exists: true, Granted: 40}
	backup = fairsem.Status{Name: "backup", Limit: 9, Declared: 1, Pinned: true, Exists: true, Expired: 3}
	calls  = fairsem.Status{Name: "calls", Limit: 100, Declared: 100, Used: 20, Window: time.Minute, Exists: true}
	paused = fairsem.Status{Name: "deploy", Declared: 2, Pinned: true, Used: 1, Exists: true}

	inside = inspect.Detail{Status: api, Holders: []fairsem.Ticket{holder("h1", "alice"), holder("h2", "bob")}, Waiters: []fairsem.Ticket{waiter("w1", "carol")}}
)

func TestTableShowsWhatANameIsLike(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{})
	b.sees("waiting for an answer…")
	b.show(api, backup, calls, paused)
	busy := api
	busy.Granted = 42
	lossy := backup
	lossy.Expired = 5
	b.show(busy, lossy, calls, paused)
	assert.Regexp(t, `^ api +█+ +4/4 +1 +12s +2\.0 +0$`, strings.TrimRight(b.row("api"), " "))
	assert.Regexp(t, `^ backup +░+ +0/9 +0 +- +0 +\+2 5  pinned$`, strings.TrimRight(b.row("backup"), " "))
	assert.Regexp(t, `^ calls +█+░+ +20/100 +0 +- +0 +-  rate 100/1m$`, strings.TrimRight(b.row("calls"), " "))
	assert.Regexp(t, `^ deploy +█+ +1/0 +0 +- +0 +0  paused$`, strings.TrimRight(b.row("deploy"), " "))
	b.sees("4 names   25 in use   1 waiting   2.0 grants/s   +2 5 expired")
	b.sees("fairsem top  127.0.0.1:6379")
	b.sees(b.at.Format(time.TimeOnly) + "  every 1s")
}

// What a name is, matters more than how much it is used: a paused one grants nothing.
func TestOnANarrowScreenOnlyTheWaitersStayLongerThanNotes(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{})
	b.show(api, paused)
	b.send(tea.WindowSizeMsg{Width: 50, Height: 20})
	assert.Regexp(t, `^ deploy +1/0 +0 +0 +paused$`, strings.TrimRight(b.row("deploy"), " "))
	b.send(tea.WindowSizeMsg{Width: 34, Height: 20})
	assert.Regexp(t, `^ deploy +1/0 +0$`, strings.TrimRight(b.row("deploy"), " "))
}

func TestTheBarIsGreenWithRoomAndYellowWithout(t *testing.T) {
	t.Parallel()
	assert.Contains(t, bar(calls, 4, colourful), "\x1b[32m█")
	for _, s := range []fairsem.Status{api, paused, {Limit: 2, Used: 3}} {
		assert.Contains(t, bar(s, 4, colourful), "\x1b[33m████")
	}
}

func TestEnterShowsHoldersAndWaitersByTheServersClock(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, backup)
	b.press("<enter>")
	b.sees("waiting for an answer…")
	b.showDetail(inside)
	assert.Regexp(t, `^ holds +alice +2 +3m00s +8\.0s +7  h1$`, strings.TrimRight(b.row("holds    alice"), " "))
	assert.Regexp(t, `^ #1 +carol +1 +12s +9\.0s +-  w1$`, strings.TrimRight(b.row("#1"), " "))
	b.sees("1 waiting, 12s")
	b.press("<esc>")
	b.sees("backup")
	b.press("<enter>")
	b.press("<back>")
	b.sees("backup")
}

func TestNumbersOfUnitsAreAColumnWhereThereAreAny(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api)
	b.press("<enter>")
	b.showDetail(inside)
	b.seesNot("NUMBERS")
	d := inside
	d.Holders = slices.Clone(inside.Holders)
	d.Holders[0].Numbers = []int64{0, 1, 4}
	b.showDetail(d)
	assert.Regexp(t, `^ holds +alice +2 +3m00s +8\.0s +7  0-1,4 +h1$`, strings.TrimRight(b.row("holds    alice"), " "))
}

func TestTheDetailReportsWhatItOmits(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, backup)
	b.press("<enter>")
	d := inspect.Detail{Status: backup, MoreHolders: 2000, MoreWaiters: 5}
	b.showDetail(d)
	b.sees("2005 more are not shown")
	b.sees("pinned, declared 1")
	b.sees("No holders, no waiters.")
	b.showDetail(inspect.Detail{Status: fairsem.Status{Name: "backup"}})
	b.sees("does not know this name any more")
}

func TestFilterIsTypedLetsThroughWhatHasItAndIsClearedByEsc(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, backup, calls, paused)
	b.press("/AP")
	b.sees("api")
	b.seesNot("backup")
	b.seesNot("calls")
	b.press("q")
	b.sees("No name contains this")
	b.press("<back><enter>")
	b.sees("4 names   1 with AP")
	b.press("<esc>")
	b.sees("backup")
	b.press("/cal")
	b.seesNot("backup")
	b.press("<esc>")
	b.sees("backup")
	b.send(tea.KeyPressMsg{Code: '/', Text: "/"})
	b.send(tea.PasteMsg{Content: "dep"})
	b.sees("deploy")
	b.seesNot("backup")
}

func TestIdleNamesAreLeftOutIfOnlyBusyOnesAreWanted(t *testing.T) {
	t.Parallel()
	waited := fairsem.Status{Name: "empty", Limit: 1, Waiting: 1, Exists: true} // its head of the queue is too big
	b := newBench(t, Options{Busy: true}, api, backup, waited)
	assert.Equal(t, []string{"api", "empty"}, b.order())
	b.sees("3 names   2 busy   4 in use")
	b.press("/back")
	b.sees("No name with a holder or a waiter contains this")
	b.press("<esc>")
	idle := api
	idle.Used, idle.Waiting = 0, 0
	b.show(idle, backup)
	b.sees("No holders or waiters, of any of 2 names.")
	b.show(api, backup)
	b.sees("api")
}

// names are those on the screen, from the top.
func (b *bench) order() (names []string) {
	for _, r := range b.names.items {
		names = append(names, r.Name)
	}
	return names
}

func TestKeysChangeTheOrderAndTheSelectionStaysOnItsName(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, backup, calls, paused)
	b.press("j")
	for _, step := range []struct {
		keys string
		want []string
	}{
		{"", []string{"api", "backup", "calls", "deploy"}},
		{"r", []string{"deploy", "calls", "backup", "api"}},
		{"s", []string{"deploy", "api", "calls", "backup"}}, // by the share in use
		{">", []string{"api", "backup", "calls", "deploy"}}, // by waiters
		{">>>", []string{"backup", "api", "calls", "deploy"}},
		{"r", []string{"api", "calls", "deploy", "backup"}},
		{"<", []string{"api", "backup", "calls", "deploy"}},
	} {
		b.press(step.keys)
		assert.Equal(t, step.want, b.order(), "after %q", step.keys)
		selected, _ := b.names.selected()
		assert.Equal(t, "backup", selected.Name)
	}
}

func TestTheSelectionStaysOnItsIDWhenAWaiterIsGranted(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	b.press("jj")
	d := inside
	d.Holders, d.Waiters = []fairsem.Ticket{holder("h2", "bob"), holder("w1", "carol")}, []fairsem.Ticket{waiter("w2", "dave")}
	b.showDetail(d)
	selected, ok := b.detail.selected()
	require.True(t, ok)
	assert.Equal(t, "w1", selected.ID)
}

// run runs the command of the model, and gives the model the outcome.
func (b *bench) run(cmd tea.Cmd) {
	b.t.Helper()
	require.NotNil(b.t, cmd)
	b.send(cmd())
}

func TestResizeAsksForTheLimitShowsTheStateAndSetsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, backup)
	b.press("R")
	b.sees("Resize api: the limit is 4 now, with 4 in use and 1 waiting; 4 was declared.")
	b.press("x3<enter>")
	b.sees(`"x3" is not a number of units: enter another, or esc`)
	b.press("<back><back>9007199254740992<enter>")
	b.sees("9007199254740992 is above the maximum, 9007199254740991: enter another, or esc")
	b.press(strings.Repeat("<back>", 16) + "9007199254740991<enter>")
	b.sees("Set the limit of api to 9007199254740991?")
	b.press("nR3<enter>")
	b.sees("Set the limit of api to 3? It is 4 now, with 4 in use and 1 waiting. No permit is revoked")
	now := api
	now.Used = 2
	b.show(now, backup)
	b.sees("It is 4 now, with 2 in use and 1 waiting.")
	b.seesNot("No permit is revoked")
	b.run(b.press("y"))
	assert.Equal(t, []string{"resize api 3"}, b.source.asked)
	b.sees("the limit of api is set to 3")
}

func TestPauseAndResumeAskFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, paused)
	b.press("p")
	b.sees("Pause api? Nothing is granted until it is resumed; 4 of 4 in use now, 1 waiting.")
	b.run(b.press("y"))
	b.press("l0<enter>")
	b.send(tea.PasteMsg{Content: "y"})
	b.sees("Pause api?")
	assert.Nil(t, b.press("<enter>"), "only y is a yes")
	b.sees("nothing was changed")
	b.press("u")
	b.sees("api has no limit set by hand")
	b.press("ju")
	b.sees("Reset the limit of deploy? It is set to 0 by hand and goes back to 2")
	b.run(b.press("y"))
	assert.Equal(t, []string{"resize api 0", "unpin deploy"}, b.source.asked)
}

func TestAPauseWarnsThatALimitSetByHandIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, backup, paused)
	for name, forgets := range map[string]bool{"api": false, "backup": true, "deploy": false} {
		b.press("/" + name + "<enter>p")
		b.sees("Pause " + name + "?")
		assert.Equal(t, forgets, strings.Contains(strings.Join(strings.Fields(b.screen()), " "), "The limit of 9 was set by hand: resume does not restore it."), name)
		b.press("n<esc>")
	}
}

func TestEvictAsksAboutTheSelectedTicket(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api)
	b.press("x")
	b.sees("open a name with enter")
	b.press("<enter>")
	b.showDetail(inside)
	b.press("jx")
	b.sees("Evict bob from api? It has held 2 units for 3m00s")
	b.sees("id h2")
	b.press("n")
	b.press("jx")
	b.sees("Evict carol, number 1 in the queue of api? It wants 1 unit and has waited for 12s.")
	b.run(b.press("y"))
	assert.Equal(t, []string{"evict api w1"}, b.source.asked)
	b.sees("carol was evicted from api")
}

// A name that nobody used any more was paused like any other, and its key stayed for ever.
func TestAQuestionSaysThatRedisDoesNotKnowTheNameAnyMore(t *testing.T) {
	t.Parallel()
	const gone = "Redis does not know this name any more: the limit is stored until it is reset."
	words := func(b *bench) string { return strings.Join(strings.Fields(b.screen()), " ") }
	for _, keys := range []string{"p", "l5<enter>"} {
		b := openBench(t)
		b.press(keys)
		assert.NotContains(t, words(b), gone)
		b.showDetail(inspect.Detail{Status: fairsem.Status{Name: "api"}})
		assert.Contains(t, words(b), gone, "it went while the question was on the screen")
	}
}

// A waiter that is granted its permit while the question is on the screen has work in progress.
func TestQuestionAboutAWaiterIsWithdrawnWhenItHoldsOrIsGone(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	b.press("jjx")
	d := inside
	d.Holders, d.Waiters = append([]fairsem.Ticket{holder("w1", "carol")}, inside.Holders...), nil
	b.showDetail(d)
	b.sees("carol was granted its permit meanwhile")
	assert.Nil(t, b.press("y"))
	b.press("x")
	b.sees("Evict carol from api?")
	b.showDetail(inspect.Detail{Status: api})
	b.sees("carol is gone")
	assert.Nil(t, b.press("y"))
	assert.Empty(t, b.source.asked)
}

// It may be behind those that were read: a waiter that was granted its permit is the last holder.
func TestATicketThatIsNotShownAnyMoreMayBeThere(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	b.press("jjx")
	d := inside
	d.Waiters, d.MoreHolders = nil, 1
	b.showDetail(d)
	b.sees("carol is not among those shown any more")
	assert.Nil(t, b.press("y"))
	assert.Empty(t, b.source.asked)
}

// The limit would stay for ever, and the question did not say so.
func TestANameThatIsForgottenBeforeTheYesGetsNoLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api)
	b.source.gone = true
	b.press("p")
	b.run(b.press("y"))
	b.sees("Redis does not know api any more: nothing was changed")
	assert.Empty(t, b.source.asked)
	b = openBench(t)
	b.source.gone = true
	b.showDetail(inspect.Detail{Status: fairsem.Status{Name: "api", Limit: 4}})
	b.press("p")
	b.sees("the limit is stored until it is reset")
	b.run(b.press("y"))
	assert.Equal(t, []string{"resize api 0"}, b.source.asked)
}

// The screen shows the last answer, and the interval between two of them can be long.
func TestAYesToEvictAWaiterDoesNotCountOnceItIsGranted(t *testing.T) {
	t.Parallel()
	b := openBench(t)
	b.source.granted = fmt.Errorf("%w: granted", change.ErrDeclined)
	b.press("jjx")
	b.sees("Evict carol, number 1 in the queue of api?")
	b.run(b.press("y"))
	b.sees("carol was granted its permit meanwhile: ask again to evict it")
	assert.Empty(t, b.source.asked)
	b.press("kx")
	b.run(b.press("y"))
	assert.Equal(t, []string{"evict api h2"}, b.source.asked, "a holder was to lose its permit")
}

func TestAFailedChangeIsExplained(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		fairsem.ErrNotFound:      "alice was gone already",
		context.DeadlineExceeded: "no answer about api: the change may have been made all the same",
		fmt.Errorf("%w: %w", fairsem.ErrUnavailable, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}): "no answer about api: the change may have been made all the same",
		testclient.Reply("NOPERM no\x1b[31m such right"):                                                    `NOPERM no\x1b[31m such right`,
	} {
		b := openBench(t)
		b.source.err = err
		b.press("x")
		b.run(b.press("y"))
		b.sees(want)
	}
}

func TestReadOnlyHasNoKeysThatChangeAnything(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{ReadOnly: true}, api, paused)
	for _, place := range []string{"", "<enter>"} {
		b.press(place)
		if place != "" {
			b.showDetail(inside)
		}
		for _, key := range []string{"R", "l", "p", "u", "x"} {
			b.notice = notice{}
			assert.Nil(t, b.press(key+"y"))
			b.sees("read-only")
		}
		b.seesNot("evict")
		b.seesNot("resize")
		b.press("?")
		for _, verb := range []string{"evict", "resize", "pause", "resume"} {
			b.seesNot(verb)
		}
		b.press("?")
	}
	assert.Empty(t, b.source.asked)
}

func TestThePictureStaysDuringAnOutageWithItsAge(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api)
	b.seesNot("stale")
	b.back(answer{err: errors.New("list: NOAUTH say who you are")})
	b.at = b.at.Add(11 * time.Second)
	b.send(tick(b.at))
	b.sees(`stale for 12s: list: NOAUTH say who you are`)
	b.sees("api")
	b.press("<enter>")
	b.back(answer{err: errors.New("gone"), detail: &inspect.Detail{}})
	b.sees("waiting for an answer…")
	b.press("<esc>")
	b.show(api)
	b.seesNot("stale")

	b.press("<enter>")
	b.showDetail(inside)
	b.showDetail(inside)
	b.press("<esc>")
	b.back(answer{err: errors.New("gone")})
	b.sees("stale for 3s") // not since the answer about one name
	b.show(api)

	b.send(due(b.schedule.number))
	b.send(tick(b.at.Add(time.Second)))
	b.seesNot("stale")
	b.send(tick(b.at.Add(5 * time.Second)))
	b.sees("stale for 5s: no answer")
}

// Each key that opens or leaves a name queries again, and cancels the query in flight: that is no answer.
func TestKeysDuringAnOutageDoNotMakeThePictureLookFresh(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api)
	b.send(due(b.schedule.number))
	for _, keys := range []string{"<enter>", "<esc>"} {
		b.at = b.at.Add(1500 * time.Millisecond)
		b.send(tick(b.at))
		b.press(keys)
		b.send(answer{at: b.at, err: context.Canceled, detail: &inspect.Detail{}})
	}
	b.sees("stale for 3s: no answer")
	b.show(api)
	b.seesNot("stale")
}

func TestNamesThatCannotBeReadAreCountedAndHideNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{})
	b.back(answer{survey: inspect.Survey{Statuses: []fairsem.Status{api}, Unreadable: []error{errors.New("status \"odd\": WRONGTYPE"), errors.New("other")}}})
	b.sees(`2 names cannot be read: status "odd": WRONGTYPE`)
	b.sees("4/4")
	b.show(api)
	b.seesNot("cannot be read")
}

func TestNothingIsSaidToBeInUseWhereNamesAreUnreadable(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api)
	for _, s := range []inspect.Survey{{Unreadable: []error{errors.New("WRONGTYPE")}}, {Missing: errors.New("a primary")}} {
		b.back(answer{survey: s})
		b.sees("No name that can be read is in use.")
	}
	b.show()
	b.sees("No name is in use")
}

func TestSlowQueriesAreLessFrequent(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{Interval: time.Second})
	b.back(answer{survey: inspect.Survey{Statuses: []fairsem.Status{api}}, took: 400 * time.Millisecond})
	assert.Equal(t, time.Second, b.schedule.every())
	b.back(answer{survey: inspect.Survey{Statuses: []fairsem.Status{api}}, took: 1500 * time.Millisecond})
	assert.Equal(t, 3*time.Second, b.schedule.every())
	b.sees("every 3s")
}

func TestAnAnswerForAnotherScreenIsDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{}, api, backup)
	b.send(due(b.schedule.number))
	require.True(t, b.schedule.inFlight)
	b.press("<enter>")
	b.send(answer{survey: inspect.Survey{Statuses: []fairsem.Status{calls}}, at: b.at})
	assert.Equal(t, []string{"api", "backup"}, b.order())
	assert.True(t, b.schedule.inFlight, "the query of the name begins")
	b.send(due(b.schedule.number - 1))
	b.showDetail(inside)
	b.sees("alice")
}

func TestNoScreenIsTooSmallAndNoTextTooBad(t *testing.T) {
	t.Parallel()
	names := []string{"\x1b[2J\x1b]0;t\x07", "a\nb\r\tc", "\u202egnp\u2066", "東京東京東京東京東京東京東京東京", "👨‍👩‍👧‍👦❤️👍🏽", strings.Repeat("हिन्दी", 9), "x" + strings.Repeat("\u0e33", 80), "\xff\xfe", strings.Repeat("x", 512), strings.Repeat("\u0301", 99), "n"}
	var all []fairsem.Status
	var d inspect.Detail
	for i, name := range names {
		all = append(all, fairsem.Status{Name: name, Limit: 1 << 52, Used: rand.Int64N(1 << 53), Waiting: 1 << 40, OldestWait: 1 << 55, Expired: 1 << 50, Pinned: i%2 == 0, Window: time.Duration(i%3) * time.Minute, Exists: true})
		d.Holders = append(d.Holders, fairsem.Ticket{ID: name, Label: name, Token: 1 << 52, Weight: 1 << 52})
		d.Waiters = append(d.Waiters, fairsem.Ticket{ID: name + "w", Label: name, Weight: 1})
	}
	for _, i := range []int{0, 4, 6} {
		d.Status = all[i]
		b := newBench(t, Options{Pattern: names[i]})
		b.options.Address = names[i]
		for _, step := range []func(){
			func() {}, func() { b.show() }, func() { b.show(all...) }, func() { b.press("<pgdn>R") }, func() { b.press("5<enter>") },
			func() { b.back(answer{err: errors.New(strings.Join(names, " "))}) }, func() { b.press("n/" + "n") }, func() { b.press("<esc>?") },
			func() { b.press("?<enter>") }, func() { b.showDetail(d) }, func() { b.press("<pgdn>x") }, func() { b.press("nx") },
		} {
			step()
			for _, size := range [][2]int{{1, 1}, {3, 2}, {20, 5}, {33, 9}, {60, 12}, {80, 24}, {140, 40}, {300, 3}} {
				b.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
				b.fits(size[0], size[1])
			}
		}
	}
}

func (b *bench) fits(width, height int) {
	b.t.Helper()
	lines := strings.Split(b.View().Content, "\n")
	assert.LessOrEqual(b.t, len(lines), height)
	for _, line := range lines {
		assert.LessOrEqual(b.t, max(ansi.StringWidth(line), ansi.StringWidthWc(line)), width, "%q", line)
		assert.Negative(b.t, strings.IndexFunc(ansi.Strip(line), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
	}
}

// The rows of "a\\nb" and of a name with a newline were the same, and so was the question before a pause.
func TestNoTwoNamesLookTheSameInTheTableAndInAQuestion(t *testing.T) {
	t.Parallel()
	backslash, newline := api, api
	backslash.Name, newline.Name = `a\nb`, "a\nb"
	b := newBench(t, Options{}, backslash, newline)
	b.row(`a\nb `)
	b.row(`a\\nb `)
	b.press("p")
	b.sees(`Pause a\nb?`)
	b.press("n<down>p")
	b.sees(`Pause a\\nb?`)
}

func TestAQuestionOnATinyScreenShowsHowToAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{})
	b.send(tea.WindowSizeMsg{Width: 20, Height: 5})
	b.show(api)
	b.press("p")
	b.sees("Pause api?")
	b.sees("y yes")
}

// A terminal draws each of them in a column of its own: the question was beyond the screen.
func TestALabelOfMarksHidesNeitherItsRowNorTheQuestion(t *testing.T) {
	t.Parallel()
	d := inside
	for _, mark := range []string{"\u0e33", "\u0903", "\u1161"} {
		d.Holders = []fairsem.Ticket{holder("h1", "가"+strings.Repeat(mark, 80))}
		b := newBench(t, Options{}, api)
		b.press("<enter>")
		b.showDetail(d)
		b.fits(100, 30)
		assert.Regexp(t, `^ holds .* 2 +3m00s +8\.0s +7  h1$`, strings.TrimRight(b.row("holds"), " "))
		b.press("x")
		b.fits(100, 30)
		b.sees("from api? It has held 2 units for 3m00s")
		b.sees("id h1")
		b.sees("y yes")
	}
}

func TestOfTenThousandNamesThoseOnTheScreenAreDrawn(t *testing.T) {
	all := make([]fairsem.Status, 10_000)
	for i := range all {
		all[i] = fairsem.Status{Name: fmt.Sprintf("name-%05d", i), Limit: 10, Used: int64(i % 10), Exists: true}
	}
	b := newBench(t, Options{}, all...)
	assert.Equal(t, 24, strings.Count(b.screen(), "name-"))
	b.send(tea.KeyPressMsg{Code: tea.KeyEnd})
	b.sees("name-09999")
	b.press("k")
	assert.Contains(t, b.View().Content, "\x1b[7m name-09998", "it is marked where the table is scrolled")
	assert.Less(t, testing.AllocsPerRun(5, func() { b.View() }), 20_000., "it draws what is seen")
}

// A table of some names differs from a table of all.
func TestThereMayBeMoreNamesUntilAllKeysWereWalkedOver(t *testing.T) {
	t.Parallel()
	b := newBench(t, Options{})
	b.back(answer{survey: inspect.Survey{Partial: true}})
	b.sees("No name was found yet; still scanning the keys of the server")
	b.back(answer{survey: inspect.Survey{Statuses: []fairsem.Status{api}, Partial: true}})
	b.sees("still scanning the keys of the server: there may be more names")
	b.back(answer{survey: inspect.Survey{Statuses: []fairsem.Status{api}}})
	assert.NotContains(t, b.screen(), "still scanning")
}

func TestEverythingIsDrawnOnceMoreAfterAChangeOfTheSize(t *testing.T) {
	t.Parallel()
	redraw := newBench(t, Options{}).send(tea.WindowSizeMsg{Width: 60, Height: 20})
	assert.Equal(t, tea.ClearScreen(), redraw())
}
