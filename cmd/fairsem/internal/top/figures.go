package top

import (
	"errors"
	"net"
	"strconv"
	"strings"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// brief is a number in at most six columns: as it is up to 99999, then 100k, 2.5M, 12G.
func brief(n int64) string {
	if n < 100_000 {
		return strconv.FormatInt(n, 10)
	}
	v, unit := float64(n)/1000, 0
	for v >= 1000 && unit < len("kMGTP")-1 {
		v /= 1000
		unit++
	}
	digits := 0
	if v < 10 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + "kMGTP"[unit:unit+1]
}

// declared is the limit that processes have declared, if one has.
func declared(s fairsem.Status) string {
	if s.Declared == 0 {
		return "none"
	}
	return strconv.FormatInt(s.Declared, 10)
}

// mostInSentence is how much of a text from elsewhere a sentence contains.
const mostInSentence = 40

// short shortens a label or a filter for a sentence.
func short(s string) string { return text.Cut(text.Clean(s), mostInSentence, "…") }

// shortName shortens a name for a sentence, written as in the table.
func shortName(name string) string { return text.Cut(text.Distinct(name), mostInSentence, "…") }

// plainly is an error on one line, for people. A network error is reduced to its cause.
func plainly(err error) string {
	if network, is := errors.AsType[*net.OpError](err); is {
		err = network
	}
	return text.Clean(strings.TrimPrefix(err.Error(), "fairsem: "))
}
