package inspect

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/text"
	"github.com/fairsem/fairsem/internal/protocol"
)

// Glob returns a matcher for a pattern of *, ? and [a-z], in which a slash is a character like any other, and so is the one after a
// backslash, or an error if the pattern is invalid. A text without *, ? and [ matches itself, also with a backslash: it may be a name.
func Glob(given string) (func(string) bool, error) {
	if !strings.ContainsAny(given, special) {
		return func(s string) bool { return s == given }, nil
	}
	if _, err := path.Match(given, ""); err != nil {
		return nil, fmt.Errorf(`%q is no pattern: a [ needs its ] and UTF-8 within, a \ needs a character after it; \[ is the character [`, given)
	}
	pattern := parts.FindAllString(given, -1)
	return func(s string) bool { return like(pattern, strings.Split(s, "")) }, nil
}

// Matcher is Glob for the PATTERN of a command, which was checked. "" matches every name, an invalid one none.
func Matcher(pattern string) func(name string) bool {
	matches, err := Glob(cmp.Or(pattern, "*"))
	if err != nil {
		return func(string) bool { return false }
	}
	return matches
}

// parts finds the parts of a valid pattern: each is a * or stands for one character.
var parts = regexp.MustCompile(`(?s)\[(?:\\.|[^\\\]])*\]|\\.|.`)

// like reports whether characters match a pattern. At a mismatch only the last * has to stand for more characters: whatever an earlier
// one could add, the last one can, too.
func like(pattern, characters []string) bool {
	part, next := 0, 0
	star, resume := -1, 0 // the last *, and the character after those that it stands for
	for next < len(characters) {
		switch {
		case part < len(pattern) && pattern[part] == "*":
			star, resume = part, next
			part++
		case part < len(pattern) && likeOne(pattern[part], characters[next]):
			part++
			next++
		case star >= 0:
			resume++
			part, next = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(strings.Join(pattern[part:], ""), "*") == ""
}

// likeOne matches one character. The ? of package path is any character but a slash.
func likeOne(part, character string) bool {
	ok, _ := path.Match(part, character) // valid, as the whole pattern is
	return ok || part == "?"
}

// special are the characters that make a text a pattern.
const special = "*?["

// Exact reports whether a pattern matches only the name that it is.
func Exact(pattern string) bool { return pattern != "" && !strings.ContainsAny(pattern, special) }

// shortClient is how much of a client id distinguishes it from the others on a screen.
const shortClient = 6

// PlainID is an id without its tenant, which is shown beside it: the client's, and the number of the permit. An id that this library did
// not make stays as it is. It can have any bytes.
func PlainID(id string) string {
	client, seq, _, ok := splitID(id)
	if !ok {
		return id
	}
	return client + ":" + seq
}

// ShortID is PlainID for people to read and to type: with the beginning of the client's only.
func ShortID(id string) string {
	client, seq, _, ok := splitID(id)
	if !ok {
		return id
	}
	return client[:shortClient] + ":" + seq
}

// Abbreviates reports whether given stands for an id: it means the id, or is the beginning of its client's, of any length, maybe
// with the number of the permit as in ShortID, and maybe with the tenant after that. An id that this library did not make has no
// other form.
func Abbreviates(given, id string) bool {
	client, seq, tenant, ok := splitID(id)
	if !ok || given == "" {
		return text.Means(given, id)
	}
	head, rest, numbered := strings.Cut(given, ":")
	number, of, named := strings.Cut(rest, ":")
	return head != "" && strings.HasPrefix(client, head) && (!numbered || number == seq) && (!named || text.Means(of, tenant))
}

func splitID(id string) (client, seq, tenant string, ok bool) {
	client, rest, _ := strings.Cut(id, ":")
	seq, tenant, named := strings.Cut(rest, ":")
	seq = strings.TrimSuffix(seq, "#") // of a permit with numbers
	ok = protocol.IsClientID(client) && seq != "" && strings.Trim(seq, "0123456789") == "" && named == (tenant != "")
	return client, seq, tenant, ok
}
