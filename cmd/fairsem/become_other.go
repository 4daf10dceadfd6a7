//go:build !unix

package main

import (
	"errors"
	"os"
)

const canBecome = false

func become(string, []string, []string, chan os.Signal) error {
	return errors.New("running a command needs a Unix system")
}
