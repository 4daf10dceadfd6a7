package protocol

import (
	"encoding/base64"

	"github.com/google/uuid"
)

// clientIDBytes is how many random bytes a client id has.
const clientIDBytes = 8

// clientIDText writes them in 11 characters: letters, digits, "-" and "_".
var clientIDText = base64.RawURLEncoding.Strict()

// NewClientID returns a new client id: 8 random bytes in base64url. They are the bytes of a random UUID without those
// that contain its version and its variant. An id that begins with "-" would look like a flag in a command line, so it
// is drawn again.
//
// The odds that any two of n clients that are alive at once have the same id are about n²/2^65: 1 in 37 million for a
// million clients. Two such clients have the same permit ids. On a name that both use, Redis takes a request of one for
// a repeated request of the other, so both may rely on one permit. Ids are not secret, and no promise depends on that:
// a message counts only if it contains a position number, which Redis sends to the client that waits there.
func NewClientID() string {
	for {
		random := uuid.New()
		id := clientIDText.EncodeToString(append(random[:6:6], random[14:]...))
		if id[0] != '-' {
			return id
		}
	}
}

// IsClientID reports whether NewClientID can have made an id.
func IsClientID(id string) bool {
	if len(id) != clientIDText.EncodedLen(clientIDBytes) || id[0] == '-' { // the decoder skips line feeds
		return false
	}
	_, err := clientIDText.DecodeString(id)
	return err == nil
}
