package semaphore_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sync/semaphore"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := semaphore.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
