package look

import (
	"strconv"
	"time"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Busy reports whether the name has a holder or a waiter.
func Busy(s fairsem.Status) bool { return s.Used != 0 || s.Waiting != 0 }

// Notes say what is special about a name. The rate is the one in force, and in a pause the declared one.
func Notes(s fairsem.Status) (notes []string) {
	limit := s.Limit
	if Paused(s) {
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
	return strconv.FormatInt(limit, 10) + "/" + text.Span(window)
}
