package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If a holder is paused between the check of its permit and its write, the fenced store refuses the write. In the unfenced
// store the write overwrites that of another holder.
func TestFencedStoreRefusesALateWriteThatTheUnfencedOneAccepts(t *testing.T) {
	for _, number := range []int64{-1, slotsLimit - 1} {
		s := &store{}
		c := storeServer{s}
		var paused, next Access
		require.NoError(t, c.Read(Access{Number: number, Token: 1}, &paused))
		require.NoError(t, c.Read(Access{Number: number, Token: 2}, &next))
		for _, v := range []Access{next, paused} {
			v.Fenced, v.Unfenced = v.Fenced+1, v.Unfenced+1
			require.NoError(t, c.Write(v, nil))
		}
		counters, _ := s.result()
		its := counters[counterOf(number)]
		assert.Equal(t, register{value: 1, maxToken: 2, writes: 1, refused: 1}, its.fenced)
		assert.Zero(t, its.fenced.lost())
		assert.Equal(t, int64(1), its.unfenced.lost())
	}
}

// Two holders of a semaphore have different tokens, and both may write. Only with their numbers can a store tell that from a late write.
func TestStoreThatKeepsOneTokenForAllNumbersWouldRefuseAHolder(t *testing.T) {
	s := &store{}
	c := storeServer{s}
	for _, v := range []Access{{Number: 1, Token: 2}, {Number: 0, Token: 1}} {
		require.NoError(t, c.Read(v, &v))
		v.Fenced, v.Unfenced = v.Fenced+1, v.Unfenced+1
		require.NoError(t, c.Write(v, nil))
	}
	counters, common := s.result()
	assert.Equal(t, int64(1), counters[counterOf(0)].fenced.writes)
	assert.Equal(t, int64(1), counters[counterOf(1)].fenced.writes)
	assert.Equal(t, int64(1), common)
}

func TestWriteAfterARefusedReadIsRefused(t *testing.T) {
	s := &store{}
	c := storeServer{s}
	var v Access
	require.NoError(t, c.Read(Access{Token: 2}, &v))
	require.NoError(t, c.Read(Access{Token: 1}, &v))
	require.True(t, v.Refused)
	require.NoError(t, c.Write(v, nil))
	counters, _ := s.result()
	assert.Zero(t, counters[1].fenced.writes)
}
