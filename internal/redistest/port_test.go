package redistest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// So no server of another process answers at the address of one that was killed, and none of this one for a while.
func TestPortIsGivenToNoOtherProcessAndNotAgainSoon(t *testing.T) {
	t.Parallel()
	blocks := shuffled()
	given, taken := make(map[int]bool), []int{}
	for range 2 {
		process := ports{blocks: blocks}
		for range blockSize / 2 {
			port, err := process.next(false)
			require.NoError(t, err)
			assert.False(t, given[port], "%d is given twice", port)
			given[port] = true
		}
		taken = append(taken, process.first)
		t.Cleanup(func() { assert.NoError(t, process.guard.Close()) })
	}
	_, err := (&ports{blocks: taken}).next(false)
	assert.ErrorContains(t, err, "no free block of ports")
}
