package top

import (
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// list is which of many lines are on the screen, and which one is selected. The selection stays on its key while
// lines come, go and change places; where its line is gone, the one that moved there has it.
type list struct {
	keys   []string
	cursor int // of the selected line
	top    int // the first line on the screen
	height int // lines on the screen; there is always one
}

func (l *list) set(keys []string) {
	selected, ok := l.selected()
	l.keys = keys
	if i := slices.Index(keys, selected); ok && i >= 0 {
		l.cursor = i
	}
	l.settle()
}

func (l *list) resize(height int) {
	l.height = height
	l.settle()
}

// press takes a key that moves the selection. False: it is none.
func (l *list) press(msg tea.KeyPressMsg, k keys) bool {
	switch {
	case key.Matches(msg, k.up):
		l.cursor--
	case key.Matches(msg, k.down):
		l.cursor++
	case key.Matches(msg, k.pageUp):
		l.cursor -= l.height
	case key.Matches(msg, k.pageDown):
		l.cursor += l.height
	case key.Matches(msg, k.home):
		l.cursor = 0
	case key.Matches(msg, k.end):
		l.cursor = len(l.keys) - 1
	default:
		return false
	}
	l.settle()
	return true
}

// settle scrolls no further than the selection needs.
func (l *list) settle() {
	l.height = max(1, l.height)
	l.cursor = max(0, min(l.cursor, len(l.keys)-1))
	l.top = max(l.cursor-l.height+1, min(l.top, l.cursor))
	l.top = max(0, min(l.top, len(l.keys)-l.height))
}

// selected returns the key of the selected line, if there is any.
func (l *list) selected() (string, bool) {
	if l.cursor >= len(l.keys) {
		return "", false
	}
	return l.keys[l.cursor], true
}

// visible returns the lines on the screen, from and to.
func (l *list) visible() (int, int) { return l.top, min(l.top+l.height, len(l.keys)) }
