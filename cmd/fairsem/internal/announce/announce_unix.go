//go:build unix

// Package announce starts commands that are known by their process id before they run. A process that was forked is
// known to nobody until its parent has learned its id, and a parent that is killed at that moment never does. So the new
// process announces itself: it executes this program first, which writes the id and then becomes the command.
//
// Importing the package makes a program able to do so, in an init function. The package imports little, so most others
// are not initialised before it.
package announce

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// role stands where other processes have the name of their program. No command line of fairsem contains it there. After it
// come the descriptors of standard error, to and outcome, the path of the command, and the arguments of the command.
const role = "fairsem: becomes a command"

const stderr = 2

// announced is the outcome before the command is executed. An error number follows if that fails.
const announced = "."

// errSilent means that the new process announced nothing and did not execute the command.
var errSilent = errors.New("the process did not announce itself")

// Start starts a command like syscall.ForkExec, with the standard files of this process. The process id is a line of to,
// a pipe that the command does not inherit, before the first instruction of the command. The command cannot notice this.
// Where this program cannot be executed a second time, as without /proc, or is ended by a signal meanwhile, the command is
// started all the same, and the line is written right after that.
//
// Until Start returns, nothing else in this process may start one, which would inherit to.
func Start(to *os.File, path string, args, env []string, attr *syscall.SysProcAttr) (pid int, err error) {
	pid, err = startAnnounced(to, path, args, env, attr)
	if !errors.Is(err, errSilent) {
		return pid, err
	}
	pid, err = Fork(path, args, env, attr)
	if err == nil {
		write(int(to.Fd()), line(pid))
	}
	return pid, err
}

// Fork is syscall.ForkExec with the standard files of this process.
func Fork(path string, args, env []string, attr *syscall.SysProcAttr) (pid int, err error) {
	return fork(path, args, env, attr, stderr)
}

func fork(path string, args, env []string, attr *syscall.SysProcAttr, stderr uintptr) (pid int, err error) {
	return syscall.ForkExec(path, args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, stderr}, Sys: attr})
}

// startAnnounced returns errSilent if nothing was executed, for a reason that need not concern the command.
func startAnnounced(to *os.File, path string, args, env []string, attr *syscall.SysProcAttr) (pid int, err error) {
	outcome, writer, err := os.Pipe()
	if err != nil {
		return 0, errSilent
	}
	defer func() { _ = outcome.Close() }() // nothing is lost: it is only read
	pid, err = forkSelf(to, writer, path, args, env, attr)
	_ = writer.Close() // nothing is lost: it was not written to
	if err != nil {
		return 0, errSilent
	}
	if err := readOutcome(outcome); err != nil {
		reap(pid)
		return 0, err
	}
	return pid, nil
}

// forkSelf passes the files on under numbers that are free here: others may be descriptors that the command inherits, such
// as 3 and 4 from make. Until it is the command, the new process does not have its standard error: the Go runtime may
// write there, for example if it may not start a thread.
func forkSelf(to, outcome *os.File, path string, args, env []string, attr *syscall.SysProcAttr) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }() // nothing was written
	self := []string{role}
	for _, file := range []uintptr{stderr, to.Fd(), outcome.Fd()} {
		fd, err := syscall.Dup(int(file)) // a duplicate is inherited
		if err != nil {
			return 0, err
		}
		defer func() { _ = syscall.Close(fd) }() // the file stays open
		self = append(self, strconv.Itoa(fd))
	}
	return fork(executable(), append(append(self, path), args...), env, attr, null.Fd())
}

// executable returns the path of the running program, or "" if it is not known.
func executable() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe" // this very program, also when its file was deleted or replaced
	}
	path, _ := os.Executable() // the error is no path
	return path
}

// readOutcome returns when the command runs, with nil, or when the new process has ended.
func readOutcome(r io.Reader) error {
	text, _ := io.ReadAll(r) // exec closes the pipe; a text that is cut off counts as not written
	switch len(text) {
	case 0:
		return errSilent
	case len(announced):
		return nil
	}
	number, _ := strconv.Atoi(string(text[len(announced):])) // become wrote it
	return syscall.Errno(number)
}

func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

// The main goroutine is on the main thread here, the only one to which the kernel may have tied the death of the parent.
func init() {
	if len(os.Args) > 5 && os.Args[0] == role {
		become(os.Args[1:4], os.Args[4], os.Args[5:])
		os.Exit(1) // only the outcome counts
	}
}

// become announces this process and replaces it by the command. It returns if that is not possible.
func become(descriptors []string, path string, args []string) {
	fds := make([]int, 0, 3)
	for _, text := range descriptors {
		fd, err := strconv.Atoi(text)
		if err != nil {
			return
		}
		syscall.CloseOnExec(fd)
		fds = append(fds, fd)
	}
	_ = syscall.Close(stderr) // the lowest free number is that of the next duplicate
	if fd, err := syscall.Dup(fds[0]); err != nil || fd != stderr {
		return
	}
	write(fds[1], line(os.Getpid()))
	write(fds[2], announced)
	if number, is := errors.AsType[syscall.Errno](syscall.Exec(path, args, os.Environ())); is {
		write(fds[2], strconv.Itoa(int(number)))
	}
}

// line is how an id is announced.
func line(pid int) string { return strconv.Itoa(pid) + "\n" }

// write ignores errors: a reader that has ended needs nothing.
func write(fd int, text string) { _, _ = syscall.Write(fd, []byte(text)) }
