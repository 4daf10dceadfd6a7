package main

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// parseRate reads how many units are granted in any window of a length, such as 100/1m. A window without a number is one of its unit.
func parseRate(s string) (units int64, window time.Duration, err error) {
	first, length, ok := strings.Cut(s, "/")
	n, err := strconv.ParseUint(first, 10, 63)
	if !ok || err != nil {
		return 0, 0, exit.Usagef("RATE %q is not units and a window: write 5/s, 100/1m or 20/90s (fairsem resize changes the limit of a semaphore)", s)
	}
	if length != "" && unicode.IsLetter(rune(length[0])) {
		length = "1" + length
	}
	window, err = time.ParseDuration(length)
	switch {
	case err != nil:
		return 0, 0, exit.Usagef("RATE %q has no window: write a length of time after the slash, in ms, s, m or h, such as 5/s, 100/1m or 20/24h", s)
	case n == 0:
		return 0, 0, exit.Usagef("RATE %q grants nothing: write at least 1 before the slash", s)
	case window < time.Millisecond:
		return 0, 0, exit.Usagef("RATE %q has a window below 1ms: make it longer", s)
	}
	return int64(n), window, nil
}
