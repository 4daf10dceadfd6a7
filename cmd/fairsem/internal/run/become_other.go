//go:build !unix

package run

import (
	"errors"
	"os"
)

// CanBecome reports whether a command can replace this process.
const CanBecome = false

func become(string, []string, []string, chan os.Signal) error {
	return errors.New("running a command needs a Unix system")
}
