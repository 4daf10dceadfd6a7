package main

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The kernel takes the end of the thread that started a process for the end of its parent. The main
// goroutine starts them all; this keeps it on the main thread, which lasts.
func init() { runtime.LockOSThread() }

// dieWithParent makes the kernel kill a process when the one that started it ends without stopping it.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of those whose own has ended, so that it can see their end.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it, the system's first process reaps them
}
