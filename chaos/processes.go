package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fairsem/fairsem/internal/history"
)

// processSet is the processes of a run.
type processSet struct {
	binary  string
	folder  string                    // for the journals
	config  workerConfig              // the common part of the configurations of all processes
	address func(int, string) address // of the nth process, in a role

	mu      sync.Mutex
	members []*process // also those that were killed; guarded by mu
}

// process is one process of the run, as the program that starts and strikes it sees it.
type process struct {
	name      string
	role      string
	journal   string
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	stdinJSON *json.Encoder // to stdin
	stderr    bytes.Buffer  // may be read once the process has ended
	exited    chan struct{}
	exitErr   error // of the process; set before exited is closed

	mu          sync.Mutex
	pauses      []span // when it did not run; guarded by mu
	pausedSince int64  // 0: it runs; guarded by mu
	killed      int64  // the last time at which it may have run; 0: it was not killed; guarded by mu
}

// span is the time between two values of [history.Now].
type span struct{ from, to int64 }

// startWorker starts a process with the role of a worker.
func (s *processSet) startWorker() error { return s.start(roleWorker) }

// start starts a process with a role.
func (s *processSet) start(role string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	proc := &process{name: fmt.Sprintf("w%d", len(s.members)+1), role: role, exited: make(chan struct{})}
	proc.journal = filepath.Join(s.folder, proc.name+".jsonl")
	if err := os.WriteFile(proc.journal, nil, 0o600); err != nil { // it may be killed before it has one
		return err
	}
	proc.cmd = exec.Command(s.binary, workerArg)
	proc.cmd.SysProcAttr = dieWithParent()
	proc.cmd.Stderr = &proc.stderr
	var err error
	if proc.stdin, err = proc.cmd.StdinPipe(); err != nil {
		return err
	}
	started := make(chan error)
	go proc.run(started) // ends with the process, for which stop waits
	if err := <-started; err != nil {
		return err
	}
	s.members = append(s.members, proc)
	o := s.config
	o.Process, o.Role, o.Journal, o.Address = proc.name, role, proc.journal, s.address(len(s.members), role)
	o.Seed += uint64(len(s.members))
	proc.stdinJSON = json.NewEncoder(proc.stdin)
	return proc.stdinJSON.Encode(o)
}

// acquireSeat makes a process on call acquire the seat.
func (proc *process) acquireSeat(timeout, hold time.Duration) error {
	return proc.stdinJSON.Encode(seatRequest{timeout, hold})
}

// run locks its thread until the process has ended: the kernel kills the child when that thread ends.
func (proc *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := proc.cmd.Start()
	started <- err
	if err == nil {
		proc.exitErr = proc.cmd.Wait()
		close(proc.exited)
	}
}

// onCall returns the processes on call. No fault kills them.
func (s *processSet) onCall() []*process {
	return slices.DeleteFunc(s.all(), func(proc *process) bool { return proc.role != roleOnCall })
}

// alive returns the workers that have not been killed.
func (s *processSet) alive() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*process
	for _, proc := range s.members {
		if proc.role == roleWorker && proc.killedAt() == 0 {
			all = append(all, proc)
		}
	}
	return all
}

func (s *processSet) all() []*process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*process(nil), s.members...)
}

// randomWorker returns a worker that has not been killed.
func (s *processSet) randomWorker(random *rand.Rand) *process {
	workers := s.alive()
	return workers[random.IntN(len(workers))]
}

// aliveNamed returns the worker of that name, or nil if it was killed.
func (s *processSet) aliveNamed(name string) *process {
	for _, proc := range s.alive() {
		if proc.name == name {
			return proc
		}
	}
	return nil
}

func (proc *process) killedAt() int64 {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	return proc.killed
}

// kill ends the process with SIGKILL. Its permits count until just before that or, if it was paused, until the pause: its
// later calls are unknown.
func (proc *process) kill() {
	proc.mu.Lock()
	if proc.killed == 0 {
		proc.killed = history.Now()
		if proc.pausedSince > 0 {
			proc.killed = proc.pausedSince
		}
	}
	proc.mu.Unlock()
	_ = proc.cmd.Process.Kill() // fails if the process has ended
	<-proc.exited
}

// pause stops the process with SIGSTOP.
func (proc *process) pause() error {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	proc.pausedSince = history.Now()
	return proc.cmd.Process.Signal(syscall.SIGSTOP)
}

// resume continues the process.
func (proc *process) resume() error {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	err := proc.cmd.Process.Signal(syscall.SIGCONT)
	if proc.pausedSince > 0 {
		proc.pauses = append(proc.pauses, span{proc.pausedSince, history.Now()})
	}
	proc.pausedSince = 0
	return err
}

// stalledFor returns how long the process did not run between two times, because it was paused or because the machine was busy.
func (proc *process) stalledFor(from, to int64) time.Duration {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	var still int64
	for _, s := range proc.pauses {
		still += max(0, min(s.to, to)-max(s.from, from))
	}
	return time.Duration(still)
}

// diedOf reports whether a signal ended the process, which has ended: one that is struck may have ended by itself just before.
func (proc *process) diedOf(signal syscall.Signal) bool {
	status, ok := proc.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// exitTimeout is how long a process may take to release its permits and end.
const exitTimeout = 15 * time.Second

// stop ends all processes. It returns an error for each process that does not end or that fails.
func (s *processSet) stop() error {
	all := s.all()
	for _, proc := range all {
		_ = proc.resume()      // fails if the process has ended
		_ = proc.stdin.Close() // likewise
	}
	late := time.After(exitTimeout)
	var errs []error
	for _, proc := range all {
		select {
		case <-proc.exited:
		case <-late:
			late = time.After(0) // for the others, too
			proc.kill()
			errs = append(errs, fmt.Errorf("worker %s: it has not ended after %v", proc.name, exitTimeout))
			continue
		}
		if proc.exitErr != nil && (proc.killedAt() == 0 || !proc.diedOf(syscall.SIGKILL)) {
			errs = append(errs, fmt.Errorf("worker %s: %w: %s", proc.name, proc.exitErr, strings.TrimSpace(proc.stderr.String())))
		}
	}
	return errors.Join(errs...)
}

// histories returns the calls of all processes, which must have ended. Permits of killed processes end when they were killed.
func (s *processSet) histories() ([]*call, error) {
	var all []*call
	for _, proc := range s.all() {
		calls, err := readJournal(proc.journal)
		if err != nil {
			return nil, err
		}
		var mine []*call
		for _, c := range calls {
			if c.Name == stallName {
				proc.pauses = append(proc.pauses, span{c.Asked, c.Returned})
				continue
			}
			c.endAt(proc.killedAt())
			mine = append(mine, c)
		}
		proc.pauses = merge(proc.pauses)
		for _, c := range mine {
			// A process that does not run cannot be notified, so the time for which it did not run may be that by which it was late.
			// Callers that check their context show what it sees when it continues.
			if c.Awaited {
				c.Released = max(c.Granted, c.Released-int64(proc.stalledFor(c.Granted, c.Released)))
			}
		}
		all = append(all, mine...)
	}
	return all, nil
}

// merge returns the spans without overlaps: who stops a process records that, and so does the process when it continues.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var merged []span
	for _, s := range spans {
		if last := len(merged) - 1; last >= 0 && s.from <= merged[last].to {
			merged[last].to = max(merged[last].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// endAt ends the permit of a call whose process was killed at that time. If the process was not killed, the time is 0.
func (c *call) endAt(killed int64) {
	if killed > 0 && c.Granted > 0 && c.Released == 0 {
		c.Released, c.Lost = max(killed, c.Granted), true
	}
}
