package render

import (
	"strings"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Notes returns remarks about a name in a special state: paused, pinned, and the rate, which in a pause is the declared one.
func Notes(s fairsem.Status) (notes []string) {
	limit := s.Limit
	if inspect.Paused(s) {
		notes, limit = append(notes, "paused"), s.Declared
	} else if s.Pinned {
		notes = append(notes, "pinned")
	}
	if s.Window > 0 {
		notes = append(notes, "rate "+Rate(limit, s.Window))
	}
	return notes
}

// Rate is like 20/1s.
func Rate(limit int64, window time.Duration) string {
	return number(limit) + "/" + text.Span(window)
}

// Count is like "1 holder" and "2 holders".
func Count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return number(n) + " " + what
}

// Elsewhere reports that there are semaphores with other prefixes, and how to select one.
func Elsewhere(prefixes []string) string {
	quoted := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		quoted[i] = text.Brief(prefix)
	}
	return "there are semaphores with the prefix " + strings.Join(quoted, " or ") + ": select it with --prefix"
}
