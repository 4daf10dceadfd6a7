package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// dieWithParent makes the kernel kill the child when we end, so that a crashed test leaves no server.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// standsStill returns nil once a SIGSTOP has taken effect.
func standsStill(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return err
	}
	// "pid (name) state …", and a name may hold anything.
	if i := bytes.LastIndexByte(stat, ')'); !bytes.HasPrefix(stat[i+1:], []byte(" T")) {
		return errors.New("still runs after SIGSTOP")
	}
	return nil
}
