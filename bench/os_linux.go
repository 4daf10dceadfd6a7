package main

import (
	"errors"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// threadSleep sleeps in its own thread. It returns 0.1 ms late. time.Sleep rounds to the resolution of epoll and is late by up
// to 1 ms.
func threadSleep(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // it is too short after a signal; the caller checks the clock
}

// pin makes the kernel run a thread, or the main thread of a process, on these cores only. 0 is the calling thread. It returns
// the cores on which the thread could run before.
func pin(pid int, cores unix.CPUSet) (before unix.CPUSet, err error) {
	return before, errors.Join(unix.SchedGetaffinity(pid, &before), unix.SchedSetaffinity(pid, &cores))
}

// run calls start. The processes that start starts, and the server, run on the cores of p until restore is called.
func (p placement) run(server int, start func() error) (restore func(), err error) {
	if p == anyCore {
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
	if p == ownCore && others.Count() > 0 {
		theirs = others
	}
	before, err := pin(server, last)
	restore = func() { _, _ = pin(server, before) } // fails if the server has ended
	if err != nil {
		return restore, err
	}
	if _, err := pin(0, theirs); err != nil {
		return restore, err
	}
	err = start() // processes inherit the cores of this thread
	_, back := pin(0, all)
	return restore, errors.Join(err, back)
}

// split separates the last core, which gets the fewest interrupts, from the others.
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
