package main

import (
	"errors"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rest sleeps in a thread of its own. It comes back 0.1 ms late, where time.Sleep, which rounds to
// what epoll can wait, is late by up to 1 ms.
func rest(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // too short after a signal; its caller looks at the clock
}

// keepTo makes the kernel run the thread, or the main thread of the process, on these cores only.
// 0 is the calling thread. The result is the cores that it had before.
func keepTo(pid int, cores unix.CPUSet) (before unix.CPUSet, err error) {
	return before, errors.Join(unix.SchedGetaffinity(pid, &before), unix.SchedSetaffinity(pid, &cores))
}

// placed calls start, and has the processes that it starts and the server run as p says until the
// returned function is called.
func (p placement) placed(server int, start func() error) (restore func(), err error) {
	if p == anywhere {
		return func() {}, start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return func() {}, err
	}
	last, others := split(all)
	theirs := last
	if p == apart && others.Count() > 0 {
		theirs = others
	}
	before, err := keepTo(server, last)
	restore = func() { _, _ = keepTo(server, before) } // fails for a server that is gone
	if err != nil {
		return restore, err
	}
	if _, err := keepTo(0, theirs); err != nil {
		return restore, err
	}
	err = start() // what it starts inherits the cores of this thread
	_, back := keepTo(0, all)
	return restore, errors.Join(err, back)
}

// split takes the last core, which gets the fewest interrupts, from the others.
func split(all unix.CPUSet) (last, others unix.CPUSet) {
	highest := -1
	for core := range len(all) * 64 {
		if all.IsSet(core) {
			others.Set(core)
			highest = core
		}
	}
	last.Set(highest)
	others.Clear(highest)
	return last, others
}
