package history

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// numbered returns a permit that held the numbers.
func numbered(id string, token, from, to int64, numbers ...int64) Grant {
	return Grant{ID: id, Weight: int64(len(numbers)), Numbered: true, Numbers: numbers, Token: token, Granted: from, Released: to}
}

func TestNoTwoPermitsHaveTheSameNumberAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		grants []Grant
		pairs  [][2]string
	}{
		"no grants":                 {},
		"one after the other":       {[]Grant{numbered("a", 1, 1, 5, 0), numbered("b", 2, 5, 9, 0)}, nil},
		"different numbers":         {[]Grant{numbered("a", 1, 1, 5, 0), numbered("b", 2, 2, 9, 1)}, nil},
		"the same number":           {[]Grant{numbered("a", 1, 1, 5, 0), numbered("b", 2, 4, 9, 0)}, [][2]string{{"a", "b"}}},
		"one of several":            {[]Grant{numbered("a", 1, 1, 5, 0, 1, 2), numbered("b", 2, 4, 9, 2, 3)}, [][2]string{{"a", "b"}}},
		"two of several":            {[]Grant{numbered("a", 1, 1, 5, 0, 1), numbered("b", 2, 4, 9, 0, 1)}, [][2]string{{"a", "b"}, {"a", "b"}}},
		"twice in one permit":       {[]Grant{numbered("a", 1, 1, 5, 3, 3)}, [][2]string{{"a", "a"}}},
		"never released":            {[]Grant{numbered("a", 1, 1, 0, 0), numbered("b", 2, 90, 91, 0)}, [][2]string{{"a", "b"}}},
		"lost before the next":      {[]Grant{numbered("a", 1, 1, 3, 0), numbered("b", 2, 4, 6, 0)}, nil},
		"of another without number": {[]Grant{numbered("a", 1, 1, 5, 0), {ID: "b", Weight: 1, Token: 2, Granted: 2, Released: 4}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.pairs, pairs(NumbersRepeat(c.grants)))
		})
	}
	assert.Contains(t, NumbersRepeat([]Grant{numbered("a", 1, 1, 5, 7), numbered("b", 2, 4, 9, 7)})[0].String(), "number 7: 2 units held at 4")
}

func TestTokensOfANumberIncrease(t *testing.T) {
	first := numbered("a", 10, 1, 5, 0)
	for name, c := range map[string]struct {
		later Grant
		pairs [][2]string
	}{
		"larger":                {numbered("b", 11, 6, 9, 0), nil},
		"smaller":               {numbered("b", 9, 6, 9, 0), [][2]string{{"a", "b"}}},
		"the same":              {numbered("b", 10, 6, 9, 0), [][2]string{{"a", "b"}}},
		"of another number":     {numbered("b", 9, 6, 9, 1), nil},
		"of one of several":     {numbered("b", 9, 6, 9, 1, 0), [][2]string{{"a", "b"}}},
		"held at the same time": {numbered("b", 9, 4, 9, 0), nil}, // which NumbersRepeat finds
		"never seen to be live": {numbered("b", 9, 6, 6, 0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.pairs, pairs(TokensOfNumberDecrease([]Grant{c.later, first})))
		})
	}
	waited := numbered("b", 9, 6, 9, 0)
	first.Asked, waited.Asked = 1, 1
	assert.Empty(t, TokensDecrease([]Grant{first, waited}), "it asked before the other was granted: only the number shows that it came later")
	assert.Equal(t, [][2]string{{"a", "b"}}, pairs(TokensOfNumberDecrease([]Grant{first, waited})))
}

func TestNumbersAreAsManyAsTheUnitsAndBelowTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		grant Grant
		wrong bool
	}{
		"as they should be":   {numbered("a", 1, 1, 5, 0, 2, 3), false},
		"not asked for":       {Grant{ID: "a", Weight: 2, Granted: 1}, false},
		"never granted":       {Grant{ID: "a", Weight: 2, Numbered: true, Cancelled: true}, false},
		"at the limit":        {numbered("a", 1, 1, 5, 4), true},
		"below 0":             {numbered("a", 1, 1, 5, -1), true},
		"in descending order": {numbered("a", 1, 1, 5, 2, 1), true},
		"twice the same":      {numbered("a", 1, 1, 5, 1, 1), true},
		"too few":             {Grant{ID: "a", Weight: 2, Numbered: true, Numbers: []int64{1}, Granted: 1}, true},
		"none":                {Grant{ID: "a", Weight: 1, Numbered: true, Granted: 1}, true},
		"though not asked":    {Grant{ID: "a", Weight: 1, Numbers: []int64{1}, Granted: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.wrong, len(WrongNumbers([]Grant{c.grant}, 4)) > 0)
		})
	}
}

func TestChecksOfNumbersAgreeWithACheckOfEveryPair(t *testing.T) {
	repeated, decreased := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		grants := make([]Grant, 2+rng.IntN(30))
		for i := range grants {
			grants[i] = random(rng, i)
			grants[i].Numbered, grants[i].Numbers = true, []int64{rng.Int64N(3), 3 + rng.Int64N(3)}
		}
		before := slices.Clone(grants)
		found, smaller := NumbersRepeat(grants), TokensOfNumberDecrease(grants)
		require.Equal(t, slowRepeats(grants), len(found) > 0, "seed %d", seed)
		require.Equal(t, slowDecreases(grants), len(smaller) > 0, "seed %d", seed)
		require.Equal(t, before, grants, "a checker changed its input, seed %d", seed)
		repeated, decreased = repeated+len(found), decreased+len(smaller)
	}
	assert.Greater(t, repeated, 100)
	assert.Greater(t, decreased, 100)
}

func slowRepeats(grants []Grant) bool {
	return anyPair(grants, func(a, b Grant) bool { return a.ID != b.ID && a.Granted <= b.Granted && b.Granted < end(a) })
}

func slowDecreases(grants []Grant) bool {
	return anyPair(grants, func(a, b Grant) bool { return end(a) < b.Granted && a.Token >= b.Token })
}

// anyPair reports whether two permits that held the same number break a promise.
func anyPair(grants []Grant, broken func(a, b Grant) bool) bool {
	for _, a := range grants {
		for _, b := range grants {
			common := slices.ContainsFunc(a.Numbers, func(n int64) bool { return slices.Contains(b.Numbers, n) })
			if common && a.holds() && b.holds() && broken(a, b) {
				return true
			}
		}
	}
	return false
}
