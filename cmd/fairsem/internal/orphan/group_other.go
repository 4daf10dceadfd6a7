//go:build unix && !linux

package orphan

import "syscall"

// GroupRuns reports whether a group that exists and was killed still runs. Only a group that no signal reaches does.
func GroupRuns(group int) bool { return syscall.Kill(-group, 0) == syscall.EPERM }
