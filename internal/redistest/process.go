package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const pollEvery = 5 * time.Millisecond

// process is one child process. A nil process has ended.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once the child is gone and reaped
}

// spawn starts binary in the folder dir, with env added to the environment. Its output goes to the log file in dir.
func spawn(binary string, args, env []string, dir string) (*process, error) {
	log, err := os.OpenFile(logName(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = dieWithParent()

	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	// Ends with the child. kill ends the child and waits for exited.
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run locks its thread for as long as the child lives. The kernel kills the child when the thread that forked it ends, not when
// the process does.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the child and waits for its end.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it fails only if the child has already ended
	<-p.exited
}

// pause stops the child and waits until it has stopped: the signal takes effect later.
func (p *process) pause() error {
	if err := p.signal(pauseSignal); err != nil {
		return err
	}
	return await(startTimeout, p.exited, func() error { return checkStopped(p.pid()) })
}

func (p *process) signal(sig os.Signal) error {
	if p == nil {
		return fmt.Errorf("redistest: %w", os.ErrProcessDone)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	return nil
}

func logName(dir string) string { return filepath.Join(dir, "redis.log") }

// logTail returns the last n lines of the log in dir, or the error if it cannot be read.
func logTail(dir string, n int) string {
	text, err := os.ReadFile(logName(dir))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// await calls check until it returns nil. After timeout it returns the last error of check. If exited is closed, it returns an
// error at once. exited may be nil. It calls ever less often: most checks take a connection, and some wait for seconds.
func await(timeout time.Duration, exited <-chan struct{}, check func() error) error {
	deadline := time.After(timeout)
	for pause := pollEvery; ; pause = min(pause*5/4, 10*pollEvery) {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return errors.New("the process ended by itself")
		case <-deadline:
			return fmt.Errorf("not within %v: %w", timeout, err)
		case <-time.After(pause):
		}
	}
}
