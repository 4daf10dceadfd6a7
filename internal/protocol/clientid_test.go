package protocol

import (
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClientIDsAreElevenCharactersAndNeverLookLikeAFlag(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 10_000 { // one in 64 would begin with "-"
		id := NewClientID()
		assert.Len(t, id, 11)
		assert.NotEqual(t, byte('-'), id[0], id)
		assert.True(t, IsClientID(id), id)
		assert.False(t, seen[id], id)
		seen[id] = true
	}
}

// Bits that are always the same would make equal ids more likely than the documentation says.
func TestEveryBitOfAClientIDIsRandom(t *testing.T) {
	t.Parallel()
	const drawn = 20_000
	var ones [64]int
	for range drawn {
		raw, err := base64.RawURLEncoding.DecodeString(NewClientID())
		assert.NoError(t, err)
		for bit := range ones {
			ones[bit] += int(raw[bit/8]>>(bit%8)) & 1
		}
	}
	for bit, count := range ones { // ids that begin with "-" are missing, which moves the first 6 bits by 0.8 %
		assert.Less(t, math.Abs(float64(count)/drawn-0.5), 0.05, "bit %d", bit)
	}
}

func TestOnlyElevenCharactersOfTheAlphabetAreAClientID(t *testing.T) {
	t.Parallel()
	const id = "k3X-9Q_7aZc"
	assert.True(t, IsClientID(id))
	for _, other := range []string{
		"", "-" + id[1:], id[:10], id + "A", id + "=", id[:10] + "d", "k3X+9Q/7aZc", id[:5] + "\n" + id[5:], "k3X:9Q_7aZc",
		strings.Repeat("é", 6)[:11], "7c9e6679-7425-40de-944b-e07fc1f90ae7",
	} {
		assert.False(t, IsClientID(other), "%q", other)
	}
}
