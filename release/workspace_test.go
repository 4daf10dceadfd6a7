package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Without the workspace a version that is not released is nowhere to be found, and with it go mod tidy does not work.
func TestTidyUsesTheLibraryOfTheFolderAndKeepsItsReleasedSums(t *testing.T) {
	t.Parallel()
	const sums = "github.com/fairsem/tiny v0.0.0 h1:a=\ngithub.com/fairsem/tiny v0.0.0/go.mod h1:b=\n"
	at := committed(t, tiny(func(files map[string]string) {
		files["cmd/fairsem/go.mod"] += "\nrequire example.com/unused v1.0.0\n"
		files["cmd/fairsem/go.sum"] = sums
	}))
	require.NoError(t, tidy(t.Context(), at.dir))
	mod, err := os.ReadFile(at.path("cmd/fairsem/go.mod"))
	require.NoError(t, err)
	assert.Equal(t, tiny(func(map[string]string) {})["cmd/fairsem/go.mod"], string(mod))
	sum, err := os.ReadFile(at.path("cmd/fairsem/go.sum"))
	require.NoError(t, err)
	assert.Equal(t, sums, string(sum))
}

func TestSumsOfTheLibraryAreInTheOrderOfGo(t *testing.T) {
	t.Parallel()
	const before = "b v0.2.0 h1:=\nb v0.2.0/go.mod h1:=\nb v0.10.0 h1:=\nold v0.1.0 h1:=\n"
	assert.Equal(t, "a v1.0.0 h1:=\nb v0.2.0 h1:=\nb v0.2.0/go.mod h1:=\nb v0.10.0 h1:=\nc v1.0.0 h1:=\n",
		withSums("a v1.0.0 h1:=\nb v0.10.0 h1:=\nc v1.0.0 h1:=\n", before, "b"))
}
