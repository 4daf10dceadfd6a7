// Package text makes text for terminals. Any client of the server can choose names, labels and ids, so text that a terminal
// would take as an order, or that would reorder a line, is shown as an escape.
package text

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clean returns s with everything escaped that is not plainly a visible character or a space: control
// characters, bytes that are no UTF-8, characters that change the direction of text, show as nothing or have no width, piles of
// marks on one character, and characters that change the width of the emoji before them: terminals do not agree by how much.
func Clean(s string) string {
	e := bare
	if strings.IndexFunc(s, e.hides) < 0 && utf8.ValidString(s) {
		return s
	}
	e = bare
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if e.hides(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.QuoteToASCII(s[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

// Quote returns s in quotes, cleaned.
func Quote(s string) string { return Clean(strconv.Quote(s)) }

// Brief returns s in quotes, cleaned and cut: for a text that can be anything, in the middle of a line.
func Brief(s string) string {
	const enough = 60
	return `"` + Cut(Clean(s), enough, "…") + `"`
}

// mostMarks is how many marks above and below a character are legible, and how many beside it. Hindi has words with two and one of them.
const mostMarks = 2

// scanner reads a text, a character at a time. It counts the marks on the last character that is none.
type scanner struct {
	over   int // above, below or around it
	beside int // that take a column of their own
}

// bare is before a text: there is no character that could bear a mark.
var bare = scanner{mostMarks, mostMarks}

// hides reports whether the next character is not plainly visible where it stands.
func (e *scanner) hides(r rune) bool {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		e.over++
		return e.over > mostMarks || hidden(r)
	case unicode.In(r, unicode.Mc, letterMarks):
		e.beside++
		return e.beside > mostMarks || hidden(r)
	}
	*e = scanner{}
	return hidden(r)
}

// letterMarks are the letters that belong to the character before them: the vowel AM of Thai and Lao, the vowels and final consonants of
// Hangul, and the voiced marks of halfwidth Katakana.
var letterMarks = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x0E33, Hi: 0x0EB3, Stride: 0x80}, {Lo: 0x1160, Hi: 0x11FF, Stride: 1}, {Lo: 0xD7B0, Hi: 0xD7FB, Stride: 1}, {Lo: 0xFF9E, Hi: 0xFF9F, Stride: 1},
}}

// brailleBlank is printed as a symbol, of no dots.
const brailleBlank = '\u2800'

func hidden(r rune) bool {
	return !unicode.IsPrint(r) || r == brailleBlank || r >= '\U0001F3FB' && r <= '\U0001F3FF' ||
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// Fit returns s, cleaned, in exactly so many columns: cut, or filled with spaces.
func Fit(s string, width int) string {
	return Pad(Cut(Clean(s), width, "…"), width, false)
}

// Bar draws used of limit in so many columns. Any use is visible, and only a full bar looks full.
func Bar(used, limit int64, width int) string {
	filled := 0
	switch {
	case limit <= 0 && used > 0, used >= limit && limit > 0:
		filled = width
	case limit > 0 && used > 0:
		filled = min(max(1, int(float64(used)/float64(limit)*float64(width))), width-1)
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", width-filled)
}

// Ago is a length of time as people read it, in at most seven columns: 0.4s, 12s, 3m05s, 2h10m, 4d3h.
func Ago(d time.Duration) string {
	seconds := int64(d / time.Second)
	switch {
	case d <= 0:
		return "0s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm%02ds", seconds/60, seconds%60)
	case seconds < 86400:
		return fmt.Sprintf("%dh%02dm", seconds/3600, seconds/60%60)
	}
	return fmt.Sprintf("%dd%dh", seconds/86400, seconds/3600%24)
}

// Stale says how old a picture is that should be newer.
func Stale(age time.Duration) string {
	return "stale for " + strings.Replace(Ago(age.Truncate(time.Second)), ".0", "", 1)
}

// zeros are the parts of a duration that need not be said.
var zeros = regexp.MustCompile("([hm])(?:0m)?0s$")

// Span is a configured duration: 1m, not 1m0s.
func Span(d time.Duration) string { return zeros.ReplaceAllString(d.String(), "$1") }
