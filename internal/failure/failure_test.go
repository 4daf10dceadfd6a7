package failure_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairsem/fairsem/internal/failure"
)

func TestAnswerThatIsNoErrorIsClassifiedWithoutAllocation(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = failure.Moved(nil) || failure.UnknownScript(nil) || failure.IsConnection(nil) || failure.Discreet(nil) != nil
	}))
}

// What a reply of Redis means is decided once.
func TestNoOtherPackageClassifiesErrorsOfRedis(t *testing.T) {
	t.Parallel()
	classifies := regexp.MustCompile(`\bredis\.(Nil|Error|HasErrorPrefix|Is\w+Error)\b`)
	files, found := 0, 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && !strings.HasPrefix(entry.Name(), "..")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		files++
		if filepath.Base(path) == "failure.go" {
			found += len(classifies.FindAll(text, -1))
			return err
		}
		assert.Empty(t, string(classifies.Find(text)), "%s: ask package failure", path)
		return err
	}))
	assert.Greater(t, files, 200, "not the whole project")
	assert.Greater(t, found, 10, "not what failure.go does")
}
