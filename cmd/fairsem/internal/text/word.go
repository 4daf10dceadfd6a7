package text

import (
	"strings"
	"unicode"
)

// Distinct is Clean for texts that only their looks distinguish: with a backslash before each backslash, no other text is written like s.
func Distinct(s string) string { return Clean(strings.ReplaceAll(s, `\`, `\\`)) }

// Word returns s, as Distinct writes it, as one word that every shell takes literally: in single quotes if it needs them. Means
// recognizes it again.
func Word(s string) string {
	s = Distinct(s)
	if IsWord(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// IsWord reports whether every shell takes s literally and as one word, without quotes.
func IsWord(s string) bool {
	const anywhere, first = "._/@:+,%=-", "._/@"
	for i, r := range s {
		allowed := anywhere
		if i == 0 {
			allowed = first
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(allowed, r) {
			return false
		}
	}
	return s != ""
}

// Means reports whether given is s, or s as Word or JSON writes it. Arguments cannot contain every byte, and nobody types
// some of them.
func Means(given, s string) bool {
	return given == s || given == Distinct(s) || given == string([]rune(s))
}
