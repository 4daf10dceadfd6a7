package machine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMissingValueIsUnknown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "facts")
	require.NoError(t, os.WriteFile(file, []byte("first word\nmodel name\t: a CPU\nNAME=\"an OS\"\n"), 0o600))
	assert.Equal(t, "a CPU", Value(file, "model name"))
	assert.Equal(t, `"an OS"`, Value(file, "NAME"))
	assert.Equal(t, "first", FirstWord(file))
	for _, missing := range []string{Value(file, "cores"), Value(file+"s", "NAME"), FirstWord(file + "s")} {
		assert.Equal(t, "unknown", missing)
	}
}

func TestFactsContainOnlyTheVersionsOfTheGivenModules(t *testing.T) {
	t.Parallel()
	f := New(t.Context(), "no.such/module")
	assert.Empty(t, f.Versions)
	assert.NotEmpty(t, f.Go)
	assert.Positive(t, f.Cores)
}
