package main

import (
	"runtime"
	"syscall"
)

// The kernel takes the end of the thread that started a worker for the end of the demo. The main
// goroutine starts the workers; this keeps it on the main thread, which lasts.
func init() { runtime.LockOSThread() }

// dieWithParent makes the kernel kill a worker when the demo ends without stopping it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
