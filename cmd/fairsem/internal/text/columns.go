package text

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Columns is how many columns of a terminal s takes at most. Terminals differ: some draw a letter with its marks in the columns of the
// letter, as in Hindi, others in one for each character.
func Columns(s string) int { return max(ansi.StringWidth(s), ansi.StringWidthWc(s)) }

// Cut returns s if it fits so many columns, else as much of it as fits before end. Escape sequences take no column and are kept. s is
// clean but for them.
func Cut(s string, columns int, end string) string {
	if Columns(s) <= columns {
		return s
	}
	left := columns - Columns(end)
	if left < 0 {
		return ""
	}
	var b strings.Builder
	var state byte
	for full := false; s != ""; {
		part, _, size, next := ansi.DecodeSequence(s, state, nil)
		s, state = s[size:], next
		switch {
		case part[0] == ansi.ESC:
			b.WriteString(part)
		case !full:
			head := fitting(part, left)
			left -= Columns(head)
			b.WriteString(head)
			if full = head != part; full {
				b.WriteString(end)
			}
		}
	}
	return b.String()
}

// fitting returns the longest part of a cluster that fits so many columns: a cluster can be a whole name.
func fitting(cluster string, columns int) string {
	for Columns(cluster) > columns {
		_, size := utf8.DecodeLastRuneInString(cluster)
		cluster = cluster[:len(cluster)-size]
	}
	return cluster
}

// Wrap breaks s, which is clean, between words into lines of so many columns. A longer word is broken, too.
func Wrap(s string, columns int) string { return ansi.WrapWc(s, columns, "") }

// Pad fills s with spaces to so many columns: behind it, or in front of it if it is to be on the right.
func Pad(s string, columns int, right bool) string {
	fill := strings.Repeat(" ", max(0, columns-Columns(s)))
	if right {
		return fill + s
	}
	return s + fill
}

// Spread puts one text to the left and one to the right, if there is room for both.
func Spread(left, right string, columns int) string {
	room := columns - Columns(left)
	if room <= Columns(right) {
		return left
	}
	return left + Pad(right, room, true)
}

// Dispensable returns which column of a table goes first where there is no room: that with the highest rank. One with the rank 0 never goes.
func Dispensable[C any](columns []C, rank func(C) int) (index int, found bool) {
	most := 0
	for i, c := range columns {
		if r := rank(c); r > most {
			index, most = i, r
		}
	}
	return index, most > 0
}
