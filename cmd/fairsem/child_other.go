//go:build !unix

package main

import (
	"errors"
	"os"
	"syscall"
)

var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

func (r *runner) hold() error { return errors.New("run needs a Unix system") }

func inBackground() bool { return false }
