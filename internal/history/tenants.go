package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// tenant is the declarations of the calls of a tenant, and its state at one instant.
type tenant struct {
	name                  string
	leastShare, mostShare int64 // that a call has declared: which declaration is in effect is unknown
	leastLimit, mostLimit int64 // likewise
	largest               int64 // most units that a call wants

	least, most int64          // units that it holds: least is certain, and more than most is impossible
	line        map[*wait]bool // calls that certainly stand in the queue

	calls  []*wait
	last   *wait // its latest known grant; nil: none
	lastAt int64 // the earliest time at which that can have been made
}

// wait is a call, and its known state at one instant.
type wait struct {
	Grant
	of       *tenant
	asked    bool // it may have reached the server
	queued   bool // it has reached the queue
	left     bool // it may have left the queue
	granted  bool // it had been granted
	released bool // it may have been released
	done     bool // it has been released
}

// become records facts that are known from now on.
func (w *wait) become(known ...*bool) {
	w.count(-1)
	for _, k := range known {
		*k = true
	}
	w.count(1)
	delete(w.of.line, w)
	if w.inLine() {
		w.of.line[w] = true
	}
}

func (w *wait) inLine() bool { return w.queued && !w.left }

// count adds the units of the call to those of its tenant, or subtracts them.
func (w *wait) count(sign int64) {
	if w.granted && !w.released {
		w.of.least += sign * w.Weight
	}
	if w.asked && !w.done && !w.inLine() {
		w.of.most += sign * w.Weight
	}
}

// byTenant returns the grants of each tenant, in the order of the names.
func byTenant(grants []Grant) [][]Grant {
	of := make(map[string][]Grant)
	for _, g := range grants {
		of[g.Tenant] = append(of[g.Tenant], g)
	}
	all := make([][]Grant, 0, len(of))
	for _, some := range of {
		all = append(all, some)
	}
	slices.SortFunc(all, func(a, b []Grant) int { return cmp.Compare(a[0].Tenant, b[0].Tenant) })
	return all
}

// newTenant returns the tenant of some calls.
func newTenant(grants []Grant) *tenant {
	t := &tenant{name: grants[0].Tenant, leastShare: math.MaxInt64, leastLimit: math.MaxInt64, line: make(map[*wait]bool)}
	for _, g := range grants {
		share, limit := max(1, g.Share), g.TenantLimit
		if limit == 0 {
			limit = math.MaxInt64
		}
		t.leastShare, t.mostShare = min(t.leastShare, share), max(t.mostShare, share)
		t.leastLimit, t.mostLimit = min(t.leastLimit, limit), max(t.mostLimit, limit)
		t.largest = max(t.largest, g.Weight)
		t.calls = append(t.calls, &wait{Grant: g, of: t})
	}
	return t
}

// OverTenantLimit returns a violation for every grant that raised the units of its tenant above the limit of the tenant. See [OverLimit].
func OverTenantLimit(grants []Grant) []Violation {
	var found []Violation
	for _, some := range byTenant(grants) {
		t := newTenant(some)
		for _, v := range OverLimit(some, t.mostLimit) {
			v.What = fmt.Sprintf("tenant %q: %s", t.name, v.What)
			found = append(found, v)
		}
	}
	return found
}

// Unfair returns a violation for every grant to a tenant that held more units per share than another tenant, while a call of the other
// one stood in the queue and its limit had room for any of its calls. Later is the grant, Earlier is that call.
//
// Only certain facts count: the tenant that was granted something held at least so much, the other one at most so much, and the
// call was in the queue before the grant was possible, and was granted later or waited for longer. The server made the grants in the
// order of their tokens, so each was made after all calls up to it had begun, and were last known to wait, and before any call
// from it on returned. Position must be a time of [Now]: when the call was first known to be in the queue.
func Unfair(grants []Grant) []Violation {
	var found []Violation
	eachGrant(grants, func(g *wait, all []*tenant) {
		held := float64(g.of.least) / float64(g.of.mostShare)
		for _, other := range all {
			others := float64(other.most) / float64(other.leastShare)
			if other == g.of || held <= others || !other.hasRoom() {
				continue
			}
			if first := other.first(); first != nil {
				what := fmt.Sprintf("granted to tenant %q, which held at least %d units, share %d, while one of tenant %q waited, which held at most %d, share %d",
					g.of.name, g.of.least, g.of.mostShare, other.name, other.most, other.leastShare)
				found = append(found, Violation{what, first.Grant, g.Grant})
			}
		}
	})
	return found
}

// Contested returns how many grants were made while a call of another tenant certainly was in the queue. Without any, [Unfair] can find
// nothing.
func Contested(grants []Grant) (n int) {
	eachGrant(grants, func(g *wait, all []*tenant) {
		if slices.ContainsFunc(all, func(other *tenant) bool { return other != g.of && len(other.line) > 0 }) {
			n++
		}
	})
	return n
}

// OutOfTurn returns a violation for every grant to a tenant that held at least as much per share as another tenant, and was granted
// something later than that one, while a call of the other one stood in the queue and its limit had room for any of its calls. A tenant
// that was never granted anything counts from when that call joined the queue at the latest. Later is the grant, Earlier is that call. Only
// certain facts count, as in [Unfair]. Leave out times at which the server may have forgotten when tenants were granted something.
func OutOfTurn(grants []Grant) []Violation {
	var found []Violation
	eachGrant(grants, func(g *wait, all []*tenant) {
		for _, other := range all {
			if other == g.of || g.of.least*other.leastShare < other.most*g.of.mostShare || !other.hasRoom() || !other.servedBefore(g.of) {
				continue
			}
			if first := other.first(); first != nil {
				what := fmt.Sprintf("granted to tenant %q, which held at least %d units, share %d, while one of tenant %q waited, which held at most %d, share %d, and was granted something longer ago",
					g.of.name, g.of.least, g.of.mostShare, other.name, other.most, other.leastShare)
				found = append(found, Violation{what, first.Grant, g.Grant})
			}
		}
	})
	return found
}

// servedBefore reports whether the last grant of the tenant, or, if there is none, the first of its calls that wait, certainly came
// before the last grant of another one.
func (t *tenant) servedBefore(other *tenant) bool {
	first := t.first()
	switch {
	case other.last == nil || t.last != nil && t.last.Token > other.last.Token:
		return false
	case t.last == nil && (first == nil || first.Position >= other.lastAt):
		return false
	}
	return !slices.ContainsFunc(t.calls, func(w *wait) bool { // it may have been granted after that, and nobody knows
		return w.Token == 0 && w.asked && !w.inLine() && (w.Done == 0 || w.Done >= other.lastAt)
	})
}

// Withheld returns a violation for every grant before which enough units for any call were free, although a call stood in the queue
// whose tenant had room for it within its limit. Later is the grant, Earlier is that call. Only certain facts count, as in
// [Unfair]. Leave out times at which a server that may have lost state grants nothing.
func Withheld(grants []Grant, limit int64) []Violation {
	var found []Violation
	eachGrant(grants, func(g *wait, all []*tenant) {
		free, largest := limit, int64(0)
		for _, t := range all {
			free, largest = free-t.most, max(largest, t.largest)
		}
		for _, t := range all {
			first := t.first()
			if free < largest || first == nil || !t.hasRoom() {
				continue
			}
			what := fmt.Sprintf("at least %d of %d units were free while one of tenant %q waited, which held at most %d", free, limit, t.name, t.most)
			found = append(found, Violation{what, first.Grant, g.Grant})
		}
	})
	return found
}

// hasRoom reports whether the limit of the tenant certainly has room for any of its calls.
func (t *tenant) hasRoom() bool { return t.most <= t.leastLimit-t.largest }

// first returns the call that stands in the queue for longest, or nil.
func (t *tenant) first() *wait {
	var first *wait
	for w := range t.line {
		if first == nil || cmp.Or(cmp.Compare(w.Position, first.Position), cmp.Compare(w.ID, first.ID)) < 0 {
			first = w
		}
	}
	return first
}

// eachGrant visits the grants in the order of their tokens, and passes the state of the tenants right before.
func eachGrant(grants []Grant, visit func(*wait, []*tenant)) {
	var all []*tenant
	var calls []*wait
	for _, some := range byTenant(grants) {
		t := newTenant(some)
		all, calls = append(all, t), append(calls, t.calls...)
	}
	granted := slices.DeleteFunc(slices.Clone(calls), func(w *wait) bool { return w.Token == 0 })
	slices.SortStableFunc(granted, func(a, b *wait) int { return cmp.Compare(a.Token, b.Token) })
	latest := returns(granted)
	byToken, byEarliest, byLatest := changes(calls)
	var earliest int64
	for i, g := range granted {
		earliest = max(earliest, g.Asked, g.Left)
		byToken.advance(g.Token)
		byEarliest.advance(earliest)
		byLatest.advance(latest[i])
		g.count(-1) // it does not hold the granted units yet
		visit(g, all)
		g.count(1)
		g.of.last, g.of.lastAt = g, earliest
	}
}

// returns returns for each grant, in the order of the tokens, when it or a later one was first known to have been made.
func returns(granted []*wait) []int64 {
	latest := make([]int64, len(granted))
	next := int64(math.MaxInt64)
	for i, g := range slices.Backward(granted) {
		if g.Granted > 0 {
			next = min(next, g.Granted)
		}
		latest[i] = next
	}
	return latest
}

// timeline is the facts that become known of calls, and after which token or time.
type timeline []change

type change struct {
	after int64
	of    *wait
	known []*bool
}

func (l *timeline) add(after int64, of *wait, known ...*bool) {
	*l = append(*l, change{after, of, known})
}

// advance makes the facts before a token or time known. The timeline must be sorted.
func (l *timeline) advance(to int64) {
	for len(*l) > 0 && (*l)[0].after < to {
		(*l)[0].of.become((*l)[0].known...)
		*l = (*l)[1:]
	}
}

// changes returns the facts that become known after a token, after the earliest time at which a grant can have been made, and after the
// latest.
func changes(calls []*wait) (byToken, byEarliest, byLatest timeline) {
	for _, w := range calls {
		byLatest.add(w.Asked, w, &w.asked)
		if w.Position > 0 {
			byEarliest.add(w.Position, w, &w.queued)
		}
		if w.Token > 0 {
			byToken.add(w.Token, w, &w.left, &w.granted)
		} else {
			byLatest.add(w.Left, w, &w.left)
		}
		if w.Released > 0 || w.Token > 0 && w.Granted == 0 {
			byLatest.add(w.Released, w, &w.released)
		}
		if w.Done > 0 {
			byEarliest.add(w.Done, w, &w.done)
		}
	}
	for _, l := range []timeline{byToken, byEarliest, byLatest} {
		slices.SortStableFunc(l, func(a, b change) int { return cmp.Compare(a.after, b.after) })
	}
	return byToken, byEarliest, byLatest
}
