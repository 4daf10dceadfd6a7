package text_test

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

// everyday are words that people write. Those in Hangul are of single letters, as macOS names files.
var everyday = []string{
	"हिन्दी", "चीज़ों", "स्त्री", "हूँ", "น้ำ", "ที่", "ส้มตำ", "ນ້ຳ", "தமிழ்", "কাঁচা", "മലയാളം", "ភ្នំពេញ", "tiếng Việt", "tie\u0302\u0301ng",
	"한국어", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "ﾊﾞﾝﾄﾞ", "שָׁלוֹם", "العَرَبِيَّة", "größe 東京 🚦",
}

func TestEverydayWordsAreShownAsTheyAre(t *testing.T) {
	for _, word := range everyday {
		assert.Equal(t, word, text.Clean(word))
	}
}

// Eighty of them were measured as one character, and a terminal drew a line of them.
func TestPilesOfWhateverBelongsToACharacterAreEscaped(t *testing.T) {
	marks := 0
	for r := rune(0x300); r < 0x20000; r++ {
		for _, base := range []string{"x", "가"} {
			one := base + string(r)
			if cluster, _ := ansi.FirstGraphemeCluster(one, ansi.GraphemeWidth); cluster != one {
				continue
			}
			marks++
			assert.Contains(t, text.Clean(base+strings.Repeat(string(r), 3)), `\`, "%U", r)
		}
	}
	assert.Greater(t, marks, 2000)
	assert.Equal(t, "x\u0e33\u0e33"+`\u0e33`, text.Clean("x\u0e33\u0e33\u0e33"))
	assert.Equal(t, "x\u0903\u0301\u0903\u0301"+`\u0903\u0301`, text.Clean("x\u0903\u0301\u0903\u0301\u0903\u0301"), "of both kinds by turns")
}

func TestWhatIsCutFitsByEveryMeasureAndSoDoesWhatIsFilled(t *testing.T) {
	conjunct := strings.Repeat("क्", 40) // all of it is one character to some terminals
	for _, s := range append([]string{"", "plain", "\x1b[31mred\x1b[m, the rest", conjunct, strings.Repeat("ᄀ", 40), strings.Join(everyday, " ")}, everyday...) {
		for width := range 30 {
			for _, got := range []string{text.Cut(s, width, "…"), text.Cut(s, width, ""), text.Fit(s, width)} {
				assert.LessOrEqual(t, ansi.StringWidth(got), width, "%q", got)
				assert.LessOrEqual(t, ansi.StringWidthWc(got), width, "%q", got)
			}
			assert.Equal(t, width, text.Columns(text.Fit(s, width)), "%q", s)
		}
		assert.Equal(t, s, text.Cut(s, text.Columns(s), "…"))
	}
	assert.Equal(t, "\x1b[31mre…\x1b[m", text.Cut("\x1b[31mred\x1b[m, the rest", 3, "…"))
	assert.Equal(t, strings.Repeat("क्", 9)+"…", text.Cut(conjunct, 10, "…"))
	for line := range strings.SplitSeq(text.Wrap(strings.Join(everyday, " "), 12), "\n") {
		assert.LessOrEqual(t, text.Columns(line), 12, "%q", line)
	}
}
