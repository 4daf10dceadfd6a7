//go:build !linux

package orphan

import "syscall"

// DieWithParent does nothing here. What a process starts must see its standard input end, or ask who its parent is.
func DieWithParent() *syscall.SysProcAttr { return nil }

// Adopt does nothing here.
func Adopt() {}
