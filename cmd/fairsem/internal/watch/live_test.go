package watch

import (
	"errors"
	"strings"
	"testing"

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

func TestEverythingIsDrawnOnceMoreAfterAChangeOfTheSize(t *testing.T) {
	t.Parallel()
	_, redraw := model{frame: lines(1)}.Update(tea.WindowSizeMsg{Width: 60, Height: 20})
	assert.Equal(t, tea.ClearScreen(), redraw())
}
