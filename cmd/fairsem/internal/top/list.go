package top

import (
	"slices"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
)

// keyed is an item with a key that stays while the rest of it changes.
type keyed interface{ key() string }

// find returns the item that has a key, if there is one.
func find[T keyed](items []T, wanted string) (item T, found bool) {
	if i := index(items, wanted); i >= 0 {
		return items[i], true
	}
	return item, false
}

func index[T keyed](items []T, wanted string) int {
	return slices.IndexFunc(items, func(item T) bool { return item.key() == wanted })
}

// list is which of many items are on the screen, and which one is selected. The selection stays on its key while items
// change; if its item is gone, the next one is selected.
type list[T keyed] struct {
	items  []T
	cursor int // of the selected item
	top    int // the first item on the screen
	height int // items on the screen; there is always room for one
}

func (l *list[T]) set(items []T) {
	selected, ok := l.selected()
	l.items = items
	if ok {
		if i := index(items, selected.key()); i >= 0 {
			l.cursor = i
		}
	}
	l.settle()
}

func (l *list[T]) resize(height int) {
	l.height = height
	l.settle()
}

// press takes a key that moves the selection. False: it is none.
func (l *list[T]) press(msg tea.KeyPressMsg, k keys) bool {
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
		l.cursor = len(l.items) - 1
	default:
		return false
	}
	l.settle()
	return true
}

// settle scrolls no further than the selection needs.
func (l *list[T]) settle() {
	l.height = max(1, l.height)
	l.cursor = max(0, min(l.cursor, len(l.items)-1))
	l.top = max(l.cursor-l.height+1, min(l.top, l.cursor))
	l.top = max(0, min(l.top, len(l.items)-l.height))
}

// selected returns the selected item, if there is any.
func (l *list[T]) selected() (item T, ok bool) {
	if l.cursor >= len(l.items) {
		return item, false
	}
	return l.items[l.cursor], true
}

// visible returns the items on the screen.
func (l *list[T]) visible() []T { return l.items[l.top:min(l.top+l.height, len(l.items))] }

func (l *list[T]) draw(columns []column[T], width int, p paint) string {
	return grid(columns, l.visible(), l.cursor-l.top, width, p)
}
