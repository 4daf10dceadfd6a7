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

// process is one child. A nil process is one that ended.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once the child is gone and reaped
}

// spawn starts binary with env added to the environment, dir as its folder and its output in the log file there.
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
	// Ends with the child; kill ends that and waits on exited.
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run holds its thread as long as the child lives: the kernel's "parent" whose death kills the child is the thread that
// forked it, not the process.
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
	_ = p.cmd.Process.Kill() // it fails only when the child is gone, which is what we want
	<-p.exited
}

// pause returns once the child stands still; the signal alone only asks for it.
func (p *process) pause() error {
	if err := p.signal(pauseSignal); err != nil {
		return err
	}
	return await(startLimit, p.exited, func() error { return standsStill(p.pid()) })
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

// logTail returns the last n lines of the log in dir, or why they cannot be read.
func logTail(dir string, n int) string {
	text, err := os.ReadFile(logName(dir))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// await calls check until it returns nil. It gives up after limit, with what check said last, and at once when exited
// closes; a nil exited never does.
func await(limit time.Duration, exited <-chan struct{}, check func() error) error {
	deadline := time.After(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return errors.New("the process ended by itself")
		case <-deadline:
			return fmt.Errorf("not within %v: %w", limit, err)
		case <-time.After(pollEvery):
		}
	}
}
