package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fairsem/fairsem"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Rated is a name and how fast it grants.
type Rated struct {
	fairsem.Status
	Rate float64 // grants a second
}

// Order is one way to sort names. Equals are sorted by name.
type Order struct {
	Key, Title string
	Compare    func(a, b Rated) int
}

// Orders are all of them. By name the first comes first; otherwise the largest value does.
var Orders = []Order{
	{"name", "Name", func(a, b Rated) int { return cmp.Compare(a.Name, b.Name) }},
	{"used", "In use", func(a, b Rated) int { return cmp.Or(cmp.Compare(share(b), share(a)), cmp.Compare(b.Used, a.Used)) }},
	{"waiting", "Waiting", func(a, b Rated) int { return cmp.Compare(b.Waiting, a.Waiting) }},
	{"oldest", "Oldest wait", func(a, b Rated) int { return cmp.Compare(b.OldestWait, a.OldestWait) }},
	{"rate", "Grants/s", func(a, b Rated) int { return cmp.Compare(b.Rate, a.Rate) }},
	{"expired", "Expired", func(a, b Rated) int { return cmp.Compare(b.Expired, a.Expired) }},
}

// OrderIndex is where in Orders that key is; -1: nowhere.
func OrderIndex(key string) int {
	return slices.IndexFunc(Orders, func(o Order) bool { return o.Key == key })
}

// share is the part of the limit that is in use.
func share(r Rated) float64 {
	if r.Limit <= 0 && r.Used <= 0 {
		return 0
	}
	return float64(r.Used) / float64(max(0, r.Limit))
}

// Shows reports whether a name, as it is on the screen, contains the typed text, whatever the case. That text can begin with a
// mark, which alone would be escaped, but is not within a name.
func Shows(name, typed string) bool {
	name = strings.ToLower(text.Distinct(name))
	return strings.Contains(name, strings.ToLower(typed)) || strings.Contains(name, strings.ToLower(text.Distinct(typed)))
}
