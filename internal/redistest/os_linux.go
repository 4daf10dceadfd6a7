package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill the child when this process ends, so that a crashed test leaves no server.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// checkStopped returns nil once a SIGSTOP has taken effect.
func checkStopped(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	// The format is "pid (name) state …", and a name may contain any character.
	if i := bytes.LastIndexByte(stat, ')'); !bytes.HasPrefix(stat[i+1:], []byte(" T")) {
		return errors.New("the process still runs after SIGSTOP")
	}
	return nil
}
