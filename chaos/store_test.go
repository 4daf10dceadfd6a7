package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If a holder is paused between the check of its permit and its write, the fenced store refuses the write. In the unfenced
// store the write overwrites that of another holder.
func TestFencedStoreRefusesALateWriteThatTheUnfencedOneAccepts(t *testing.T) {
	s := &store{}
	c := storeServer{s}
	var paused, next Access
	require.NoError(t, c.Read(Access{Token: 1}, &paused))
	require.NoError(t, c.Read(Access{Token: 2}, &next))
	for _, v := range []Access{next, paused} {
		v.Fenced, v.Unfenced = v.Fenced+1, v.Unfenced+1
		require.NoError(t, c.Write(v, nil))
	}
	fenced, unfenced := s.result()
	assert.Equal(t, register{value: 1, maxToken: 2, writes: 1, refused: 1}, fenced)
	assert.Zero(t, fenced.lost())
	assert.Equal(t, int64(1), unfenced.lost())
}

func TestWriteAfterARefusedReadIsRefused(t *testing.T) {
	s := &store{}
	c := storeServer{s}
	var v Access
	require.NoError(t, c.Read(Access{Token: 2}, &v))
	require.NoError(t, c.Read(Access{Token: 1}, &v))
	require.True(t, v.Refused)
	require.NoError(t, c.Write(v, nil))
	fenced, _ := s.result()
	assert.Zero(t, fenced.writes)
}
