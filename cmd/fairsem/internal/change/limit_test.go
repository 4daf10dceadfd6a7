package change_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/change"
)

func TestALimitIsANumberThatRedisCanCount(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]int64{"0": 0, "3": 3, "9007199254740991": 1<<53 - 1} {
		limit, err := change.ParseLimit(given)
		assert.NoError(t, err)
		assert.Equal(t, want, limit)
	}
	for given, want := range map[string]string{
		"":                      `"" is not a number of units`,
		"-1":                    `"-1" is not a number of units`,
		"1e3\x1b":               `"1e3\x1b" is not a number of units`,
		"-99999999999999999999": `"-99999999999999999999" is not a number of units`,
		"9007199254740992":      "9007199254740992 is above the maximum, 9007199254740991",
		"99999999999999999999":  "99999999999999999999 is above the maximum, 9007199254740991",
	} {
		_, err := change.ParseLimit(given)
		assert.EqualError(t, err, want)
	}
}
