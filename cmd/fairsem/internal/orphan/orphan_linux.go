package orphan

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The kernel takes the end of the thread that started a process for the end of its parent. The main
// goroutine starts them all; this keeps it on the main thread, which lasts.
func init() { runtime.LockOSThread() }

// DieWithParent makes the kernel kill a process when the one that started it ends without stopping it.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// Adopt makes this process the parent of descendants whose own parent has ended, so that it is notified of their end.
func Adopt() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it, the system's first process reaps them
}
