package main

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// rate is how many units are granted in any window of a length.
type rate struct {
	units  int64
	window time.Duration
}

// parseRate reads units and a window, such as 100/1m. A window without a number is one of its unit.
func parseRate(s string) (rate, error) {
	units, window, ok := strings.Cut(s, "/")
	n, err := strconv.ParseUint(units, 10, 63)
	if !ok || err != nil {
		return rate{}, exit.Usagef("RATE %q is not units and a window: write 5/s, 100/1m or 20/90s", s)
	}
	if window != "" && unicode.IsLetter(rune(window[0])) {
		window = "1" + window
	}
	d, err := time.ParseDuration(window)
	switch {
	case err != nil:
		return rate{}, exit.Usagef("RATE %q has no window: write a length of time after the slash, in ms, s, m or h, such as 5/s, 100/1m or 20/24h", s)
	case n == 0:
		return rate{}, exit.Usagef("RATE %q grants nothing: write at least 1 before the slash", s)
	case d < time.Millisecond:
		return rate{}, exit.Usagef("RATE %q has a window below 1ms: make it longer", s)
	}
	return rate{int64(n), d}, nil
}
