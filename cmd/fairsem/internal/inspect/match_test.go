package inspect_test

import (
	"path"
	"strings"
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
		{"h[/-9]*", "h-1", false}, {"h[/-9]*", "h/1", true}, {"h[/-9]*", "h5", true}, {"x[.-/]y", "x/y", true}, {"x[.-/]y", "x-y", false},
		{"[^/]", "/", false}, {"[^a]", "/", true}, {"[/]", "/", true}, {`a\/b*`, "a/b", true}, {"a?*/?", "a//b//c", true},
		{"team-a/*", "team-a\x00secret", false}, {"a/b", "a\x00b", false}, {"a\x00b", "a/b", false}, {"[\x00-.]", "/", false}, {"a?b", "a\x00b", true},
		{`[\]-\^]*`, "]x", true}, {`[\]-\^]*`, "_x", false}, {`\[*\]`, "[a/b]", true}, {"a]*", "a]b", true}, {`\*`, "*", true}, {`\*a`, "ba", false},
		{"*ab*ab", "abab", true}, {"*ab*ab", "ab", false}, {"*aab", "aaab", true}, {"a*", "b", false}, {"a**", "a", true}, {"a*?", "a", false},
		{"\xff*", "\xff/a", true}, {"\xff*", "\xfe", false}, {"?", "\xff", true}, {"?", "\xff\xfe", false}, {"\ufffd", "\xff", false},
		{"*\n*", "a\nb", true}, {"?", "\n", true},
		{`back\slash`, `back\slash`, true}, {`back\slash`, "backslash", false}, {`back\s*`, "backslash", true}, {`a\`, `a\`, true},
		{"host:*", "host:12", true}, {"a", "A", false}, {"a", "ab", false}, {"日?", "日本", true}, {"*", "\xff", true},
	} {
		match, err := inspect.Glob(c.pattern)
		require.NoError(t, err)
		assert.Equal(t, c.want, match(c.s), "%q %q", c.pattern, c.s)
	}
	for _, pattern := range []string{"[", "a[b", `*a\`, "[]", "[b-", "[\xff]*"} {
		_, err := inspect.Glob(pattern)
		assert.ErrorContains(t, err, "no pattern", "%q", pattern)
	}
}

// Where there is no slash, path.Match is the measure. A text without any of its special characters can be a name, with a backslash.
func TestPatternsWithoutASlashMatchAsThoseOfPackagePath(t *testing.T) {
	words := func(letters string, most int) []string {
		all := []string{""}
		for from, length := 0, 0; length < most; length++ {
			to := len(all)
			for _, word := range all[from:to] {
				for _, letter := range strings.Split(letters, "") {
					all = append(all, word+letter)
				}
			}
			from = to
		}
		return all
	}
	names := words("ab]-", 3)
	for _, pattern := range words(`ab*?[]^-\`, 5) {
		if inspect.Exact(pattern) {
			continue
		}
		_, bad := path.Match(pattern, "")
		match, err := inspect.Glob(pattern)
		require.Equal(t, bad != nil, err != nil, "%q", pattern)
		for _, name := range names {
			if want, err := path.Match(pattern, name); err == nil && match(name) != want {
				require.Fail(t, "another answer than that of package path", "%q %q", pattern, name)
			}
		}
	}
}

func TestOnlyIDsOfThisLibraryHaveAShortForm(t *testing.T) {
	const client = "k3X-9Q_7aZc"
	assert.Equal(t, "k3X-9Q:12", inspect.ShortID(client+":12"))
	assert.Equal(t, client+":12", inspect.PlainID(client+":12"))
	assert.Equal(t, "k3X-9Q:12", inspect.ShortID(client+":12#"), "with numbers")
	assert.Equal(t, "k3X-9Q:12", inspect.ShortID(client+":12:a tenant:\x1b[2J"))
	assert.Equal(t, client+":12", inspect.PlainID(client+":12:a tenant:\x1b[2J"))
	for _, id := range []string{"", ":", client, client + ":", client + ":x", client + ":1:", client + ":1x:2", client + "::2", "+" + client[1:] + ":1", "-" + client[1:] + ":1", "x" + client + ":1", client[1:] + ":1", "7c9e6679-7425-40de-944b-e07fc1f90ae7:1"} {
		assert.Equal(t, id, inspect.ShortID(id))
		assert.Equal(t, id, inspect.PlainID(id))
	}
}

func TestAnIDIsSelectedByAnyBeginning(t *testing.T) {
	const id = "_3X-9Q_7aZc:12"
	for given, want := range map[string]bool{
		id: true, "_3X-9Q:12": true, "_:12": true, "_3X-": true, "_3X-9Q_7aZc": true,
		"_3X-9Q:1": false, "_3X-9Q:": false, "_3X-9Q:120": false, ":12": false, "": false, "3X-9Q:12": false, "_3x-9q:12": false,
	} {
		assert.Equal(t, want, inspect.Abbreviates(given, id), given)
	}
	for given, want := range map[string]bool{
		"_3X-9Q:12": true, "_3X-9Q_7aZc:12": true, "_3X": true, id + ":te\xffn:ant": true, id + `:te\xffn:ant`: true, id + ":te\ufffdn:ant": true,
		id + ":": false, id + ":te": false, id + ":te\xffn": false, "_3X-9Q:1": false,
	} {
		assert.Equal(t, want, inspect.Abbreviates(given, id+":te\xffn:ant"), given)
	}
	assert.False(t, inspect.Abbreviates(id+":tenant", id))
	assert.True(t, inspect.Abbreviates(id, id+"#"), "with numbers")
	assert.True(t, inspect.Abbreviates("else", "else"))
	assert.True(t, inspect.Abbreviates(`el\x1bse`, "el\x1bse"))
	assert.False(t, inspect.Abbreviates("el", "else"))
}
