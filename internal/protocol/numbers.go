package protocol

import (
	"strconv"
	"strings"
)

// MaxNumbers is the most units of a permit that has numbers. Each number is an entry in Redis.
const MaxNumbers = 1000

// Cost is how many ids without numbers take Redis as long as one of which each unit has a number. The scripts count as well.
func Cost(units int64) int {
	if units == 1 {
		return 1
	}
	return 1 + int(units/8)
}

// NumberList writes the numbers of units as text.
func NumberList(numbers []int64) string {
	var text strings.Builder
	for i, n := range numbers {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strconv.FormatInt(n, 10))
	}
	return text.String()
}

// parseNumbers parses a list of numbers, which may be empty.
func parseNumbers(text, separator string) (numbers []int64, ok bool) {
	if text == "" {
		return nil, true
	}
	for word := range strings.SplitSeq(text, separator) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 0 || n > MaxUnits {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}
