//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

const canBecome = true

// become replaces this process by a command. It returns if that is not possible, or if a signal came before: signals
// has those that were caught so far.
func become(path string, args, env []string, signals chan os.Signal) error {
	// From here on these end the process, as they would end the command a moment later.
	signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	signal.Stop(signals)
	select {
	case s := <-signals:
		return signalled{s}
	default:
	}
	return cannotStart(args[0], syscall.Exec(path, args, env))
}
