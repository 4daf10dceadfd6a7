//go:build !unix

package run

import (
	"context"
	"errors"
	"os"
	"syscall"
)

var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

func (h *holder) hold() error { return errors.New("run needs a Unix system") }

func (h *holder) passOn() {}

func inBackground() bool { return false }

// CanBecome reports whether a command can replace this process.
const CanBecome = false

func become(context.Context, string, []string, []string, chan os.Signal) error {
	return errors.New("running a command needs a Unix system")
}
