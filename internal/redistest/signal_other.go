//go:build !unix

package redistest

import "os"

// Process.Signal refuses everything but Kill here, so Pause and Resume say that they cannot work.
var (
	pauseSignal  = os.Interrupt
	resumeSignal = os.Interrupt
)
