package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/screen"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// maxViolations is how many violations of one promise are shown.
const maxViolations = 3

// next are the next steps after the demo.
var next = [][2]string{
	{"fairsem demo --redis URL", "the same on a Redis of yours"},
	{"fairsem run NAME --limit 1 --redis URL -- CMD", "one CMD at a time, everywhere"},
	{"fairsem top --redis URL", "your own limits, live"},
	{"fairsem help", "what else there is"},
	{"README.md", "the Go library, its promises"},
}

// summarize writes the events, the verdicts and the next steps.
func summarize(out io.Writer, header string, events []event, verdicts []verdict) {
	width, _ := screen.Width(out)
	s := summary{width: cmp.Or(width, screen.DefaultWidth), signs: signs()}
	s.heading(header)
	for _, e := range events {
		s.add("%s", strings.Join(paragraph(e.when(), e.Text, 11, s.width-11, plainly), "\n"))
	}
	s.heading("What was checked")
	held := 0
	for _, v := range verdicts {
		if v.Held {
			held++
		}
		s.verdict(v)
	}
	s.add("  %d of %d promises held.", held, len(verdicts))
	if held == len(verdicts) {
		s.heading("What to try next")
		for _, n := range next {
			s.pair("  "+n[0], 49, faint.Render(n[1]))
		}
	}
	_, _ = io.WriteString(screen.Writer(out), s.text.String()) // an error cannot be reported anywhere
}

type summary struct {
	text  strings.Builder
	width int
	signs glyphs
}

func (s *summary) add(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

func (s *summary) heading(text string) { s.add("\n %s", bold.Render(text)) }

// pair puts the right text beside the left one, or below if it does not fit there.
func (s *summary) pair(left string, column int, right string) {
	gap := column - text.Columns(left)
	if column+text.Columns(right) > s.width {
		left, gap = left+"\n", 6
	}
	s.add("%s%s%s", left, strings.Repeat(" ", max(1, gap)), right)
}

// verdict writes a line, and the evidence that a promise was broken.
func (s *summary) verdict(v verdict) {
	mark := good.Render(s.signs.right)
	if !v.Held {
		mark = bad.Render(s.signs.wrong)
	}
	s.pair(fmt.Sprintf("  %s %s", mark, v.Promise), 47, v.Found)
	for _, violation := range v.Violations[:min(maxViolations, len(v.Violations))] {
		s.add("    %s", strings.ReplaceAll(violation, "\n", "\n    "))
	}
}
