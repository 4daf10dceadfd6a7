//go:build !linux

package main

import "syscall"

// dieWithParent does nothing here: workers see their standard input end when the demo is gone.
func dieWithParent() *syscall.SysProcAttr { return nil }

func adoptOrphans() {}
