package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// TestMain looks after Main has stopped everything that nothing is left: no goroutine, no child, no folder.
func TestMain(m *testing.M) {
	os.Exit(mainIn(m))
}

func mainIn(m *testing.M) int {
	// All folders of this process in one place, where other test processes leave nothing.
	temp, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if err := os.Setenv("TMPDIR", temp); err != nil {
		panic(err)
	}
	code := Main(m)
	if code == 0 {
		code = leftovers(temp)
	}
	return code
}

func leftovers(temp string) int {
	code := 0
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if found, _ := filepath.Glob(filepath.Join(temp, "fairsem-redis-*")); len(found) > 0 {
		fmt.Fprintln(os.Stderr, "folders left:", found)
		code = 1
	}
	return code
}
