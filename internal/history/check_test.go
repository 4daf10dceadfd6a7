package history

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func held(id string, weight, from, to int64) Grant {
	return Grant{ID: id, Weight: weight, Granted: from, Released: to}
}

func TestOverLimit(t *testing.T) {
	for name, c := range map[string]struct {
		grants []Grant
		most   int64
		pairs  [][2]string
	}{
		"no grants":                            {},
		"one after the other":                  {[]Grant{held("a", 2, 1, 5), held("b", 2, 5, 9)}, 2, nil},
		"as many as fit":                       {[]Grant{held("a", 1, 1, 5), held("b", 1, 2, 6)}, 2, nil},
		"one too many":                         {[]Grant{held("a", 1, 1, 5), held("b", 1, 2, 6), held("c", 1, 4, 7)}, 3, [][2]string{{"b", "c"}}},
		"too large together":                   {[]Grant{held("a", 1, 1, 5), held("b", 2, 4, 6)}, 3, [][2]string{{"a", "b"}}},
		"too large alone":                      {[]Grant{held("a", 3, 1, 5)}, 3, [][2]string{{"", "a"}}},
		"above the limit for a nanosecond":     {[]Grant{held("a", 2, 1, 5), held("b", 1, 4, 6)}, 3, [][2]string{{"a", "b"}}},
		"at the same instant":                  {[]Grant{held("a", 2, 1, 5), held("b", 2, 1, 5)}, 4, [][2]string{{"a", "b"}}},
		"never released":                       {[]Grant{held("a", 2, 1, 0), held("b", 1, 90, 91)}, 3, [][2]string{{"a", "b"}}},
		"records in another order":             {[]Grant{held("b", 2, 4, 6), held("a", 1, 1, 5)}, 3, [][2]string{{"a", "b"}}},
		"with a third one in between":          {[]Grant{held("a", 2, 1, 9), held("b", 1, 2, 3), held("c", 1, 5, 6)}, 3, [][2]string{{"a", "b"}, {"a", "c"}}},
		"released at the instant of the grant": {[]Grant{held("a", 2, 3, 3), held("b", 2, 1, 5)}, 2, nil},
		"released before the grant":            {[]Grant{held("a", 2, 1, 5), held("b", 2, 4, 3)}, 2, [][2]string{{"", "b"}}},
		"released before all time":             {[]Grant{held("a", 2, 1, -1)}, 0, [][2]string{{"", "a"}}},
		"of no units":                          {[]Grant{held("a", 2, 1, 5), held("b", 0, 2, 3)}, 2, [][2]string{{"", "b"}}},
		"of fewer than no units":               {[]Grant{held("a", -1, 1, 5), held("b", 2, 2, 3)}, 1, [][2]string{{"", "a"}}},
		"never granted":                        {[]Grant{held("a", 2, 1, 5), {ID: "b", Weight: 2, Asked: 2, Cancelled: true}}, 2, nil},
		"lost before the next grant":           {[]Grant{{ID: "a", Weight: 2, Granted: 1, Released: 3, Lost: true}, held("b", 2, 4, 6)}, 2, nil},
		"lost after the next grant":            {[]Grant{{ID: "a", Weight: 2, Granted: 1, Released: 5, Lost: true}, held("b", 2, 4, 6)}, 4, [][2]string{{"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.most, MostAtOnce(c.grants))
			assert.Equal(t, c.pairs, pairs(OverLimit(c.grants, 2)))
		})
	}
}

func TestOvertakes(t *testing.T) {
	queued := Grant{ID: "a", Position: 10, Token: 100}
	for name, c := range map[string]struct {
		grants []Grant
		pairs  [][2]string
	}{
		"no grants":                          {},
		"first come, first served":           {[]Grant{queued, {ID: "b", AskedWall: 11, Token: 101}}, nil},
		"asked later, granted first":         {[]Grant{queued, {ID: "b", AskedWall: 11, Token: 99}}, [][2]string{{"a", "b"}}},
		"asked at the same time":             {[]Grant{queued, {ID: "b", AskedWall: 10, Token: 99}}, nil},
		"asked before the other was granted": {[]Grant{queued, {ID: "b", AskedWall: 9, Token: 99}}, nil},
		"the other was never granted":        {[]Grant{{ID: "a", Position: 10}, {ID: "b", AskedWall: 11, Token: 99}}, nil},
		"it was never granted itself":        {[]Grant{queued, {ID: "b", AskedWall: 11, Cancelled: true}}, nil},
		"position unknown":                   {[]Grant{{ID: "a", Token: 100}, {ID: "b", AskedWall: 11, Token: 99}}, nil},
		"wall clock unknown":                 {[]Grant{queued, {ID: "b", Token: 99}}, nil},
		"of one that was granted long ago":   {[]Grant{{ID: "old", Position: 1, Token: 2}, queued, {ID: "b", AskedWall: 11, Token: 101}}, nil},
		"by two": {[]Grant{queued, {ID: "b", AskedWall: 11, Token: 98}, {ID: "c", AskedWall: 12, Token: 99}},
			[][2]string{{"a", "b"}, {"a", "c"}}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.pairs, pairs(Overtakes(c.grants)))
		})
	}
}

func TestTokensDecrease(t *testing.T) {
	first := Grant{ID: "a", Asked: 1, Granted: 10, Token: 100}
	for name, c := range map[string]struct {
		later Grant
		pairs [][2]string
	}{
		"larger":                          {Grant{ID: "b", Asked: 11, Granted: 12, Token: 101}, nil},
		"smaller":                         {Grant{ID: "b", Asked: 11, Granted: 12, Token: 99}, [][2]string{{"a", "b"}}},
		"the same":                        {Grant{ID: "b", Asked: 11, Granted: 12, Token: 100}, [][2]string{{"a", "b"}}},
		"smaller, asked meanwhile":        {Grant{ID: "b", Asked: 9, Granted: 12, Token: 99}, nil},
		"smaller, asked at the same time": {Grant{ID: "b", Asked: 10, Granted: 12, Token: 99}, nil},
		"never granted":                   {Grant{ID: "b", Asked: 11, Cancelled: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.pairs, pairs(TokensDecrease([]Grant{c.later, first})))
		})
	}
}

func TestTokensRepeat(t *testing.T) {
	assert.Empty(t, TokensRepeat([]Grant{{ID: "a", Token: 1}, {ID: "b", Token: 2}, {ID: "c"}, {ID: "d"}}))
	again := TokensRepeat([]Grant{{ID: "a", Token: 1}, {ID: "b", Token: 2}, {ID: "c", Token: 1}})
	assert.Equal(t, [][2]string{{"a", "c"}}, pairs(again))
}

// The fast checkers agree with slow ones that follow the definition word for word.
func TestCheckersAgreeWithACheckOfEveryPairAndInstant(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		grants := make([]Grant, 2+rng.IntN(40))
		for i := range grants {
			grants[i] = random(rng, i)
		}
		before := slices.Clone(grants)
		require.Equal(t, slowMost(grants), MostAtOnce(grants), "seed %d", seed)
		require.Equal(t, slowOverLimit(grants, 6), laterIDs(OverLimit(grants, 6)), "seed %d", seed)
		overtook := func(a, b Grant) bool {
			return a.Token > 0 && b.Token > 0 && a.Position > 0 && b.AskedWall > 0 && a.Position < b.AskedWall && a.Token >= b.Token
		}
		require.Equal(t, slowPairs(grants, overtook), laterIDs(Overtakes(grants)), "seed %d", seed)
		decreased := func(a, b Grant) bool {
			return a.Token > 0 && b.Token > 0 && a.Granted > 0 && b.Asked > 0 && a.Granted < b.Asked && a.Token >= b.Token
		}
		require.Equal(t, slowPairs(grants, decreased), laterIDs(TokensDecrease(grants)), "seed %d", seed)
		require.Equal(t, before, grants, "a checker changed its input, seed %d", seed)
	}
}

func TestEarlierGrantOfAViolationWasHeldAtThatInstant(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		grants := make([]Grant, 30)
		for i := range grants {
			grants[i] = random(rng, i)
		}
		for _, v := range OverLimit(grants, 5) { // no grant alone is above 5
			require.True(t, v.Earlier.holds() && v.Earlier.Granted <= v.Later.Granted && end(v.Earlier) > v.Later.Granted, "seed %d: %s", seed, v)
		}
	}
}

func TestViolationNamesBothGrants(t *testing.T) {
	v := OverLimit([]Grant{held("x:1", 2, 1, 5), held("y:7", 1, 4, 6)}, 2)[0]
	assert.Contains(t, v.String(), "3 units held at 4, the limit is 2")
	assert.Contains(t, v.String(), "x:1")
	assert.Contains(t, v.String(), "y:7")
}

func BenchmarkAMillionGrants(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	grants := make([]Grant, 1e6)
	for i := range grants {
		at := int64(i) * 100
		grants[i] = Grant{Weight: 1 + rng.Int64N(5), Token: at + 50, Position: at, AskedWall: at - 50,
			Asked: at - 50, Granted: at + 60, Released: at + 60 + rng.Int64N(10000)}
	}
	for b.Loop() {
		MostAtOnce(grants)
		Overtakes(grants)
		TokensDecrease(grants)
		TokensRepeat(grants)
	}
}

// random returns a grant with few possible instants and tokens, so that grants overlap.
func random(rng *rand.Rand, i int) Grant {
	g := Grant{ID: string(rune('A' + i)), Weight: 1 + rng.Int64N(4), Token: 1 + rng.Int64N(60),
		Position: rng.Int64N(30), AskedWall: rng.Int64N(30), Asked: 1 + rng.Int64N(50)}
	g.Granted = g.Asked + 1 + rng.Int64N(20)
	g.Released = g.Granted + rng.Int64N(10)
	switch rng.IntN(10) {
	case 0:
		g.Released = 0
	case 1:
		g.Token, g.Granted, g.Released, g.Cancelled = 0, 0, 0, true
	}
	return g
}

func slowUnits(grants []Grant, at int64) int64 {
	var units int64
	for _, g := range grants {
		if g.Granted > 0 && g.Granted <= at && (g.Released == 0 || at < g.Released) {
			units += g.Weight
		}
	}
	return units
}

func slowMost(grants []Grant) int64 {
	var most int64
	for at := range int64(200) {
		most = max(most, slowUnits(grants, at))
	}
	return most
}

// slowOverLimit adds the grants one by one in the order in which they began.
func slowOverLimit(grants []Grant, limit int64) []string {
	var found []string
	var soFar []Grant
	for at := range int64(200) {
		for _, g := range grants {
			if g.Granted != at || !g.holds() {
				continue
			}
			if soFar = append(soFar, g); slowUnits(soFar, at) > limit {
				found = append(found, g.ID)
			}
		}
	}
	slices.Sort(found)
	return found
}

func slowPairs(grants []Grant, broken func(a, b Grant) bool) []string {
	var found []string
	for _, b := range grants {
		if slices.ContainsFunc(grants, func(a Grant) bool { return broken(a, b) }) {
			found = append(found, b.ID)
		}
	}
	slices.Sort(found)
	return found
}

func laterIDs(found []Violation) []string {
	var ids []string
	for _, v := range found {
		ids = append(ids, v.Later.ID)
	}
	slices.Sort(ids)
	return ids
}

func pairs(found []Violation) [][2]string {
	var ids [][2]string
	for _, v := range found {
		ids = append(ids, [2]string{v.Earlier.ID, v.Later.ID})
	}
	return ids
}
