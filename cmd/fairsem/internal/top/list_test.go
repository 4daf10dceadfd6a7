package top

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
)

func listOf(height int, keys ...string) *list {
	l := &list{height: height}
	l.set(keys)
	return l
}

func selectedOf(l *list) string {
	key, _ := l.selected()
	return key
}

func TestSelectionStaysOnItsLineWhileOthersComeGoAndMove(t *testing.T) {
	t.Parallel()
	l := listOf(2, "a", "b", "c", "d")
	l.cursor = 1
	for _, keys := range [][]string{{"d", "c", "b", "a"}, {"b"}, {"x", "y", "z", "b"}, {"b", "x"}} {
		l.set(keys)
		assert.Equal(t, "b", selectedOf(l), keys)
	}
}

func TestSelectionOfALineThatWentIsOnTheOneInItsPlace(t *testing.T) {
	t.Parallel()
	l := listOf(9, "a", "b", "c")
	l.cursor = 1
	l.set([]string{"a", "c"})
	assert.Equal(t, "c", selectedOf(l))
	l.set([]string{"a"})
	assert.Equal(t, "a", selectedOf(l))
	l.set(nil)
	_, ok := l.selected()
	assert.False(t, ok)
	l.set([]string{"d"})
	assert.Equal(t, "d", selectedOf(l))
}

func TestKeysMoveTheSelectionAndStopAtTheEnds(t *testing.T) {
	t.Parallel()
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	l := listOf(10, keys...)
	for _, step := range []struct {
		key  tea.KeyPressMsg
		want int
	}{
		{tea.KeyPressMsg{Code: tea.KeyUp}, 0}, {tea.KeyPressMsg{Code: 'j', Text: "j"}, 1}, {tea.KeyPressMsg{Code: tea.KeyDown}, 2},
		{tea.KeyPressMsg{Code: 'k', Text: "k"}, 1}, {tea.KeyPressMsg{Code: tea.KeyPgDown}, 11}, {tea.KeyPressMsg{Code: tea.KeyPgUp}, 1},
		{tea.KeyPressMsg{Code: tea.KeyEnd}, 99}, {tea.KeyPressMsg{Code: tea.KeyPgDown}, 99}, {tea.KeyPressMsg{Code: tea.KeyHome}, 0},
	} {
		assert.True(t, l.press(step.key, bindings), step.key)
		assert.Equal(t, step.want, l.cursor, step.key)
	}
	assert.False(t, l.press(tea.KeyPressMsg{Code: 'x', Text: "x"}, bindings))
}

func TestSelectionIsAlwaysOnTheScreenAndTheScreenIsFull(t *testing.T) {
	t.Parallel()
	l := listOf(0)
	for range 10_000 {
		switch rand.N(3) {
		case 0:
			keys := make([]string, rand.N(30))
			for i := range keys {
				keys[i] = strconv.Itoa(rand.N(40))
			}
			slices.Sort(keys)
			l.set(slices.Compact(keys))
		case 1:
			l.resize(rand.N(12) - 1)
		default:
			l.press([]tea.KeyPressMsg{{Code: tea.KeyUp}, {Code: tea.KeyDown}, {Code: tea.KeyPgDown}, {Code: tea.KeyPgUp}, {Code: tea.KeyEnd}}[rand.N(5)], bindings)
		}
		from, to := l.visible()
		assert.Equal(t, min(max(1, l.height), len(l.keys)), to-from)
		if len(l.keys) > 0 {
			assert.True(t, from <= l.cursor && l.cursor < to, "%d not in %d to %d", l.cursor, from, to)
		}
	}
}
