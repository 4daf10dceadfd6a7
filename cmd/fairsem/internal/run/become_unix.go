//go:build unix

package run

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
)

// CanBecome reports whether a command can replace this process.
const CanBecome = true

// become replaces this process by a command. It returns if that is not possible, or if a signal came before: signals
// has those that were caught so far.
func become(ctx context.Context, path string, args, env []string, signals chan os.Signal) error {
	// From here on signals end the process, as they would end the command a moment later. One that is on its way is in the channel when
	// the last Stop returns, which Reset does not promise.
	exit.LetGo(ctx)
	signal.Stop(signals)
	if err := late(signals); err != nil {
		return err
	}
	return notStarted(args[0], syscall.Exec(path, args, env))
}
