package history

import (
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC of clock_gettime(2), the same number on every architecture.
const clockMonotonic = 1

// Now returns the time in nanoseconds, by a clock that all processes of this machine share. On Linux it does not jump when the
// wall clock is set; elsewhere it is the wall clock. Package time has such a clock only within one process.
func Now() int64 {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return time.Now().UnixNano() // on one machine, all processes get here or none does
	}
	return ts.Nano()
}
