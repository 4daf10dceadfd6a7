package main

import "syscall"

// dieWithParent makes the kernel kill a worker, even a paused one, when this process ends.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
