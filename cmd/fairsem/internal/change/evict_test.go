package change

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem"
)

func TestAnIDThatIsMeantComesBeforeThoseThatItAbbreviates(t *testing.T) {
	t.Parallel()
	const library, foreign, raw, literal = "k3X-9Q_7aZc:1", "k3X", "x\x1b", `x\x1b`
	all := []fairsem.Ticket{{ID: library}, {ID: foreign}, {ID: raw}, {ID: literal}}
	assert.Equal(t, []string{foreign}, matching("k3X", all))
	assert.Equal(t, []string{library}, matching("k3X-", all))
	assert.Equal(t, []string{raw}, matching(raw, all))
	assert.Equal(t, []string{raw, literal}, matching(literal, all), "both are written like this")
}
