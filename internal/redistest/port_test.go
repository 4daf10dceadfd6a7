package redistest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// So no server of another process answers at the address of one that was killed, and none of this one for a while.
func TestPortIsGivenToNoOtherProcessAndAgainOnlyAfterAllOthers(t *testing.T) {
	t.Parallel()
	blocks := []int{firstPort - 2*blockSize, firstPort - blockSize} // no other test uses them
	given := make(map[int]bool)
	for range blocks {
		process := ports{blocks: blocks}
		for range blockSize / 2 {
			port, err := process.next(false)
			require.NoError(t, err)
			assert.False(t, given[port], "%d is given twice", port)
			given[port] = true
		}
		t.Cleanup(func() { assert.NoError(t, process.guard.Close()) })
	}
	_, err := (&ports{blocks: blocks}).next(false)
	assert.ErrorContains(t, err, "no free block of ports")
}
