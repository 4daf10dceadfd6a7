//go:build unix

package exit

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Interrupted ends this process by SIGINT if that is what ended its work, and returns otherwise. A shell whose script, loop or make was
// interrupted, too, ends it only if the process that it waited for has ended so: an exit code of 130 means that the process has handled the
// key. The first process of a system ends by no signal.
func Interrupted(err error) {
	var stop Signal
	if !errors.As(err, &stop) || stop.Signal != os.Interrupt || signal.Ignored(os.Interrupt) || os.Getpid() == 1 {
		return
	}
	signal.Reset(os.Interrupt)
	whom := os.Getpid()
	if stop.key {
		whom = 0 // the terminal would have sent it to the whole group
	}
	_ = syscall.Kill(whom, syscall.SIGINT)
	time.Sleep(time.Second) // another thread may handle it
}
