//go:build unix && !linux

package main

import "syscall"

// groupRuns says of a group that lives and was killed whether it runs. Only what no signal reaches does.
func groupRuns(group int) bool { return syscall.Kill(-group, 0) == syscall.EPERM }
