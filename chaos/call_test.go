package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadJournalReturnsTheLastLineOfACallAndSkipsAnUnfinishedOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w1.jsonl")
	file, err := os.Create(path)
	require.NoError(t, err)
	j := &journal{out: file}
	first, second := &call{Number: 1, Name: poolName}, &call{Number: 2, Name: soloName}
	require.NoError(t, j.write(first))
	require.NoError(t, j.write(second))
	first.Token = 7
	require.NoError(t, j.write(first))
	_, err = file.WriteString(`{"number":3,"na`)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	calls, err := readJournal(path)
	require.NoError(t, err)
	require.Len(t, calls, 2)
	assert.Equal(t, int64(7), calls[0].Token)
	assert.Equal(t, soloName, calls[1].Name)
}

func TestInvalidJournalIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w1.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("no\n"), 0o600))
	_, err := readJournal(path)
	assert.Error(t, err)
}
