package main

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

const native = runtime.GOOS + "/" + runtime.GOARCH

func TestBinariesOfACommitAreTheSameInEveryFolderAndEnvironment(t *testing.T) {
	t.Parallel()
	one := repository(t)
	does(t, one, "git", "tag", "-a", "-m", "x", command+"/v0.1.0")
	two := in(filepath.Join(t.TempDir(), "elsewhere"))
	does(t, one, "git", "clone", "-q", one.dir, two.dir)
	// Uncommitted changes are not in them. It made go say that the version is a modified one, too.
	require.NoError(t, os.WriteFile(two.path(command+"/new.go"), []byte("package main\n\nfunc init() { println(1) }\n"), 0o644))
	require.NoError(t, os.WriteFile(two.path("LICENSE"), nil, 0o644))
	environments := [2][]string{nil, {"GOFIPS140=latest", "GIT_CONFIG_GLOBAL=" + changingLines(t)}}
	// As a process: packing takes the race detector ten times as long.
	tool := filepath.Join(t.TempDir(), "release")
	does(t, in("."), "go", "build", "-race=false", "-buildvcs=false", "-o", tool, ".")
	var archives [2][]byte
	for i, at := range []folder{one, two} {
		out := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(out, "fairsem_0.0.9_SHA256SUMS"), nil, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(out, "notes"), nil, 0o644))
		does(t, in(at.path("release"), environments[i]...), tool, "binaries", "-out", out, "-targets", native)
		does(t, in(out), redistest.Program(t, "sha256sum"), "--check", "--strict", "fairsem_0.1.0_SHA256SUMS")
		assert.FileExists(t, filepath.Join(out, "notes"))
		assert.NoFileExists(t, filepath.Join(out, "fairsem_0.0.9_SHA256SUMS"), "an earlier build")
		var err error
		archives[i], err = os.ReadFile(filepath.Join(out, "fairsem_0.1.0_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz"))
		require.NoError(t, err)
	}
	assert.True(t, bytes.Equal(archives[0], archives[1]), "the archives differ")

	dir := unpack(t, archives[0])
	for _, name := range []string{"LICENSE", "man1/fairsem-run.1", "completions/fairsem.bash"} {
		assert.FileExists(t, filepath.Join(dir, name))
	}
	licences, err := os.ReadFile(filepath.Join(dir, "THIRD_PARTY_LICENSES"))
	require.NoError(t, err)
	assert.Contains(t, string(licences), "==== Go: LICENSE ====")
	assert.Contains(t, string(licences), "==== github.com/redis/go-redis/v9 v")
	assert.Regexp(t, `==== github\.com/alicebob/miniredis/v2/geohash v\S+: LICENSE ====\n\nThe MIT License`, string(licences), "code of others within a module")
	assert.Regexp(t, `^fairsem v0\.1\.0 revision [0-9a-f]{40} `, does(t, in(dir), filepath.Join(dir, "fairsem"), "version"))
	isStatic(t, filepath.Join(dir, "fairsem"))
}

// isStatic fails if a program needs a library or an interpreter, which an image that contains nothing else lacks.
func isStatic(t *testing.T, program string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return // no other system has programs without libraries
	}
	f, err := elf.Open(program)
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.Close()) }()
	for _, part := range f.Progs {
		assert.NotEqual(t, elf.PT_INTERP, part.Type)
		assert.NotEqual(t, elf.PT_DYNAMIC, part.Type)
	}
}

// unpack returns a folder with the files of an archive.
func unpack(t *testing.T, archive []byte) string {
	t.Helper()
	at := in(t.TempDir())
	// By a process of its own: a file that this one writes cannot be executed while a child that it has just forked still has it open.
	require.NoError(t, os.WriteFile(at.path("archive"), archive, 0o644))
	does(t, at, redistest.Program(t, "tar"), "-xzf", "archive")
	return at.dir
}

func TestTargetThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "dist")
	_, err := binaries(t.Context(), "..", out, []string{"linux/amd64", "plan9/mips"})
	var wrong usageError
	require.ErrorAs(t, err, &wrong)
	assert.ErrorContains(t, err, `target "plan9/mips" is none of linux/amd64, `)
	assert.NoDirExists(t, out)
}
