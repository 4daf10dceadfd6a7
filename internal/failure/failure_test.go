package failure_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/failure"
	"github.com/fairsem/fairsem/internal/testclient"
)

func TestAnswerThatIsNoErrorIsClassifiedWithoutAllocation(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = failure.Moved(nil) || failure.UnknownScript(nil) || failure.IsConnection(nil) || failure.Discreet(nil) != nil
	}))
}

// Else a failover or a full server of Redis 6.2 ended calls that the next try would have served.
func TestErrorOfACommandOfAScriptIsReadAsRedis7SaysIt(t *testing.T) {
	t.Parallel()
	const call = "ERR Error running script (call to f_804745be0f50fbd4c50e8869709b2a4894f6d44b): "
	for said, want := range map[string]struct {
		text                  string
		transient, connection bool
	}{
		call + "@user_script:3: @user_script: 3: -OOM command not allowed.\n":    {"OOM command not allowed.", true, false},
		call + "@user_script:3: @user_script: 3: -READONLY You can't write.\r\n": {"READONLY You can't write.", true, true},
		call + "@user_script:3: WRONGTYPE Operation against a key":               {"WRONGTYPE Operation against a key", false, false},
		call + "@user_script:3: @user_script: 3: The user executing the script can't run this command": {
			"The user executing the script can't run this command", false, false,
		},
		call + "@user_script:3: user_script:3: attempt to compare nil with number": {
			call + "@user_script:3: user_script:3: attempt to compare nil with number", false, false,
		},
		"OOM command not allowed.": {"OOM command not allowed.", true, false},
	} {
		err := failure.Discreet(testclient.Reply(said))
		require.EqualError(t, err, want.text)
		assert.Equal(t, want.transient, failure.Transient(err), said)
		assert.Equal(t, want.connection, failure.IsConnection(err), said)
		assert.True(t, failure.IsReply(err), said)
	}
}

// classifiers are the names in go-redis that say what an error means.
var classifiers = regexp.MustCompile(`^(Nil|Error|ErrNoScript|ErrCrossSlot|HasErrorPrefix|Is\w+Error)$`)

// What a reply of Redis means is decided once.
func TestNoOtherPackageClassifiesErrorsOfRedis(t *testing.T) {
	t.Parallel()
	const root = "../.."
	found := make(map[string][]string)
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case path != root && entry.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".")):
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			found[path] = used(t, path)
		}
		return nil
	}))
	const here = root + "/internal/failure/failure.go"
	assert.Greater(t, len(found[here]), 4, "not even what failure.go has")
	assert.Contains(t, found, root+"/state.go")
	delete(found, here)
	for path, names := range found {
		assert.Empty(t, names, "%s: ask package failure", path)
	}
}

// used are the classifiers that a file uses.
func used(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	pkg := ""
	for _, spec := range file.Imports {
		if spec.Path.Value == `"github.com/redis/go-redis/v9"` {
			if pkg = "redis"; spec.Name != nil {
				pkg = spec.Name.Name
			}
		}
	}
	require.NotEqual(t, ".", pkg, path)
	ast.Inspect(file, func(n ast.Node) bool {
		if selected, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := selected.X.(*ast.Ident); ok && pkg != "" && of.Name == pkg && classifiers.MatchString(selected.Sel.Name) {
				names = append(names, selected.Sel.Name)
			}
		}
		return true
	})
	return names
}

// Redis calls a long command before a password a protocol error, which says nothing to its user.
func TestPasswordThatIsWrongOrMissingComesWithAdvice(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		"NOAUTH Authentication required.", "ERR Protocol error: unauthenticated multibulk length", "ERR Protocol error: unauthenticated bulk length",
		"WRONGPASS invalid username-password pair or user is disabled.",
	} {
		assert.Contains(t, failure.Advice(testclient.Reply(said)), "the password of this Redis", said)
	}
	assert.Empty(t, failure.Advice(testclient.Reply("ERR Protocol error: invalid bulk length")))
}

// A short password may be a part of what Redis says.
func TestUsualRepliesToAFirstCommandAreInWordsOfOurOwn(t *testing.T) {
	t.Parallel()
	for said, accepted := range map[string]bool{
		"NOPERM User geheim has no permissions to run the 'ping' command": true, "LOADING geheim": true, "BUSY geheim": true, "MASTERDOWN geheim": true,
		"CLUSTERDOWN geheim": true, "MISCONF geheim": true, "ERR This instance has cluster support disabled geheim": true,
		"ERR DB index is out of range geheim": true, "WRONGPASS geheim": false, "NOAUTH geheim": false,
	} {
		words := failure.InWords(testclient.Reply(said))
		assert.NotContains(t, words, "geheim")
		assert.Equal(t, said[:4], words[:4])
		assert.Equal(t, accepted, failure.AcceptedBefore(testclient.Reply(said)), said)
	}
	assert.Empty(t, failure.InWords(testclient.Reply("ERR geheim")))
	assert.False(t, failure.AcceptedBefore(testclient.Reply("ERR geheim")))
	assert.Empty(t, failure.InWords(errors.New("LOADING geheim")), "not said by Redis")
}
