//go:build unix

package run

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guardScript ends, when its input does, the process group of the last line. An empty line is none.
const guardScript = `trap "" HUP INT TERM; while read -r line; do group=$line; done; test -z "$group" || kill -s KILL -- "-$group"`

// guard is a process that outlives a kill -9 of this one, by an administrator or for lack of memory. A nil guard does
// nothing.
type guard struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// startGuard returns nil where there is no shell. Without a guard the kernel ends the command, on Linux, and nothing
// ends what that has started.
func startGuard() *guard {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "fairsem-guard")
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what the terminal sends is for the command
	word, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	return &guard{cmd, word}
}

// watch makes the guard end the group if this process ends before stop is called.
func (g *guard) watch(group int) {
	if g != nil {
		_, _ = fmt.Fprintln(g.stdin, group) // one that was killed guards nothing
	}
}

// stop must be called when the group is gone: another group can get its number.
func (g *guard) stop() {
	if g != nil {
		_, _ = fmt.Fprintln(g.stdin) // as above
		_ = g.stdin.Close()
		_ = g.cmd.Wait()
	}
}
