package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

func TestMain(m *testing.M) {
	// The configuration of the user of the tests could sign commits or ask for a password.
	for key, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "tester", "GIT_AUTHOR_EMAIL": "tester@example.com",
		"GIT_COMMITTER_NAME": "tester", "GIT_COMMITTER_EMAIL": "tester@example.com",
	} {
		if err := os.Setenv(key, value); err != nil {
			panic(err) // no key or value is malformed
		}
	}
	os.Exit(redistest.Main(m))
}

// repository is a repository in a folder of its own whose one commit has the files of this one as they are now, committed or not.
func repository(t *testing.T) folder {
	t.Helper()
	// In CI the checkout may belong to another user, which git otherwise refuses.
	list, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	require.NoError(t, err)
	files := make(map[string]string)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // it is removed, and that is not committed yet
		}
		require.NoError(t, err)
		files[name] = string(text)
	}
	text := files[changelog]
	files[changelog] = strings.Replace(text, "## Unreleased\n", "## Unreleased\n\n- Something new.\n", 1)
	require.NotEqual(t, text, files[changelog])
	return committed(t, files)
}

// committed is a repository with one commit of files.
func committed(t *testing.T, files map[string]string) folder {
	t.Helper()
	at := in(t.TempDir())
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(at.path(name)), 0o755))
		require.NoError(t, os.WriteFile(at.path(name), []byte(text), 0o644))
	}
	does(t, at, "git", "init", "-q", "-b", branch)
	does(t, at, "git", "add", "--all")
	does(t, at, "git", "commit", "-q", "-m", "all of it")
	return at
}

// changingLines is a file of settings with which git changes the ends of lines, as Git for Windows does.
func changingLines(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gitconfig")
	require.NoError(t, os.WriteFile(path, []byte("[core]\n\tautocrlf = true\n"), 0o644))
	return path
}

// does runs a program that has to work, and returns its output.
func does(t *testing.T, at folder, name string, args ...string) string {
	t.Helper()
	out, err := at.run(t.Context(), name, args...)
	require.NoError(t, err)
	return out
}

// state is all that a release may change of a repository.
func state(t *testing.T, at folder) string {
	t.Helper()
	return does(t, at, "git", "for-each-ref") + "\n" + does(t, at, "git", "rev-parse", "HEAD") + "\n" + does(t, at, "git", "status", "--porcelain", "--ignored")
}
