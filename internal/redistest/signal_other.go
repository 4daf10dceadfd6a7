//go:build !unix

package redistest

import "os"

// On this system, Process.Signal refuses every signal but Kill, so Pause and Resume return an error.
var (
	pauseSignal  = os.Interrupt
	resumeSignal = os.Interrupt
)
