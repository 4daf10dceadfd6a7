package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/redistest"
)

// A replace in the go.mod of the command made go install refuse it. In the workspace that goes unnoticed.
func TestReleaseCanBeInstalledFromItsTagsAlone(t *testing.T) {
	t.Parallel()
	root := repository(t)
	before := state(t, root)
	const version = "v0.1.0"
	r, err := prepare(t.Context(), root.dir, version, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	t.Cleanup(r.discard)

	// This was a dry run: the results are elsewhere.
	assert.Equal(t, before, state(t, root))

	tags := []string{version}
	for _, dir := range []string{"cmd/fairsem", "fairsemasynq", "fairsemgrpc", "fairsemotel", "fairsempgx", "fairsemprom", "fairsemriver"} {
		tags = append(tags, dir+"/"+version)
	}
	assert.ElementsMatch(t, tags, r.tags(), "of what users install")

	// It works on a real server.
	server := redistest.SharedServer(t)
	said := does(t, in(r.work), filepath.Join(r.work, program), server.Addr())
	assert.Equal(t, "paid", said)
	installed := filepath.Join(r.work, binary)
	assert.Regexp(t, `^fairsem v0\.1\.0 `, does(t, in(r.work), installed, "version"))
	said = does(t, in(r.work), installed, "run", "release-"+uuid.NewString(), "--limit", "1", "--redis", "redis://"+server.Addr(), "--", "sh", "-c", "echo $FAIRSEM_TOKEN")
	assert.Regexp(t, `^\d+$`, said)

	// One module is enough: what all of them need takes long to compile. go must not get them past GOPROXY, where only the library is.
	require.NoError(t, r.buildPackages(t.Context(), "fairsemotel"))

	// A tag that was made meanwhile is not moved, and nothing else is changed.
	other := r.tags()[1]
	does(t, root, "git", "tag", other)
	between := state(t, root)
	require.Error(t, r.publish(t.Context()))
	assert.Equal(t, between, state(t, root))
	does(t, root, "git", "tag", "-d", other)

	require.NoError(t, r.publish(t.Context()))
	assert.Empty(t, does(t, root, "git", "status", "--porcelain"))
	assert.Equal(t, "release: v0.1.0", does(t, root, "git", "log", "-1", "--format=%s"))
	for _, tag := range r.tags() {
		assert.Equal(t, "tag", does(t, root, "git", "cat-file", "-t", tag), "%s is annotated", tag)
		assert.Equal(t, does(t, root, "git", "rev-parse", "main"), does(t, root, "git", "rev-parse", tag+"^{commit}"))
	}
	assert.Contains(t, does(t, root, "git", "tag", "-l", "--format=%(contents)", version), "- Something new.\n")
	text, err := os.ReadFile(root.path(changelog))
	require.NoError(t, err)
	assert.Contains(t, string(text), "## Unreleased\n\n## 0.1.0 - 2026-11-30\n\n- Something new.\n")
	sums, err := os.ReadFile(root.path("cmd/fairsem/go.sum"))
	require.NoError(t, err)
	assert.Contains(t, string(sums), "\ngithub.com/fairsem/fairsem v0.1.0 h1:")

	// The workspace still uses the library of the folder, which no registry has yet.
	assert.Equal(t, root.dir, does(t, root, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/fairsem/fairsem"))
	does(t, in(root.path("cmd/fairsem"), "GOPROXY=off"), "go", "list", "-deps", ".")
}

// tiny is a repository of the same shape with no requirements of others.
func tiny(change func(files map[string]string)) map[string]string {
	files := map[string]string{
		"go.work":             "go 1.26.0\n\nuse (\n\t.\n\t./cmd/fairsem\n)\n\nreplace github.com/fairsem/tiny v0.0.0 => ./\n",
		"go.mod":              "module github.com/fairsem/tiny\n\ngo 1.26.0\n",
		"tiny.go":             "package tiny\n\nconst Limit = 1\n",
		"cmd/fairsem/go.mod":  "module github.com/fairsem/tiny/cmd/fairsem\n\ngo 1.26.0\n\nrequire github.com/fairsem/tiny v0.0.0\n",
		"cmd/fairsem/main.go": "package main\n\nimport (\n\t\"fmt\"\n\n\t\"github.com/fairsem/tiny\"\n)\n\nfunc main() { fmt.Println(\"fairsem v0.1.0 has\", tiny.Limit) }\n",
		"README.md":           "# tiny\n",
		changelog:             "# Changelog\n\n## Unreleased\n\n- All of it.\n",
	}
	change(files)
	return files
}

func TestReleaseThatIsRefusedSaysWhyAndChangesNothing(t *testing.T) {
	t.Parallel()
	nothing := func(map[string]string) {}
	clean := func(*testing.T, folder) {}
	for _, c := range []struct {
		name, version string
		files         func(files map[string]string)
		then          func(t *testing.T, at folder)
		err           string
	}{
		{"version without v", "0.1.0", nothing, clean, `version "0.1.0" is not of the form v1.2.3`},
		{"version with two numbers", "v0.1", nothing, clean, `version "v0.1" is not of the form v1.2.3`},
		{"major version", "v2.0.0", nothing, clean, "does not fit the module path github.com/fairsem/tiny"},
		{"another branch", "v0.1.0", nothing, func(t *testing.T, at folder) { does(t, at, "git", "switch", "-q", "-c", "topic") }, "made from main, and this is topic"},
		{"changed file", "v0.1.0", nothing, func(t *testing.T, at folder) {
			require.NoError(t, os.WriteFile(at.path("README.md"), nil, 0o644))
		}, "not as in the last commit: commit, stash or remove them\nM README.md"},
		{"new file", "v0.1.0", nothing, func(t *testing.T, at folder) {
			require.NoError(t, os.WriteFile(at.path("new.go"), nil, 0o644))
		}, "?? new.go"},
		{"tagged", "v0.1.0", nothing, func(t *testing.T, at folder) { does(t, at, "git", "tag", "v0.1.0") }, "the tag v0.1.0 exists"},
		{"command tagged", "v0.1.0", nothing, func(t *testing.T, at folder) { does(t, at, "git", "tag", "cmd/fairsem/v0.1.0") }, "the tag cmd/fairsem/v0.1.0 exists"},
		{"older", "v0.9.0", nothing, func(t *testing.T, at folder) { does(t, at, "git", "tag", "v0.10.0") }, "not after v0.10.0, the newest tag"},
		{"no notes", "v0.1.0", func(files map[string]string) {
			files[changelog] = "# Changelog\n\n## Unreleased\n\n## 0.0.1\n\n- Old.\n"
		}, clean, `nothing under "## Unreleased"`},
		{"no section", "v0.1.0", func(files map[string]string) { files[changelog] = "# Changelog\n" }, clean, `no heading "## Unreleased"`},
		{"replace", "v0.1.0", func(files map[string]string) {
			files["cmd/fairsem/go.mod"] += "\nreplace github.com/fairsem/tiny => ../..\n"
		}, clean, "cmd/fairsem/go.mod has a replace"},
		{"command that does not compile", "v0.1.0", func(files map[string]string) { files["tiny.go"] = "package tiny\n" }, clean, "undefined: tiny.Limit"},
		{"no program in the README", "v0.1.0", nothing, clean, "README.md has no block of Go that begins with func run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at := committed(t, tiny(c.files))
			c.then(t, at)
			before := state(t, at)
			var out strings.Builder
			err := cut(t.Context(), at.dir, c.version, &out)
			assert.ErrorContains(t, err, c.err)
			assert.Equal(t, before, state(t, at))
			assert.Empty(t, out.String())
		})
	}
}

// untried is a release of a tiny repository, in its clone.
func untried(t *testing.T) *release {
	t.Helper()
	r := &release{version: "v0.1.0", root: committed(t, tiny(func(map[string]string) {})), work: t.TempDir()}
	require.NoError(t, r.checkRepository(t.Context()))
	_, err := r.create(t.Context(), time.Now())
	require.NoError(t, err)
	return r
}

// A key alone is true, and was copied as if it had an empty value, which is false.
func TestReleaseIsSignedAsTheRepositoryIsConfigured(t *testing.T) {
	t.Parallel()
	r := &release{root: committed(t, tiny(func(map[string]string) {})), work: t.TempDir()}
	_, err := r.root.feed(t.Context(), "[tag]\n\tgpgsign\n[user]\n\tsigningkey = me\n", "sh", "-c", "cat >>.git/config")
	require.NoError(t, err)
	require.NoError(t, r.copyRepository(t.Context()))
	assert.Equal(t, "true", does(t, r.clone, "git", "config", "--bool", "tag.gpgsign"))
	assert.Equal(t, "me", does(t, r.clone, "git", "config", "user.signingkey"))
}

// With core.autocrlf no line of the changelog was "## Unreleased".
func TestCloneHasTheLinesOfTheCommit(t *testing.T) {
	t.Parallel()
	at := committed(t, tiny(func(map[string]string) {}))
	at.env = []string{"GIT_CONFIG_GLOBAL=" + changingLines(t)}
	r := &release{version: "v0.1.0", root: at, work: t.TempDir()}
	require.NoError(t, r.copyRepository(t.Context()))
	require.NoError(t, r.writeNotes(time.Now()))
}

// The branch was compared only at the start: after a git switch the release became part of another branch.
func TestReleaseIsNotPublishedInARepositoryThatHasChangedMeanwhile(t *testing.T) {
	t.Parallel()
	r := untried(t)
	for _, c := range []struct{ change, undo, err string }{
		{"git switch -q -c topic", "git switch -q main", "made from main, and this is topic"},
		{"git switch -q --detach", "git switch -q main", "made from main, and this is HEAD"},
		{"touch new.go", "rm new.go", "not as in the last commit: commit, stash or remove them\n?? new.go"},
		{"git commit -q --allow-empty -m more", "git reset -q --hard HEAD~1", "make the release again"},
	} {
		does(t, r.root, "sh", "-c", c.change)
		before := state(t, r.root)
		assert.ErrorContains(t, r.publish(t.Context()), c.err, c.change)
		assert.Equal(t, before, state(t, r.root), c.change)
		does(t, r.root, "sh", "-c", c.undo)
	}
	require.NoError(t, r.publish(t.Context()))
}

// Ctrl-C ended git merge after it had moved the branch, and nothing moved it back.
func TestPublishingThatFailsAfterTheMergeLeavesNothing(t *testing.T) {
	t.Parallel()
	r := untried(t)
	hook(t, r.root, "kill -KILL $PPID")
	before := state(t, r.root)
	require.Error(t, r.publish(t.Context()))
	assert.Equal(t, before, state(t, r.root))
}

func TestTerminalDoesNotInterruptGitWhilePublishing(t *testing.T) {
	t.Parallel()
	r := untried(t)
	redistest.Program(t, "ps")
	hook(t, r.root, "ps -o pgid= -p $$ >.git/group")
	require.NoError(t, r.publish(t.Context()))
	group, err := os.ReadFile(r.root.path(".git/group"))
	require.NoError(t, err)
	own := does(t, r.root, "sh", "-c", "ps -o pgid= -p $$")
	assert.NotEqual(t, own, strings.TrimSpace(string(group)))
	assert.NotEmpty(t, strings.TrimSpace(string(group)))
}

// hook has git run a script after each merge.
func hook(t *testing.T, at folder, script string) {
	t.Helper()
	// By a process of its own, as in unpack.
	_, err := at.feed(t.Context(), "#!/bin/sh\n"+script+"\n", "sh", "-c", "mkdir -p .git/hooks && cat >.git/hooks/post-merge && chmod +x .git/hooks/post-merge")
	require.NoError(t, err)
}

func TestNextVersionIsTheMinorOneAfterTheNewestTag(t *testing.T) {
	t.Parallel()
	at := committed(t, tiny(func(map[string]string) {}))
	version, err := nextMinor(t.Context(), at)
	require.NoError(t, err)
	assert.Equal(t, "v0.1.0", version)
	does(t, at, "git", "tag", "v0.1.0-rc.1")
	version, err = nextMinor(t.Context(), at)
	require.NoError(t, err)
	assert.Equal(t, "v0.1.0", version, "is after its candidates")
	for _, tag := range []string{"v0.9.0", "v0.10.2", "cmd/fairsem/v0.11.0", "vain"} {
		does(t, at, "git", "tag", tag)
	}
	version, err = nextMinor(t.Context(), at)
	require.NoError(t, err)
	assert.Equal(t, "v0.11.0", version)
}
