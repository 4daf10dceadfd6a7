package text_test

import (
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// Some terminals measure a character at a time, some a cluster that is drawn as one.
func TestWidthOfCleanEmojiIsTheSameForEveryTerminal(t *testing.T) {
	for raw, want := range map[string]string{
		"❤️":   `❤\ufe0f`,
		"👍🏽":   `👍\U0001f3fd`,
		"1️⃣":  `1\ufe0f⃣`,
		"👩‍🚀":  `👩\u200d🚀`,
		"🇩🇪 🚦": "🇩🇪 🚦",
	} {
		got := text.Clean(raw)
		assert.Equal(t, want, got, "%q", raw)
		assert.Equal(t, ansi.StringWidthWc(got), ansi.StringWidth(got), "%q", raw)
	}
}
