package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A holder that was paused between its look at the permit and its write is refused by the one store and
// overwrites what another did in the other.
func TestFencedStoreRefusesALateWriteThatTheUnfencedOneTakes(t *testing.T) {
	s := &store{}
	c := counter{s}
	var paused, next Visit
	require.NoError(t, c.Read(Visit{Token: 1}, &paused))
	require.NoError(t, c.Read(Visit{Token: 2}, &next))
	for _, v := range []Visit{next, paused} {
		v.Fenced, v.Unfenced = v.Fenced+1, v.Unfenced+1
		require.NoError(t, c.Write(v, nil))
	}
	fenced, unfenced := s.result()
	assert.Equal(t, register{value: 1, seen: 2, writes: 1, refused: 1}, fenced)
	assert.Zero(t, fenced.lost())
	assert.Equal(t, int64(1), unfenced.lost())
}

func TestWhoMayNotReadDoesNotWrite(t *testing.T) {
	s := &store{}
	c := counter{s}
	var v Visit
	require.NoError(t, c.Read(Visit{Token: 2}, &v))
	require.NoError(t, c.Read(Visit{Token: 1}, &v))
	require.True(t, v.Refused)
	require.NoError(t, c.Write(v, nil))
	fenced, _ := s.result()
	assert.Zero(t, fenced.writes)
}
