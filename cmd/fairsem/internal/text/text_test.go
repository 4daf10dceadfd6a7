package text_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
)

func TestCleanTextHasNothingThatATerminalObeys(t *testing.T) {
	for raw, want := range map[string]string{
		"api:anthropic":             "api:anthropic",
		"größe 東京 🚦":                "größe 東京 🚦",
		"\x1b[2J\x1b]0;title\x07":   `\x1b[2J\x1b]0;title\a`,
		"one\ntwo\r\tthree":         `one\ntwo\r\tthree`,
		"\u202egnp.exe":             `\u202egnp.exe`,
		"zero\u200bwidth":           `zero\u200bwidth`,
		"\u009b31m":                 `\u009b31m`,
		"\xff\xfe":                  `\xff\xfe`,
		"\u2028":                    `\u2028`,
		"deploy\u2800\u3164":        `deploy\u2800\u3164`, // two blanks that count as visible
		"a\u034f\u115f\uffa0b":      `a\u034f\u115f\uffa0b`,
		"o\u0302\u0301":             "o\u0302\u0301", // as Vietnamese is written
		"o\u0302\u0301\u0316\u20dd": "o\u0302\u0301" + `\u0316\u20dd`,
		"\u0301a":                   `\u0301a`,
		"\ufffd":                    "\ufffd", // it stands for itself
		`C:\dir "quoted"`:           `C:\dir "quoted"`,
	} {
		assert.Equal(t, want, text.Clean(raw), "%q", raw)
	}
}

func TestQuotedTextIsCleanToo(t *testing.T) {
	assert.Equal(t, `"a\u2800\n\"b"`, text.Quote("a\u2800\n\"b"))
}

func TestFittedTextHasTheColumnsThatWereAskedFor(t *testing.T) {
	for _, raw := range []string{"", "a", "exactly10!", "longer than ten", "東京東京東京東京", "🚦🚦🚦🚦🚦🚦", "\x1b[31mred", strings.Repeat("\u0301", 40)} {
		assert.Equal(t, 10, text.Columns(text.Fit(raw, 10)), "%q", raw)
	}
	assert.Equal(t, "longer th…", text.Fit("longer than ten", 10))
	assert.Empty(t, text.Fit("anything", 0))
}

func TestBarShowsWhateverIsUsedAndIsFullOnlyWhenTheLimitIsReached(t *testing.T) {
	for _, c := range []struct {
		used, limit int64
		want        string
	}{
		{0, 10, "░░░░"}, {1, 1000, "█░░░"}, {5, 10, "██░░"}, {999, 1000, "███░"}, {10, 10, "████"},
		{12, 10, "████"}, {0, 0, "░░░░"}, {3, 0, "████"}, {1 << 52, 1<<53 - 1, "██░░"},
	} {
		assert.Equal(t, c.want, text.Bar(c.used, c.limit, 4), "%d of %d", c.used, c.limit)
	}
}

func TestAgoIsReadAtAGlance(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 450 * time.Millisecond: "0.4s", 9990 * time.Millisecond: "9.9s", 10 * time.Second: "10s",
		59900 * time.Millisecond: "59s", 61 * time.Second: "1m01s", time.Hour: "1h00m", 26*time.Hour + 5*time.Minute: "1d2h",
	} {
		assert.Equal(t, want, text.Ago(d), d)
	}
}

func TestASpanEndsWithoutZeros(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Second: "10s", 20 * time.Minute: "20m", time.Hour: "1h",
		100 * time.Millisecond: "100ms", time.Hour + time.Second: "1h0m1s", 24 * time.Hour: "24h", 1500 * time.Millisecond: "1.5s",
	} {
		assert.Equal(t, want, text.Span(d))
	}
}

func TestTwoTextsShareALineOnlyWhereBothFit(t *testing.T) {
	assert.Equal(t, "東京  ab", text.Spread("東京", "ab", 8))
	assert.Equal(t, "東京 ab", text.Spread("東京", "ab", 7))
	assert.Equal(t, "東京", text.Spread("東京", "ab", 6))
}
