package text_test

import (
	"encoding/json"
	"os/exec"
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
