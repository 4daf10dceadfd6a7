package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

func TestASlashIsAnOrdinaryCharacterOfAPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"*", "a/b/c", true}, {"a*c", "a/b/c", true}, {"a?b", "a/b", true}, {"a/*", "a/b/c", true},
		{"a/*", "b/a/c", false}, {"[a-c]x", "bx", true}, {"[^a]x", "ax", false}, {`\*`, "*", true}, {`\*`, "x", false},
		{"host:*", "host:12", true}, {"a", "A", false}, {"a", "ab", false}, {"日?", "日本", true}, {"*", "\xff", true},
	} {
		match, err := inspect.Glob(c.pattern)
		require.NoError(t, err)
		assert.Equal(t, c.want, match(c.s), "%q %q", c.pattern, c.s)
	}
	for _, pattern := range []string{"[", "a[b", `a\`, "[]", "[b-"} {
		_, err := inspect.Glob(pattern)
		assert.ErrorContains(t, err, "no pattern", "%q", pattern)
	}
}

func TestOnlyIDsOfThisLibraryHaveAShortForm(t *testing.T) {
	const client = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	assert.Equal(t, "7c9e6679:12", inspect.ShortID(client+":12"))
	for _, id := range []string{"", ":", client, client + ":", client + ":x", client + ":1:2", "x" + client[1:] + ":1", "urn:uuid:" + client + ":1", "{" + client + "}:1"} {
		assert.Equal(t, id, inspect.ShortID(id))
	}
}

func TestAnIDIsSelectedByAnyBeginning(t *testing.T) {
	const id = "63bc9390-8b2f-4f3e-9c39-0d2b7a1f4d10:12"
	for given, want := range map[string]bool{
		id: true, "63bc9390:12": true, "6:12": true, "63bc9390": true, "63bc9390-8b2f-4": true,
		"63bc9390:1": false, "63bc9390:": false, "63bc9390:120": false, ":12": false, "": false, "bc9390:12": false,
	} {
		assert.Equal(t, want, inspect.Abbreviates(given, id), given)
	}
	assert.True(t, inspect.Abbreviates("else", "else"))
	assert.False(t, inspect.Abbreviates("el", "else"))
}
