package text_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

var awkward = []string{
	"", "plain", "a b", "it's", "$(id)", "`id`", "a;b", `back\slash`, "*", "~", "-n", "!1", "#x", "{a,b}", "=ls", "%1", "two\nlines",
	"\x1b[2J\x1b]0;t\a", "nul\x00byte", "bad\xff\xfe", "\u202eturned", "'", "''", `\xff`, "größe 東京",
}

func TestAWordIsOneArgumentOfAShellAndMeansTheText(t *testing.T) {
	t.Parallel()
	for _, s := range awkward {
		word := text.Word(s)
		assert.Equal(t, word, text.Clean(word), "a terminal gets no orders")
		for _, shell := range []string{"sh", "bash"} {
			out, err := exec.CommandContext(t.Context(), shell, "-c", `printf '%s|' `+word).Output()
			require.NoError(t, err)
			argument, ended := strings.CutSuffix(string(out), "|")
			require.True(t, ended)
			assert.True(t, text.Means(argument, s), "%q: %q", s, argument)
		}
	}
	assert.Equal(t, "plain", text.Word("plain"))
	assert.Equal(t, "''", text.Word(""))
	assert.Equal(t, `'it'\''s'`, text.Word("it's"))
	assert.Equal(t, `'bad\xff'`, text.Word("bad\xff"))
	assert.Equal(t, `'back\\slash'`, text.Word(`back\slash`))
}

// A byte that is no text read like the four characters of its escape.
func TestNoTwoTextsAreTheSameWord(t *testing.T) {
	t.Parallel()
	texts := append(slices.Clone(awkward), "\xff", `\\xff`, "\\\xff", `\\\xff`, "\x00", `\x00`, "\n", `\n`, "\u202e", `\u202e`, `\`, `\\`, "\uFFFD", "\u0080", "\x80", `\u0080`)
	of := make(map[string]string)
	for _, s := range texts {
		word := text.Word(s)
		assert.True(t, text.Means(text.Distinct(s), s))
		assert.NotContains(t, of, word, "%q and %q", s, of[word])
		of[word] = s
	}
}

func TestWhatJSONWritesMeansTheText(t *testing.T) {
	t.Parallel()
	for _, s := range awkward {
		var back string
		require.NoError(t, json.Unmarshal(text.JSON(s), &back))
		assert.True(t, text.Means(back, s), "%q", s)
	}
	assert.False(t, text.Means("plai", "plain"))
	assert.False(t, text.Means("", "plain"))
}
