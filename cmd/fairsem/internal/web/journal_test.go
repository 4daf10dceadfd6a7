package web

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// A byte that is no UTF-8 was written like the four characters of its escape.
func TestNoTwoNamesAreAlikeInTheJournal(t *testing.T) {
	t.Parallel()
	of := make(map[string]string)
	for _, name := range []string{"a\xff", `a\xff`, `a\\xff`, "a\n", `a\n`, `a" of "b`, "a", "\u202e", `\u202e`, strings.Repeat("\xff", 512), strings.Repeat("\xff", 511)} {
		line := action{verb: "pause", name: name}.String()
		assert.Equal(t, line, text.Clean(line))
		assert.NotContains(t, of, line, "%q and %q", name, of[line])
		of[line] = name
	}
	assert.Equal(t, `evict "a\" of \"b" of "c"`, action{verb: "evict", name: "c", id: `a" of "b`}.String())
}
