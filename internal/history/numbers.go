package history

import (
	"fmt"
	"maps"
	"slices"
)

// byNumber returns the grants that had each number, as if each had that unit only.
func byNumber(grants []Grant) map[int64][]Grant {
	of := make(map[int64][]Grant)
	for _, g := range grants {
		g.Weight = 1
		for _, n := range g.Numbers {
			of[n] = append(of[n], g)
		}
	}
	return of
}

// eachNumber returns the violations that a check finds in the grants that had each number, in the order of the numbers.
func eachNumber(grants []Grant, check func([]Grant) []Violation) []Violation {
	var found []Violation
	of := byNumber(grants)
	for _, n := range slices.Sorted(maps.Keys(of)) {
		for _, v := range check(of[n]) {
			v.What = fmt.Sprintf("number %d: %s", n, v.What)
			found = append(found, v)
		}
	}
	return found
}

// NumbersRepeat returns a violation for every grant that has a number that another one held at the same instant, and for every grant that
// has a number twice. See [OverLimit].
func NumbersRepeat(grants []Grant) []Violation {
	return eachNumber(grants, func(of []Grant) []Violation { return OverLimit(of, 1) })
}

// TokensOfNumberDecrease returns a violation for every grant of a number that was held after another one had held it, but has no larger
// token. Later is the grant that was held later. This is more than [TokensDecrease] says: a call that waits may have asked before
// the other one was granted.
func TokensOfNumberDecrease(grants []Grant) []Violation {
	ended := func(g Grant) bool { return g.holds() && g.Released > 0 }
	began := func(g Grant) int64 { return g.Granted }
	return eachNumber(grants, func(of []Grant) []Violation {
		return outOfOrder("was held after the other, but has no larger token", order(of, ended, end), end, order(of, Grant.holds, began), began)
	})
}

// WrongNumbers returns a violation for every grant whose numbers are not as many as its units, ascending, and from 0 to below the limit,
// and for every grant that has numbers although it did not ask for any. Earlier is empty.
func WrongNumbers(grants []Grant, limit int64) []Violation {
	var found []Violation
	for _, g := range grants {
		if g.Granted == 0 && g.Token == 0 {
			continue
		}
		want := int64(0)
		if g.Numbered {
			want = g.Weight
		}
		if wrong := wrongNumbers(g.Numbers, want, limit); wrong != "" {
			found = append(found, Violation{What: wrong, Later: g})
		}
	}
	return found
}

// wrongNumbers returns what is wrong with the numbers of a permit, or "".
func wrongNumbers(numbers []int64, want, limit int64) string {
	if int64(len(numbers)) != want {
		return fmt.Sprintf("it has %d numbers, and asked for %d", len(numbers), want)
	}
	previous := int64(-1)
	for _, n := range numbers {
		if n <= previous || n >= limit {
			return fmt.Sprintf("number %d follows %d, and the limit is %d", n, previous, limit)
		}
		previous = n
	}
	return ""
}
