package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If you change a line that a patch changes, change the patch. Then "go run . -broken" shows whether the checker still finds it.
func TestEveryPatchStillApplies(t *testing.T) {
	t.Parallel()
	all, err := allVariants()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, len(all), 8)
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			assert.NoError(t, v.apply(t.Context(), t.TempDir()))
		})
	}
}

func TestPatchNamesItsCheckerAndItsFault(t *testing.T) {
	for _, head := range []string{"", "Red: S2\n", "Under: nothing, single\n", "Red: S99\nUnder: nothing, single\n", "Red: S2\nUnder: FLUSHALL, single\n"} {
		v := variant{patch: []byte(head)}
		assert.Error(t, v.parseHead(), head)
	}
	v := variant{patch: []byte("Red: S2\nUnder: nothing, single\n")}
	require.NoError(t, v.parseHead())
	assert.Equal(t, limitByContext, v.red)
}
