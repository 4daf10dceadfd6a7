package history

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// of returns a call of a tenant that was granted one unit.
func of(tenant, id string, token, asked, position, granted int64) Grant {
	return Grant{ID: id, Tenant: tenant, Share: 1, Weight: 1, Token: token, Asked: asked, AskedWall: asked, Position: position, Granted: granted}
}

// with returns the grants with those of an id changed.
func with(grants []Grant, id string, change func(*Grant)) []Grant {
	grants = slices.Clone(grants)
	for i := range grants {
		if grants[i].ID == id {
			change(&grants[i])
		}
	}
	return grants
}

// all returns the grants with all of a tenant changed.
func all(grants []Grant, tenant string, change func(*Grant)) []Grant {
	grants = slices.Clone(grants)
	for i := range grants {
		if grants[i].Tenant == tenant {
			change(&grants[i])
		}
	}
	return grants
}

// unfair is a history in which x is granted a third unit while y, which holds one, waits.
func unfair() []Grant {
	return []Grant{
		of("y", "y0", 9, 1, 0, 2), of("x", "x1", 10, 1, 0, 2), of("x", "x2", 11, 3, 0, 4),
		of("y", "y1", 13, 5, 6, 30), of("x", "x3", 12, 7, 0, 9),
	}
}

// late is a history in which it is not known whether x still held its second unit when it was granted its third.
func late() []Grant {
	grants := with(unfair(), "x2", func(g *Grant) { g.Released = 9 })
	return with(grants, "x3", func(g *Grant) { g.Granted = 29 })
}

// first is a history in which x may have been granted its third unit before y joined the queue.
func first() []Grant {
	return with(unfair(), "x3", func(g *Grant) { g.Asked = 4 })
}

func TestGrantToATenantThatHeldMorePerShareThanOneThatWaitedIsUnfair(t *testing.T) {
	red := [][2]string{{"y1", "x3"}}
	for name, c := range map[string]struct {
		grants []Grant
		pairs  [][2]string
	}{
		"no grants":                                     {nil, nil},
		"one holds more":                                {unfair(), red},
		"one holds as much":                             {with(unfair(), "x2", func(g *Grant) { g.Token, g.Asked, g.AskedWall, g.Granted = 14, 40, 40, 41 }), nil},
		"the grant was a waiter's":                      {with(unfair(), "x3", func(g *Grant) { g.Position = 8 }), red},
		"of the same tenant":                            {all(unfair(), "y", func(g *Grant) { g.Tenant = "x" }), nil},
		"its share is larger":                           {all(unfair(), "x", func(g *Grant) { g.Share = 2 }), nil},
		"its share may be larger":                       {with(unfair(), "x1", func(g *Grant) { g.Share = 2 }), nil},
		"the other's share is larger":                   {all(unfair(), "y", func(g *Grant) { g.Share = 2 }), red},
		"nobody declares a share":                       {all(all(unfair(), "x", func(g *Grant) { g.Share = 0 }), "y", func(g *Grant) { g.Share = 0 }), red},
		"the other is granted first":                    {with(with(unfair(), "y1", func(g *Grant) { g.Token = 12 }), "x3", func(g *Grant) { g.Token = 13 }), nil},
		"the other joined too late":                     {with(unfair(), "y1", func(g *Grant) { g.Position = 8 }), nil},
		"the other is not seen to wait":                 {with(unfair(), "y1", func(g *Grant) { g.Position = 0 }), nil},
		"the other gave up later":                       {with(unfair(), "y1", func(g *Grant) { g.Token, g.Granted, g.Left = 0, 0, 20 }), red},
		"the other gave up before":                      {with(unfair(), "y1", func(g *Grant) { g.Token, g.Granted, g.Left = 0, 0, 8 }), nil},
		"the other gave up some time":                   {with(unfair(), "y1", func(g *Grant) { g.Token, g.Granted, g.Cancelled = 0, 0, true }), nil},
		"it may have released one":                      {with(unfair(), "x1", func(g *Grant) { g.Released = 8 }), nil},
		"it was asked for first":                        {first(), nil},
		"it was asked for first, and was still waiting": {with(first(), "x3", func(g *Grant) { g.Left = 7 }), red},
		"it released one later":                         {with(unfair(), "x1", func(g *Grant) { g.Released = 9 }), red},
		"the other released its one":                    {with(with(unfair(), "x1", func(g *Grant) { g.Released = 5 }), "y0", func(g *Grant) { g.Released, g.Done = 3, 4 }), red},
		"the other may hold its one":                    {with(with(unfair(), "x1", func(g *Grant) { g.Released = 5 }), "y0", func(g *Grant) { g.Released = 3 }), nil},
		"its one weighs two":                            {with(with(unfair(), "x1", func(g *Grant) { g.Released = 5 }), "x2", func(g *Grant) { g.Weight = 2 }), red},
		"the other may hold another":                    {append(unfair(), Grant{ID: "y2", Tenant: "y", Share: 1, Weight: 1, Asked: 8, Cancelled: true}), nil},
		"the other asked for another after that":        {append(unfair(), Grant{ID: "y2", Tenant: "y", Share: 1, Weight: 1, Asked: 9, Cancelled: true}), red},
		"the other waits for another":                   {append(unfair(), of("y", "y2", 14, 5, 6, 31)), red},
		"the other is at its limit":                     {with(unfair(), "y1", func(g *Grant) { g.TenantLimit = 1 }), nil},
		"the other's limit has room":                    {all(unfair(), "y", func(g *Grant) { g.TenantLimit = 2 }), red},
		"the other's first may not fit into its limit": {
			append(all(unfair(), "y", func(g *Grant) { g.TenantLimit = 2 }), Grant{ID: "y2", Tenant: "y", Share: 1, Weight: 2, TenantLimit: 2, Asked: 50}), nil},
		"it was known to be granted too late":        {late(), nil},
		"a later one was known to be granted before": {append(late(), of("x", "x4", 14, 7, 0, 9)), red},
		"it was granted after one that was asked for late": {
			append(with(unfair(), "x3", func(g *Grant) { g.Asked, g.AskedWall = 5, 5 }), of("z", "z", 9, 7, 0, 30)), red},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.pairs, pairs(Unfair(c.grants)))
		})
	}
}

func TestUnfairGrantIsDescribed(t *testing.T) {
	text := Unfair(all(unfair(), "y", func(g *Grant) { g.Share, g.TenantLimit = 2, 7 }))[0].String()
	assert.Contains(t, text, `granted to tenant "x", which held at least 2 units, share 1, while one of tenant "y" waited, which held at most 1, share 2`)
	assert.Contains(t, text, `tenant="y" share=2 tenant_limit=7`)
}

func TestTenantHoldsNoMoreThanItsLimit(t *testing.T) {
	two := func(g *Grant) { g.TenantLimit = 2 }
	for name, c := range map[string]struct {
		grants []Grant
		pairs  [][2]string
	}{
		"no limit":                  {unfair(), nil},
		"one above":                 {all(unfair(), "x", two), [][2]string{{"x1", "x3"}}},
		"another tenant":            {all(unfair(), "y", two), nil},
		"one was released":          {with(all(unfair(), "x", two), "x2", func(g *Grant) { g.Released = 9 }), nil},
		"it may have another limit": {with(all(unfair(), "x", two), "x1", func(g *Grant) { g.TenantLimit = 3 }), nil},
		"it may have no limit":      {with(all(unfair(), "x", two), "x1", func(g *Grant) { g.TenantLimit = 0 }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.pairs, pairs(OverTenantLimit(c.grants)))
		})
	}
}

func TestNoOvertakingIsPromisedWithinATenant(t *testing.T) {
	grants := []Grant{{ID: "a", Position: 10, Token: 100}, {ID: "b", AskedWall: 11, Token: 99}}
	require.Equal(t, [][2]string{{"a", "b"}}, pairs(Overtakes(grants)), "calls that name no tenant")
	assert.Equal(t, [][2]string{{"a", "b"}}, pairs(Overtakes(all(grants, "", func(g *Grant) { g.Tenant, g.Share = "x", 1 }))))
	assert.Empty(t, Overtakes(with(grants, "b", func(g *Grant) { g.Tenant, g.Share = "x", 1 })))
}

// Of four units x holds two and y one, and y waits until x, too, is granted its third.
func TestUnitsAreNotWithheldFromAWaiterWhoseTenantMayHaveThem(t *testing.T) {
	red := [][2]string{{"y1", "x3"}}
	for name, c := range map[string]struct {
		grants []Grant
		limit  int64
		pairs  [][2]string
	}{
		"no grants":                      {nil, 4, nil},
		"one unit is free":               {unfair(), 4, red},
		"no unit is free":                {unfair(), 3, nil},
		"one may be free":                {with(unfair(), "x1", func(g *Grant) { g.Released = 4 }), 3, nil},
		"one was released":               {with(unfair(), "x1", func(g *Grant) { g.Released, g.Done = 4, 5 }), 3, red},
		"one was released too late":      {with(unfair(), "x1", func(g *Grant) { g.Released, g.Done = 4, 7 }), 3, nil},
		"another wants more":             {append(unfair(), Grant{ID: "z", Tenant: "z", Weight: 2, Asked: 50}), 4, nil},
		"its tenant is at its limit":     {all(unfair(), "y", func(g *Grant) { g.TenantLimit = 1 }), 4, nil},
		"its tenant is not at its limit": {all(unfair(), "y", func(g *Grant) { g.TenantLimit = 2 }), 4, red},
		"it joined too late":             {with(unfair(), "y1", func(g *Grant) { g.Position = 7 }), 4, nil},
		"it is granted first":            {with(with(unfair(), "y1", func(g *Grant) { g.Token, g.Granted = 12, 8 }), "x3", func(g *Grant) { g.Token = 13 }), 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.pairs, pairs(Withheld(c.grants, c.limit)))
		})
	}
}

// tied is a history in which x is granted its second unit although y holds as much, waits, and was served longer ago.
func tied() []Grant {
	return []Grant{
		of("y", "y1", 10, 1, 0, 2), of("x", "x1", 11, 1, 0, 2),
		of("y", "y2", 13, 5, 6, 30), of("x", "x2", 12, 7, 0, 9),
	}
}

func TestOfTenantsThatHoldAsMuchTheOneThatWasServedLongestAgoIsNext(t *testing.T) {
	red := [][2]string{{"y2", "x2"}}
	unknown := Grant{ID: "y3", Tenant: "y", Share: 1, Weight: 1, Asked: 1, Done: 8, Cancelled: true} // it may have been granted
	for name, c := range map[string]struct {
		grants []Grant
		pairs  [][2]string
	}{
		"no grants":                        {nil, nil},
		"the other was served longer ago":  {tied(), red},
		"it was served longer ago itself":  {with(with(tied(), "y1", func(g *Grant) { g.Token = 11 }), "x1", func(g *Grant) { g.Token = 10 }), nil},
		"the other came later":             {tied()[1:], nil},
		"the other came before":            {with(tied()[1:], "x1", func(g *Grant) { g.Asked, g.Granted = 7, 8 }), red},
		"neither holds anything":           {with(with(tied(), "x1", func(g *Grant) { g.Released, g.Done = 3, 4 }), "y1", func(g *Grant) { g.Released, g.Done = 3, 4 }), red},
		"only one holds something":         {with(tied(), "x1", func(g *Grant) { g.Released, g.Done = 3, 4 }), nil},
		"neither holds or was served":      {tied()[2:], nil},
		"as much per share":                {all(with(tied(), "x1", func(g *Grant) { g.Weight = 2 }), "x", func(g *Grant) { g.Share = 2 }), red},
		"less per share":                   {all(tied(), "x", func(g *Grant) { g.Share = 2 }), nil},
		"the other does not wait":          {with(tied(), "y2", func(g *Grant) { g.Position = 8 }), nil},
		"the other is at its limit":        {all(tied(), "y", func(g *Grant) { g.TenantLimit = 1 }), nil},
		"the other may hold more":          {append(tied(), unknown), nil},
		"the other may have been served":   {with(append(tied(), unknown), "y3", func(g *Grant) { g.Done = 5 }), nil},
		"the other was refused long ago":   {with(append(with(tied(), "x1", func(g *Grant) { g.Asked = 4 }), unknown), "y3", func(g *Grant) { g.Done = 3 }), red},
		"the other asked for another late": {with(append(tied(), unknown), "y3", func(g *Grant) { g.Asked, g.Done = 9, 0 }), red},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.pairs, pairs(OutOfTurn(c.grants)))
		})
	}
	assert.Empty(t, Unfair(tied()), "neither held more than the other")
}

// The sweep agrees with a check that follows the definition word for word.
func TestChecksOfTenantsAgreeWithACheckOfEveryPair(t *testing.T) {
	unfairOnes, withheldOnes, tiedOnes := 0, 0, 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		grants := make([]Grant, 2+rng.IntN(30))
		for i, token := range rng.Perm(len(grants)) {
			grants[i] = randomOfTenant(rng, i, int64(token)+1)
		}
		before := slices.Clone(grants)
		found, kept, ties := Unfair(grants), Withheld(grants, 20), OutOfTurn(grants)
		require.ElementsMatch(t, slowUnfair(grants), laterIDs(found), "seed %d", seed)
		require.ElementsMatch(t, slowWithheld(grants, 20), laterIDs(kept), "seed %d", seed)
		require.ElementsMatch(t, slowOutOfTurn(grants), laterIDs(ties), "seed %d", seed)
		require.Equal(t, before, grants, "a checker changed its input, seed %d", seed)
		unfairOnes, withheldOnes, tiedOnes = unfairOnes+len(found), withheldOnes+len(kept), tiedOnes+len(ties)
	}
	assert.Greater(t, tiedOnes, 100)
	assert.Greater(t, unfairOnes, 100)
	assert.Greater(t, withheldOnes, 100)
}

// randomOfTenant returns a call that began about when its token says.
func randomOfTenant(rng *rand.Rand, i int, token int64) Grant {
	g := of([]string{"x", "y", "z"}[rng.IntN(3)], string(rune('A'+i)), token, 50+10*token-rng.Int64N(40), 0, 0)
	g.Share, g.Weight = 1+rng.Int64N(2), 1+rng.Int64N(2)
	if rng.IntN(3) > 0 {
		g.Position = max(1, g.Asked+rng.Int64N(6))
	}
	if rng.IntN(6) == 0 {
		g.TenantLimit = 4
	}
	switch rng.IntN(8) {
	case 0:
		g.Token, g.Left = 0, g.Asked+rng.Int64N(40)
	default:
		g.Left = g.Asked + rng.Int64N(3)
		g.Granted = g.Asked + rng.Int64N(60)
		g.Released = g.Granted + rng.Int64N(60)
	}
	if rng.IntN(3) > 0 {
		g.Done = max(g.Released, g.Left) + rng.Int64N(4)
	}
	return g
}

// slowTenant is the certain state of a tenant right before a grant.
type slowTenant struct {
	least, most, largest, leastLimit int64
	leastShare, mostShare            int64
	waits                            bool
}

func slowTenants(grants []Grant, g Grant) map[string]slowTenant {
	earliest, latest := int64(0), int64(math.MaxInt64)
	for _, o := range grants {
		if o.Token > 0 && o.Token <= g.Token {
			earliest = max(earliest, o.Asked, o.Left)
		}
		if o.Token >= g.Token && o.Granted > 0 {
			latest = min(latest, o.Granted)
		}
	}
	found := make(map[string]slowTenant)
	for _, o := range grants {
		s, known := found[o.Tenant]
		if !known {
			s = slowTenant{leastLimit: math.MaxInt64, leastShare: math.MaxInt64}
		}
		s.leastShare, s.mostShare, s.largest = min(s.leastShare, o.Share), max(s.mostShare, o.Share), max(s.largest, o.Weight)
		if o.TenantLimit > 0 {
			s.leastLimit = min(s.leastLimit, o.TenantLimit)
		}
		before := o.Token > 0 && o.Token < g.Token
		waits := o.Position > 0 && o.Position < earliest && !before && (o.Token > 0 || o.Left >= latest)
		s.waits = s.waits || waits
		if before && (o.Released == 0 || o.Released >= latest) {
			s.least += o.Weight
		}
		if o.Asked < latest && (o.Done == 0 || o.Done >= earliest) && !waits && o.ID != g.ID {
			s.most += o.Weight
		}
		found[o.Tenant] = s
	}
	return found
}

func slowUnfair(grants []Grant) (found []string) {
	for _, g := range grants {
		tenants := slowTenants(grants, g)
		x := tenants[g.Tenant]
		for name, y := range tenants {
			if g.Token > 0 && name != g.Tenant && y.waits && y.most+y.largest <= y.leastLimit && x.least*y.leastShare > y.most*x.mostShare {
				found = append(found, g.ID)
			}
		}
	}
	return found
}

func slowOutOfTurn(grants []Grant) (found []string) {
	for _, g := range grants {
		tenants := slowTenants(grants, g)
		x := tenants[g.Tenant]
		for name, y := range tenants {
			if g.Token > 0 && name != g.Tenant && y.waits && y.most+y.largest <= y.leastLimit && x.least*y.leastShare >= y.most*x.mostShare && slowServedBefore(grants, g, name) {
				found = append(found, g.ID)
			}
		}
	}
	return found
}

// slowServedBefore reports whether another tenant was certainly served longer ago than the one of g, right before g.
func slowServedBefore(grants []Grant, g Grant, name string) bool {
	var mine, its, earliest int64
	latest := int64(math.MaxInt64)
	for _, o := range grants {
		if o.Token > 0 && o.Token < g.Token && o.Tenant == g.Tenant {
			mine = max(mine, o.Token)
		}
		if o.Token > 0 && o.Token < g.Token && o.Tenant == name {
			its = max(its, o.Token)
		}
		if o.Token >= g.Token && o.Granted > 0 {
			latest = min(latest, o.Granted)
		}
	}
	for _, o := range grants {
		if o.Token > 0 && o.Token <= mine {
			earliest = max(earliest, o.Asked, o.Left)
		}
	}
	came := int64(math.MaxInt64) // the first of its calls that wait
	for _, o := range grants {
		left := o.Left >= latest
		if o.Token > 0 {
			left = o.Token >= g.Token
		}
		if o.Tenant == name && o.Position > 0 && o.Position < startOf(grants, g) && left {
			came = min(came, o.Position)
		}
	}
	if its == 0 && came >= earliest {
		return false
	}
	for _, o := range grants {
		waits := o.Position > 0 && o.Position < startOf(grants, g) && o.Left >= latest
		if o.Token == 0 && o.Tenant == name && o.Asked < latest && !waits && (o.Done == 0 || o.Done >= earliest) {
			return false
		}
	}
	return mine > its
}

// startOf returns when a grant can have been made at the earliest.
func startOf(grants []Grant, g Grant) (earliest int64) {
	for _, o := range grants {
		if o.Token > 0 && o.Token <= g.Token {
			earliest = max(earliest, o.Asked, o.Left)
		}
	}
	return earliest
}

func slowWithheld(grants []Grant, limit int64) (found []string) {
	for _, g := range grants {
		free, largest := limit, int64(0)
		tenants := slowTenants(grants, g)
		for _, s := range tenants {
			free, largest = free-s.most, max(largest, s.largest)
		}
		for _, s := range tenants {
			if g.Token > 0 && s.waits && free >= largest && s.most+s.largest <= s.leastLimit {
				found = append(found, g.ID)
			}
		}
	}
	return found
}
