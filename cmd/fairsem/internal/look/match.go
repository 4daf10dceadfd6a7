package look

import (
	"path"
	"strings"

	"github.com/google/uuid"
)

// Glob returns what a pattern of *, ? and [a-z] matches, a slash being a character like any other, or
// path.ErrBadPattern.
func Glob(pattern string) (func(string) bool, error) {
	plain := strings.NewReplacer("/", "\x00") // which no argument has
	pattern = plain.Replace(pattern)
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	return func(s string) bool {
		ok, _ := path.Match(pattern, plain.Replace(s)) // the pattern is a good one
		return ok
	}, nil
}

// shortClient is how much of a client id tells it from the others of a screen.
const shortClient = 8

// ShortID is an id for people to read and to type: the beginning of the client's, and which of its permits
// it is. An id that is not of this library's making is as it is.
func ShortID(id string) string {
	client, seq, ok := splitID(id)
	if !ok {
		return id
	}
	return client[:shortClient] + ":" + seq
}

// IsID says whether arg stands for the id: in full, or short.
func IsID(arg, id string) bool { return arg == id || arg == ShortID(id) }

func splitID(id string) (client, seq string, ok bool) {
	client, seq, ok = strings.Cut(id, ":")
	return client, seq, ok && len(client) == 36 && uuid.Validate(client) == nil && seq != "" && strings.Trim(seq, "0123456789") == ""
}
