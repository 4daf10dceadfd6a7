package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Violation is a broken promise and the two grants that show it.
type Violation struct {
	What           string
	Earlier, Later Grant
}

func (v Violation) String() string {
	return fmt.Sprintf("%s:\n  %s\n  %s", v.What, v.Earlier, v.Later)
}

// String has what is needed to find the bug.
func (g Grant) String() string {
	return fmt.Sprintf("%s %s weight=%d token=%d place=%d asked=%d granted=%d released=%d asked_wall=%d lost=%t",
		g.Process, g.ID, g.Weight, g.Token, g.Place, g.Asked, g.Granted, g.Released, g.AskedWall, g.Lost)
}

// MostAtOnce is the largest number of units that were held at the same instant. A permit counts from
// Granted up to, and not including, Released.
func MostAtOnce(grants []Grant) int64 {
	var most int64
	sweep(grants, func(_, _ Grant, units int64) { most = max(most, units) })
	return most
}

// OverLimit returns every grant that brought the units held above the limit, as Later, with one that
// was held at that instant as Earlier; Earlier is empty if the grant alone is too large.
func OverLimit(grants []Grant, limit int64) []Violation {
	var found []Violation
	sweep(grants, func(earlier, later Grant, units int64) {
		if units <= limit {
			return
		}
		what := fmt.Sprintf("%d units held at %d, the limit is %d", units, later.Granted, limit)
		found = append(found, Violation{what, earlier, later})
	})
	return found
}

// sweep goes through the grants as they begin, with the units then held, and of those that were
// held already the one that stayed longest; empty if there was none.
func sweep(grants []Grant, visit func(earlier, later Grant, units int64)) {
	began := order(grants, Grant.holds, func(g Grant) int64 { return g.Granted })
	ended := order(grants, Grant.holds, end)
	var units int64
	var longest Grant
	for _, g := range began {
		// What ends at the instant at which another begins is out of its way.
		for len(ended) > 0 && end(ended[0]) <= g.Granted {
			units -= ended[0].Weight
			ended = ended[1:]
		}
		if longest.Granted > 0 && end(longest) <= g.Granted {
			longest = Grant{}
		}
		units += g.Weight
		visit(longest, g, units)
		if longest.Granted == 0 || end(g) > end(longest) {
			longest = g
		}
	}
}

// end is when the grant stopped to count.
func end(g Grant) int64 {
	if g.Released == 0 {
		return math.MaxInt64
	}
	return g.Released
}

// Overtakes returns every grant, as Later, that was made before one whose position in the queue was assigned before it
// asked. One machine must hold the server and all processes, or the clocks say nothing; the server's time of the position
// and the caller's wall clock are compared. Grants without a Place cannot show up as Earlier, grants without an AskedWall
// not as Later; nor can grants that had a larger head start than others.
func Overtakes(grants []Grant) []Violation {
	inLine := func(g Grant) bool { return g.Token > 0 && g.Place > 0 }
	asked := func(g Grant) bool { return g.Token > 0 && g.AskedWall > 0 }
	return backwards("overtook one that was in line before it asked",
		order(grants, inLine, func(g Grant) int64 { return g.Place }), func(g Grant) int64 { return g.Place },
		order(grants, asked, func(g Grant) int64 { return g.AskedWall }), func(g Grant) int64 { return g.AskedWall })
}

// TokensDecrease returns every grant, as Later, that asked after another had been granted and has
// no larger token all the same.
func TokensDecrease(grants []Grant) []Violation {
	granted := func(g Grant) bool { return g.Token > 0 && g.Granted > 0 }
	asked := func(g Grant) bool { return g.Token > 0 && g.Asked > 0 }
	return backwards("asked after the other was granted and has no larger token",
		order(grants, granted, func(g Grant) int64 { return g.Granted }), func(g Grant) int64 { return g.Granted },
		order(grants, asked, func(g Grant) int64 { return g.Asked }), func(g Grant) int64 { return g.Asked })
}

// backwards returns every later grant with a token that is not above those of all the earlier ones
// that lie before it in time. Both are in the order of their times. The largest token so far is
// enough to compare with, which keeps this linear.
func backwards(what string, earlier []Grant, before func(Grant) int64, later []Grant, after func(Grant) int64) []Violation {
	var found []Violation
	var largest Grant
	for _, g := range later {
		for len(earlier) > 0 && before(earlier[0]) < after(g) {
			if earlier[0].Token > largest.Token {
				largest = earlier[0]
			}
			earlier = earlier[1:]
		}
		if largest.Token >= g.Token {
			found = append(found, Violation{what, largest, g})
		}
	}
	return found
}

// TokensRepeat returns the grants that have the same token as another.
func TokensRepeat(grants []Grant) []Violation {
	var found []Violation
	token := func(g Grant) int64 { return g.Token }
	sorted := order(grants, func(g Grant) bool { return g.Token > 0 }, token)
	for i := 1; i < len(sorted); i++ {
		if sorted[i-1].Token == sorted[i].Token {
			found = append(found, Violation{"the same token was granted twice", sorted[i-1], sorted[i]})
		}
	}
	return found
}

// order returns those of the grants that are wanted, by key; grants stay as they are.
func order(grants []Grant, wanted func(Grant) bool, key func(Grant) int64) []Grant {
	sorted := make([]Grant, 0, len(grants))
	for _, g := range grants {
		if wanted(g) {
			sorted = append(sorted, g)
		}
	}
	slices.SortStableFunc(sorted, func(a, b Grant) int { return cmp.Compare(key(a), key(b)) })
	return sorted
}
