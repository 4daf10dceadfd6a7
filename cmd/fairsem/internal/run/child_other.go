//go:build !unix

package run

import (
	"errors"
	"os"
	"syscall"
)

var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

func (h *holder) hold() error { return errors.New("run needs a Unix system") }

func inBackground() bool { return false }
