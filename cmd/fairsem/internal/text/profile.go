package text

import (
	"io"
	"os"

	"github.com/charmbracelet/colorprofile"
)

// Profile is what out can show. NO_COLOR counts whatever its value, see no-color.org.
func Profile(out io.Writer) colorprofile.Profile {
	p := colorprofile.Detect(out, os.Environ())
	if os.Getenv("NO_COLOR") != "" {
		return min(p, colorprofile.ASCII)
	}
	return p
}
