package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/colorprofile"
)

// maxDetails is how many violations of one promise are shown.
const maxDetails = 3

// summarize says what was checked and what came of it.
func summarize(out io.Writer, header string, verdicts []verdict) {
	w := &colorprofile.Writer{Forward: out, Profile: profile(out)}
	var text strings.Builder
	fmt.Fprintf(&text, "\n %s\n\n", bold.Render(header+". What was checked:"))
	held := 0
	for _, v := range verdicts {
		mark := good.Render("✓")
		if v.broken {
			mark = bad.Render("✗")
		} else {
			held++
		}
		fmt.Fprintf(&text, " %s %-42s %s\n", mark, v.promise, v.found)
		for _, d := range v.details[:min(maxDetails, len(v.details))] {
			fmt.Fprintf(&text, "   %s\n", strings.ReplaceAll(d.String(), "\n", "\n   "))
		}
	}
	fmt.Fprintf(&text, "\n %d of %d promises held.\n", held, len(verdicts))
	_, _ = io.WriteString(w, text.String()) // there is nobody else to tell
}
