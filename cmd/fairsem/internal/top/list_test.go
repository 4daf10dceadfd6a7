package top

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/assert"
)

// line is an item that is nothing but its key.
type line string

func (l line) key() string { return string(l) }

func listOf(height int, lines ...line) *list[line] {
	l := &list[line]{height: height}
	l.set(lines)
	return l
}

func selectedOf(l *list[line]) string {
	selected, _ := l.selected()
	return selected.key()
}

// numbers are lines that say so many numbers, from 0 on.
func numbers(n int) []line {
	lines := make([]line, n)
	for i := range lines {
		lines[i] = line(strconv.Itoa(i))
	}
	return lines
}

func TestTheSelectionStaysOnItsNameWhileRowsChange(t *testing.T) {
	t.Parallel()
	l := listOf(2, "a", "b", "c", "d")
	l.cursor = 1
	for _, lines := range [][]line{{"d", "c", "b", "a"}, {"b"}, {"x", "y", "z", "b"}, {"b", "x"}} {
		l.set(lines)
		assert.Equal(t, "b", selectedOf(l), lines)
	}
}

func TestTheSelectionOfARemovedRowMovesToTheNext(t *testing.T) {
	t.Parallel()
	l := listOf(9, "a", "b", "c")
	l.cursor = 1
	l.set([]line{"a", "c"})
	assert.Equal(t, "c", selectedOf(l))
	l.set([]line{"a"})
	assert.Equal(t, "a", selectedOf(l))
	l.set(nil)
	_, ok := l.selected()
	assert.False(t, ok)
	l.set([]line{"d"})
	assert.Equal(t, "d", selectedOf(l))
}

func TestKeysMoveTheSelectionAndStopAtTheEnds(t *testing.T) {
	t.Parallel()
	l := listOf(10, numbers(100)...)
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
			l.set(slices.DeleteFunc(numbers(rand.N(40)), func(line) bool { return rand.N(2) == 0 }))
		case 1:
			l.resize(rand.N(12) - 1)
		default:
			l.press([]tea.KeyPressMsg{{Code: tea.KeyUp}, {Code: tea.KeyDown}, {Code: tea.KeyPgDown}, {Code: tea.KeyPgUp}, {Code: tea.KeyEnd}}[rand.N(5)], bindings)
		}
		assert.Len(t, l.visible(), min(max(1, l.height), len(l.items)))
		selected, ok := l.selected()
		assert.Equal(t, len(l.items) > 0, ok)
		if ok {
			assert.Contains(t, l.visible(), selected)
		}
	}
}
