package pgtest

import "syscall"

// attributes also have the kernel end the server when this process ends, so that a crashed test leaves none.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
}
