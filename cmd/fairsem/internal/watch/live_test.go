package watch

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
)

// shown are the lines of a frame on a terminal of that size.
func shown(f Frame, width, height int, msgs ...tea.Msg) []string {
	var m tea.Model = model{title: "title", frame: f}
	for _, msg := range append([]tea.Msg{tea.WindowSizeMsg{Width: width, Height: height}}, msgs...) {
		m, _ = m.Update(msg)
	}
	return strings.Split(ansi.Strip(m.View().Content), "\n")
}

func lines(n int) Frame {
	return Frame{Text: func(int, int) string { return strings.Repeat("line\n", n) }, Note: "note"}
}

func TestAFrameThatIsTooHighIsCutAndSaysSo(t *testing.T) {
	assert.Equal(t, []string{"title", "", "line", "line", "", "note"}, shown(lines(2), 80, 6))
	assert.Equal(t, []string{"title", "", "line", "…", "", "note"}, shown(lines(3), 80, 6))
}

func TestInALowWindowTheFrameHasOneLineAboveItThatIsTheErrorIfThereIsOne(t *testing.T) {
	t.Parallel()
	bad := trouble{errors.New("bad")}
	quiet := Frame{Text: lines(3).Text}
	for height, rows := range map[int][]string{5: {"line", "line", "line"}, 3: {"line", "line"}, 2: {"line"}, 1: nil} {
		assert.Equal(t, append([]string{"title"}, rows...), shown(quiet, 80, height))
		assert.Equal(t, append([]string{"note"}, rows...), shown(lines(3), 80, height))
		assert.Equal(t, append([]string{"bad"}, rows...), shown(lines(3), 80, height, bad))
	}
}

func TestTroubleIsShownBesideTheLastFrameUntilTheNext(t *testing.T) {
	bad := trouble{errors.New("bad\x1b[2J")}
	assert.Equal(t, []string{"title", "", "line", "", `bad\x1b[2J`}, shown(lines(1), 80, 20, bad))
	assert.Equal(t, []string{"title", "", "line", "line", "", "note"}, shown(lines(1), 80, 20, bad, lines(2)))
}

// Redis stands still: no answer comes, and no error either for as long as the command waits for one.
func TestFrameThatShouldBeNewerSaysHowOldItIs(t *testing.T) {
	t.Parallel()
	at := func(seconds int) tea.Msg {
		return moment(time.Unix(1_000_000, 0).Add(time.Duration(seconds) * time.Second))
	}
	quiet := Frame{Text: lines(1).Text}
	fresh := []string{"title", "", "line"}
	assert.Equal(t, fresh, shown(quiet, 80, 20, at(0), at(2)))
	assert.Equal(t, append(fresh, "", "stale for 3s: no answer"), shown(quiet, 80, 20, at(0), at(3)))
	assert.Equal(t, append(fresh, "", "stale for 1m15s: down"), shown(quiet, 80, 20, at(0), trouble{errDown}, at(75)))
	assert.Equal(t, fresh, shown(quiet, 80, 20, at(0), at(3), quiet, at(4)), "an answer came")
}

func TestFrameIsNotOldBeforeThreeIntervalsHavePassed(t *testing.T) {
	t.Parallel()
	m := model{every: time.Minute, answered: time.Unix(1_000_000, 0)}
	m.now = m.answered.Add(3 * time.Minute)
	assert.Empty(t, m.note())
	m.now = m.now.Add(time.Second)
	assert.Equal(t, "stale for 3m01s: no answer", ansi.Strip(m.note()))
}

func TestEverythingIsDrawnOnceMoreAfterAChangeOfTheSize(t *testing.T) {
	t.Parallel()
	_, redraw := model{frame: lines(1)}.Update(tea.WindowSizeMsg{Width: 60, Height: 20})
	assert.Equal(t, tea.ClearScreen(), redraw())
}
