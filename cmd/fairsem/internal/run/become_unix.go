//go:build unix

package run

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// CanBecome reports whether a command can replace this process.
const CanBecome = true

// become replaces this process by a command. It returns if that is not possible, or if a signal came before: signals
// has those that were caught so far.
func become(path string, args, env []string, signals chan os.Signal) error {
	// From here on these end the process, as they would end the command a moment later.
	signal.Reset(exit.ToStop...)
	signal.Stop(signals)
	if err := late(signals); err != nil {
		return err
	}
	return notStarted(args[0], syscall.Exec(path, args, env))
}
