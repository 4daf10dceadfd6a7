package inspect_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/inspect"
)

func TestANameIsFoundByWhatIsOnTheScreenOfIt(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"", "api", "API:", `\x1b[31m`, "\x1b[31m"} {
		assert.True(t, inspect.Shows("Api:\x1b[31m", typed), "%q", typed)
	}
	assert.True(t, inspect.Shows("กำลัง-thai", "ำล"), "it begins with a mark")
	for _, typed := range []string{`a\nb`, `A\\n`, `\`} {
		assert.True(t, inspect.Shows(`a\nb`, typed), "%q, as it is or as it is shown", typed)
	}
	for _, typed := range []string{"c", "31m ", "\x1b\x1b"} {
		assert.False(t, inspect.Shows("Api:\x1b[31m", typed), "%q", typed)
	}
}
