//go:build unix

package run

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/exit"
	"github.com/fairsem/fairsem/cmd/fairsem/internal/orphan"
)

// forwarded are the signals that are passed on to the command, and that end the wait for a permit.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// jobControl are the signals that stop and continue a job.
var jobControl = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}

// child is the command. It leads a process group of its own, whose number is its pid.
type child struct {
	pid           int
	process       *os.Process             // the same: on Linux a signal to it reaches no other one that has got its number since
	states        chan syscall.WaitStatus // each stop, and last the end
	usesTerminal  bool
	stopped       bool      // and not continued since by this process
	terminalSince time.Time // when it got the terminal last
}

// terminalGrace is how soon after the child got the terminal a stop is still attributed to not having had it.
const terminalGrace = time.Second

// startChild starts the command with the files of this process, and has g know its group. It must be called on the main
// thread, for the kernel kills the child when the thread that started it ends.
func startChild(g *guard, path string, args, env []string) (*child, error) {
	orphan.Adopt()
	attr := orphan.DieWithParent()
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Setpgid = true
	pid, err := g.startCommand(path, args, env, attr)
	if err != nil {
		return nil, err
	}
	// From here on this process may be in the background, and must neither stop when it writes to the terminal, nor take that back in vain.
	// The command would have inherited this.
	signal.Ignore(syscall.SIGTTOU)
	process, err := os.FindProcess(pid)
	if err != nil { // it never fails where processes have signals
		return nil, err
	}
	c := &child{pid: pid, process: process, states: make(chan syscall.WaitStatus, 1), usesTerminal: interactive()}
	// The child cannot do this itself without ignoring SIGTTOU, and an ignored signal stays so in the
	// command. One that asked for the terminal too early is stopped, and the supervisor has it go on: only
	// then, because a SIGCONT undoes a Ctrl-Z that was faster.
	if c.usesTerminal {
		c.giveTerminal()
	}
	go c.wait() // ends with the last child; not waited for
	return c, nil
}

// wait waits for the child, and until this process has no children for all others, like the first process of a system: orphans that were
// handed to it are zombies until then, which take a process number each.
func (c *child) wait() {
	for ended := false; ; {
		var state syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &state, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil && ended:
			return
		case err != nil: // nothing else waits for the child
			c.states <- exit.Failure << 8
			return
		case pid == c.pid && !ended:
			c.states <- state
			ended = !state.Stopped()
		}
	}
}

// signal sends s to the whole group, and to a child that has moved to another one, and reports whether the signal may have reached a
// process. A group that is gone needs none.
func (c *child) signal(s os.Signal) (reached bool) {
	if s == syscall.SIGCONT {
		c.stopped = false
	}
	group, err := unix.Getpgid(c.pid)
	own := group == syscall.Getpgrp() // which has had the signals of keys already
	if err == nil && group != c.pid && (!own || s == syscall.SIGTERM || s == syscall.SIGKILL) && errors.Is(c.process.Signal(s), syscall.EPERM) {
		return false
	}
	return syscall.Kill(-c.pid, s.(syscall.Signal)) != syscall.EPERM
}

// groupLives reports whether a process of the group exists. It reaps orphans that were handed to this process.
func (c *child) groupLives() bool {
	for {
		pid, err := syscall.Wait4(-c.pid, nil, syscall.WNOHANG, nil)
		if err != syscall.EINTR && pid <= 0 {
			break
		}
	}
	return lives(c.pid)
}

// lives reports whether a process of a group exists. EPERM means that all of them are another user's, such as of sudo.
func lives(group int) bool {
	err := syscall.Kill(-group, 0)
	return err == nil || err == syscall.EPERM
}

// terminal is a file of the terminal that this process can be stopped by, also if no standard file is: ssh and sudo ask there for a
// password. -1: there is none.
var terminal = sync.OnceValue(func() int {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		return fd
	}
	for fd := range 3 { // in a root directory without devices
		if term.IsTerminal(fd) {
			return fd
		}
	}
	return -1
})

// interactive reports whether the command gets the terminal at the start. A command that writes into a pipe leaves the
// terminal to the reader of the pipe, and gets it when it asks.
func interactive() bool { return term.IsTerminal(0) && term.IsTerminal(1) }

// giveTerminal gives the terminal to the child's group, if this process's group has it, and reports whether that resolves
// a stop caused by not having it. A child that has had it for longer has stopped for another reason, such as a run within
// a run.
func (c *child) giveTerminal() bool {
	switch foreground() {
	case c.pid:
		return time.Since(c.terminalSince) < terminalGrace
	case syscall.Getpgrp():
		c.terminalSince = time.Now()
		return setForeground(c.pid)
	}
	return false
}

// reclaimTerminal takes the terminal back, if the child has it or no living group has it.
func (c *child) reclaimTerminal() bool {
	group := foreground()
	if group != c.pid && (group <= 0 || lives(group)) {
		return false
	}
	return setForeground(syscall.Getpgrp())
}

// foreground is the group that has the terminal; 0: there is none.
func foreground() int {
	group, err := unix.IoctlGetInt(terminal(), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// inBackground reports whether another group has the terminal.
func inBackground() bool {
	group := foreground()
	return group != 0 && group != syscall.Getpgrp()
}

func setForeground(group int) bool {
	return unix.IoctlSetPointerInt(terminal(), unix.TIOCSPGRP, group) == nil
}
