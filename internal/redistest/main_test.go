package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks after Main that no goroutine, no child process and no folder is left.
func TestMain(m *testing.M) {
	os.Exit(mainIn(m))
}

func mainIn(m *testing.M) int {
	// The folders of this process are below one that no other test process uses.
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
