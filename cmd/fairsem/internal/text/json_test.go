package text_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

func TestJSONIsOneLineWithTheSameValueAndNoControlCharacters(t *testing.T) {
	for _, s := range []string{"", "plain <b>&", "\x1b[2J\x1b]0;t\a", "a\nb\r\u0085\u2028", "\u202eabc\u200b\ufeff", "\u009b31m\x7f", "日本 e\u0301 😀", "\U000e0041", "\u2800\u3164", "\u0301", "o\u0302\u0301\u0316\u0316", `"\u202e"`} {
		line := string(text.JSON(s))
		assert.Equal(t, 1, strings.Count(line, "\n"), "%q", line)
		assert.True(t, strings.HasSuffix(line, "\n"))
		assert.Equal(t, strings.TrimSuffix(line, "\n"), text.Clean(strings.TrimSuffix(line, "\n")), "something is hidden")
		var back string
		require.NoError(t, json.Unmarshal([]byte(line), &back))
		assert.Equal(t, s, back)
	}
	assert.Equal(t, `"<a>"`+"\n", string(text.JSON("<a>")), "HTML is none of its business")
	assert.Panics(t, func() { text.JSON(func() {}) })
}
