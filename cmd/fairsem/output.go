package main

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// output is the standard output, which keeps its first error: cobra and writers of pages drop it. It has no method of a file
// that would write past Write.
type output struct {
	file
	failed atomic.Pointer[error]
}

// file contains the methods that a program needs to draw on a terminal.
type file interface {
	io.ReadWriteCloser
	Fd() uintptr
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	if err != nil {
		o.failed.CompareAndSwap(nil, &err)
	}
	return n, err
}

// orFailed returns err, or that the output could not be written if err has no exit code that says more.
func (o *output) orFailed(err error) error {
	failed := o.failed.Load()
	var coded *exit.Error
	var stop exit.Signal
	if failed == nil || errors.As(err, &coded) || errors.As(err, &stop) {
		return err
	}
	return &exit.Error{Code: exit.Failure, Err: *failed}
}
