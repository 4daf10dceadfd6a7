package text

import (
	"strings"
	"unicode"
)

// Word returns s, cleaned, as one word that every shell takes literally: in single quotes if it needs them. Means recognizes
// it again.
func Word(s string) string {
	s = Clean(s)
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
	return given == s || given == Clean(s) || given == string([]rune(s))
}
