package main

import "syscall"

// dieWithParent makes the kernel kill a worker with us, a stopped one too.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
