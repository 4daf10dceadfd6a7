//go:build unix

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/fairsem/fairsem/cmd/fairsem/internal/announce"
)

// guardScript ends, when its input does, the process group of the last line. An empty line is none.
const guardScript = `trap "" HUP INT TERM; while read -r line; do group=$line; done; test -z "$group" || kill -s KILL -- "-$group"`

// guard is a process that outlives a kill -9 of this one, by an administrator or for lack of memory, and ends the group of
// the command. A nil guard does nothing.
type guard struct {
	cmd   *exec.Cmd
	stdin *os.File
}

const shell = "/bin/sh"

// startGuard returns nil where there is no shell, and an error if there is one that cannot be started. Without a guard the kernel ends the
// command, on Linux, and nothing ends the processes that the command has started.
func startGuard() (*guard, error) {
	if _, err := os.Stat(shell); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	stdin, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdin.Close() }() // the guard has its own
	cmd := exec.Command(shell, "-c", guardScript, "fairsem-guard")
	cmd.Stdin, cmd.Env, cmd.Dir = stdin, []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // signals of the terminal are for the command
	if err := cmd.Start(); err != nil {
		_ = writer.Close() // nothing was written
		return nil, err
	}
	return &guard{cmd, writer}, nil
}

// startCommand starts a command whose pid is that of its group. The guard knows the group before the command runs, so it
// misses nothing that the command starts, whenever this process is killed.
func (g *guard) startCommand(path string, args, env []string, attr *syscall.SysProcAttr) (pid int, err error) {
	if g == nil {
		return announce.Fork(path, args, env, attr)
	}
	return announce.Start(g.stdin, path, args, env, attr)
}

// stop must be called when the group is gone: another group can get its number.
func (g *guard) stop() {
	if g != nil {
		_, _ = fmt.Fprintln(g.stdin) // one that was killed guards nothing
		_ = g.stdin.Close()
		_ = g.cmd.Wait() // an error: the child waits for all, and was first
	}
}
