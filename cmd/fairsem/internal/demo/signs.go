package demo

import (
	"cmp"
	"os"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
)

var (
	plainly = screen.Plain
	bold    = screen.Bold
	faint   = screen.Faint
	bad     = screen.Bad
	good    = screen.Good.Bold(true)
	moving  = screen.Note.Bold(true)
)

// glyphs are the signs that text is drawn with.
type glyphs struct {
	unit, free, upper, lower string // units; the brackets bind two of one holder
	rest, half, spent        string // of a lease
	up                       string // moved up
	start, wall, fork        string // the way in
	corner, in               string
	right, wrong             string
	border                   lipgloss.Border
	ascii                    bool // nothing else can be shown
}

var (
	fine = glyphs{
		unit: "■", free: "□", upper: "┐", lower: "┘",
		rest: "━", half: "╸", spent: "─",
		up:    "▲",
		start: "┏━", wall: "┃", fork: "┫", corner: "┛", in: "◀━",
		right: "✓", wrong: "✗",
		border: lipgloss.RoundedBorder(),
	}
	coarse = glyphs{
		unit: "#", free: ".", upper: `\`, lower: "/",
		rest: "=", half: "-", spent: " ",
		up:    "^",
		start: "+-", wall: "|", fork: "+", corner: "+", in: "<-",
		right: "+", wrong: "x",
		border: lipgloss.ASCIIBorder(),
		ascii:  true,
	}
)

// signs returns the signs that the locale has. Without a locale the terminal is taken to show more than ASCII.
func signs() glyphs {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"), "utf-8"))
	if strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8") {
		return fine
	}
	return coarse
}

// only puts a question mark where a sign cannot be shown.
func (g glyphs) only(s string) string {
	return strings.Map(func(r rune) rune {
		if g.ascii && r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, s)
}
