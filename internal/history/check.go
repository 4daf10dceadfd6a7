package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Violation is a broken promise and the two grants that prove it.
type Violation struct {
	What           string
	Earlier, Later Grant
}

func (v Violation) String() string {
	return fmt.Sprintf("%s:\n  %s\n  %s", v.What, v.Earlier, v.Later)
}

// String contains the data that a reader needs to find the bug.
func (g Grant) String() string {
	text := fmt.Sprintf("%s %s weight=%d token=%d position=%d asked=%d granted=%d released=%d asked_wall=%d lost=%t",
		g.Process, g.ID, g.Weight, g.Token, g.Position, g.Asked, g.Granted, g.Released, g.AskedWall, g.Lost)
	if g.Share > 0 {
		text += fmt.Sprintf(" tenant=%q share=%d tenant_limit=%d done=%d left=%d", g.Tenant, g.Share, g.TenantLimit, g.Done, g.Left)
	}
	if g.Numbered {
		text += fmt.Sprintf(" numbers=%d", g.Numbers)
	}
	return text
}

// MostAtOnce returns the largest number of units that were held at the same instant. A permit counts from Granted up to, but
// not including, Released.
func MostAtOnce(grants []Grant) int64 {
	var most int64
	sweep(grants, func(_, _ Grant, units int64) { most = max(most, units) })
	return most
}

// OverLimit returns a violation for every grant that raised the units in use above the limit. Later is that grant. Earlier is
// one that was held at that instant, or empty if the grant alone is larger than the limit.
//
// A grant of no units, or one that ended before it began, cannot be, and would not count. It is a violation, too: the recording
// is wrong.
func OverLimit(grants []Grant, limit int64) []Violation {
	found := impossible(grants)
	sweep(grants, func(earlier, later Grant, units int64) {
		if units <= limit {
			return
		}
		what := fmt.Sprintf("%d units held at %d, the limit is %d", units, later.Granted, limit)
		found = append(found, Violation{what, earlier, later})
	})
	return found
}

// impossible returns a violation for every grant that no permit can have been. Later is that grant.
func impossible(grants []Grant) []Violation {
	var found []Violation
	for _, g := range grants {
		switch {
		case g.Granted == 0:
		case g.Weight <= 0:
			found = append(found, Violation{What: "the record is wrong: it has no units", Later: g})
		case g.Released != 0 && g.Released < g.Granted:
			found = append(found, Violation{What: "the record is wrong: it ended before it began", Later: g})
		}
	}
	return found
}

// sweep visits the grants in the order in which they begin. It passes the units in use at that instant, and, of the grants
// already held, the one that is held longest. That one is empty if there was none.
func sweep(grants []Grant, visit func(earlier, later Grant, units int64)) {
	began := order(grants, Grant.holds, func(g Grant) int64 { return g.Granted })
	ended := order(grants, Grant.holds, end)
	var units int64
	var longest Grant
	for _, g := range began {
		// A grant that ends at the instant at which another begins no longer counts.
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

// end returns when the grant stopped counting against the limit.
func end(g Grant) int64 {
	if g.Released == 0 {
		return math.MaxInt64
	}
	return g.Released
}

// Overtakes returns a violation for every grant that was made before another one of the same tenant whose position in the queue was
// assigned before the first one asked. Later is the grant that overtook. The server's time of the position is compared with the
// caller's wall clock, so the server and all processes must run on one machine. A grant without a Position is never Earlier.
// A grant without an AskedWall is never Later. Leave out grants that had a larger head start than others.
func Overtakes(grants []Grant) []Violation {
	var found []Violation
	for _, of := range byTenant(grants) {
		found = append(found, overtakesOfOne(of)...)
	}
	return found
}

func overtakesOfOne(grants []Grant) []Violation {
	queued := func(g Grant) bool { return g.Token > 0 && g.Position > 0 }
	asked := func(g Grant) bool { return g.Token > 0 && g.AskedWall > 0 }
	return outOfOrder("was granted before one that was queued before it asked",
		order(grants, queued, func(g Grant) int64 { return g.Position }), func(g Grant) int64 { return g.Position },
		order(grants, asked, func(g Grant) int64 { return g.AskedWall }), func(g Grant) int64 { return g.AskedWall })
}

// TokensDecrease returns a violation for every grant that asked after another one had been granted, but has no larger token.
// Later is the grant that asked later.
func TokensDecrease(grants []Grant) []Violation {
	granted := func(g Grant) bool { return g.Token > 0 && g.Granted > 0 }
	asked := func(g Grant) bool { return g.Token > 0 && g.Asked > 0 }
	return outOfOrder("asked after the other was granted, but has no larger token",
		order(grants, granted, func(g Grant) int64 { return g.Granted }), func(g Grant) int64 { return g.Granted },
		order(grants, asked, func(g Grant) int64 { return g.Asked }), func(g Grant) int64 { return g.Asked })
}

// outOfOrder returns a violation for every grant of later whose token is not larger than the tokens of all grants of earlier
// that precede it in time. Both slices must be sorted by time. Comparing with the largest token so far is enough, so this is
// linear.
func outOfOrder(what string, earlier []Grant, before func(Grant) int64, later []Grant, after func(Grant) int64) []Violation {
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

// TokensRepeat returns a violation for every grant that has the same token as another one.
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

// order returns the wanted grants, sorted by key. It does not change grants.
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
